"""Reads one value as written, for a target of a known type.

A value is a Python literal, or a bare word where a string or an enum member may stand.
"""

from __future__ import annotations

import ast
import enum
import re
import types
import typing
from typing import Any

from .._text import one_line
from ..errors import MagicError, suggest

_PYTHON_WORDS = {"true": "True", "false": "False", "none": "None", "null": "None"}


def literal(text: str, wanted: Any = Any, name: str = "") -> Any:
    """Read one value for a target of a type.

    Args:
        text: The value as written.
        wanted: The type of the target; `Any` where it is unknown.
        name: The target, for the error.

    Raises:
        MagicError: It is neither a literal nor a word that the target can take.
    """
    for kind in _members(wanted):
        if _is_enum(kind):
            return _enum_member(text, kind, name)
    value = _read(text, wanted, name)
    if typing.get_origin(wanted) is typing.Literal and value not in _members(wanted):
        allowed = ", ".join(map(repr, _members(wanted)))
        raise MagicError(f"`{name}`: `{one_line(text, 40)}` is none of {allowed}")
    return value


def _read(text: str, wanted: Any, name: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        if takes_words(wanted):
            return text
        raise _not_a_literal(text, wanted, name) from None
    if takes_words(wanted) and not isinstance(value, str):
        return value if _accepts(wanted, value) else text
    return value


def takes_words(wanted: Any) -> bool:
    """Whether a bare word may stand for a value of this type."""
    return any(
        kind is str or isinstance(kind, str) or _is_enum(kind)
        for kind in _members(wanted)
    )


def _not_a_literal(text: str, wanted: Any, name: str) -> MagicError:
    what = f"`{name}`: `{one_line(text, 40)}` is not a Python literal"
    if text.lower() in _PYTHON_WORDS:
        return MagicError(what, fix=f"did you mean `{_PYTHON_WORDS[text.lower()]}`?")
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", text):
        return MagicError(what, fix="{...} around an expression has IPython compute it")
    fix = f"{{{text}}} is the value of a variable"
    if wanted in (Any, object):
        fix = f"'{text}' is a string, {fix}"
    return MagicError(what, fix=fix)


def _enum_member(text: str, kind: type[enum.Enum], name: str) -> enum.Enum:
    bare = text.strip("'\"").removeprefix(f"{kind.__name__}.")
    if bare in kind.__members__:
        return kind[bare]
    for member in kind:
        if bare == str(member.value):
            return member
    raise MagicError(
        f"`{name}`: `{one_line(text, 40)}` is no {kind.__name__}",
        fix=suggest(bare, kind.__members__),
    )


def _members(wanted: Any) -> tuple[Any, ...]:
    """The alternatives of a type: the members of a union, the values of a Literal."""
    origin = typing.get_origin(wanted)
    if origin in (typing.Union, types.UnionType):
        return tuple(
            kind for part in typing.get_args(wanted) for kind in _members(part)
        )
    if origin is typing.Literal:
        return typing.get_args(wanted)
    if origin is typing.Annotated:
        return _members(typing.get_args(wanted)[0])
    return (wanted,)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def _accepts(wanted: Any, value: Any) -> bool:
    """Whether a literal that is no string is meant, where a string could stand too."""
    for kind in _members(wanted):
        if kind is None or isinstance(kind, type):
            accepted = type(None) if kind is None else kind
            if isinstance(value, accepted):
                return True
        elif kind == value:
            return True
    return float in _members(wanted) and isinstance(value, int)
