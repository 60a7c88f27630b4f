"""What code takes from an installed module or class, and how much of it is the user's.

What a library holds is a token; what a user put there, or may change there, is walked.
"""

from __future__ import annotations

import collections
import functools
import sys
import types
from typing import Any

from . import origin
from .readable import ATOMS

MISSING = object()
WRAPPERS = 8  # layers of `__wrapped__` that are looked through
_CHANGEABLE = (
    dict,
    list,
    tuple,
    set,
    frozenset,
    collections.deque,
    types.SimpleNamespace,
    functools.partial,
)
_first: dict[str, Any] = {}


def reached(value: Any, names: tuple[str, ...]) -> Any:
    """What code reads off an object of a library, if that is data, else the object."""
    held = value
    for name in names:
        if isinstance(held, type | types.FunctionType):
            held = _static(held, name)
        else:
            try:
                held = getattr(held, name)
            except Exception:  # a property may raise anything
                return value
        if held is MISSING:
            return value
    return held if is_data(held) else value


def is_data(value: Any) -> bool:
    """Whether a value is plain, so that it has to be read to know it."""
    return (
        type(value) in ATOMS
        or isinstance(value, _CHANGEABLE)
        or (type(value).__module__ == "numpy" and hasattr(value, "tobytes"))
    )


def is_walked(value: Any, place: str) -> bool:
    """Whether the name of the place says too little of what a library holds there.

    Args:
        value: What is held.
        place: Its token.
    """
    if is_data(value) or isinstance(value, type) or holds_user_code(value):
        return True
    if own_token(value):
        return False
    return _first.setdefault(place, value) is not value


def own_token(value: Any) -> str:
    """A token for a value that its library holds under the value's own name."""
    try:
        module = sys.modules.get(origin.module_name(value))
        if module is None or origin.is_user_module(module):
            return ""
        held = origin.found(module, value)
    except Exception:  # a proxy's attribute access may raise anything
        return ""
    if not held:
        return ""
    name = getattr(value, "__qualname__", None) or value.__name__
    return origin.library_token(module.__name__, name)


def holds_user_code(value: Any, *, captured: bool = True) -> bool:
    """Whether a library's attribute was replaced by the user, or wraps user code.

    Args:
        value: The attribute.
        captured: Whether what a function captured counts: it may be the user's.
    """
    for _ in range(WRAPPERS):
        if isinstance(value, types.FunctionType):
            if (captured and value.__closure__) or origin.is_user_code(
                value.__code__, value.__globals__
            ):
                return True
        elif origin.is_user_class(value if isinstance(value, type) else type(value)):
            return True
        value = _inside(value)
        if value is MISSING:
            break
    return False


def _inside(value: Any) -> Any:
    """What a wrapper wraps, or MISSING."""
    if isinstance(value, types.MethodType | classmethod | staticmethod):
        return value.__func__
    if isinstance(value, functools.partial | functools.partialmethod):
        return value.func
    if isinstance(value, property):
        return value.fget
    if isinstance(value, type):
        return MISSING
    try:
        return getattr(value, "__wrapped__", MISSING)
    except Exception:  # a proxy may raise anything
        return MISSING


def _static(held: Any, name: str) -> Any:
    """What a class or a function holds under a name, without running its code."""
    bases = held.__mro__ if isinstance(held, type) else (held,)
    found = next((vars(b)[name] for b in bases if name in vars(b)), MISSING)
    return MISSING if hasattr(type(found), "__get__") else found
