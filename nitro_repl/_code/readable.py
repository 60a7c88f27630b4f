"""A short text for a constant, cheap whatever its size.

No code of the user runs for it: no repr, no property.
"""

from __future__ import annotations

import types
from typing import Any

from . import origin

TEXT = 60
ATOMS = frozenset(
    [type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented)]
)
CONTAINERS = frozenset([list, tuple, dict, set, frozenset])
_ITEMS, _NESTED = 12, 3


def text_of(value: Any) -> str:
    """A short readable form of a constant, or '' for what has none."""
    kind = type(value)
    if kind in ATOMS:
        if kind in (str, bytes):
            value = value[:TEXT]
        elif kind is int and value.bit_length() > 200:
            return "a large integer"
        return _cut(repr(value))
    if kind in CONTAINERS:
        return _text_of_container(value)
    if issubclass(kind, types.ModuleType):
        return f"module {value.__name__}"
    return _text_of_array(value)


def _text_of_container(value: Any) -> str:
    if not value:
        return repr(value)
    if len(value) > _ITEMS or not _is_plain(value, _NESTED):
        return f"{type(value).__name__} of {len(value)}"
    return _cut(repr(value))


def _is_plain(value: Any, nested: int) -> bool:
    """Whether it is made of a few short constants, so that its repr is quick."""
    kind = type(value)
    if kind in ATOMS:
        return not _is_long(value)
    if kind not in CONTAINERS or len(value) > _ITEMS or not nested:
        return False
    parts = [*value, *value.values()] if kind is dict else value
    return all(_is_plain(part, nested - 1) for part in parts)


def _is_long(part: Any) -> bool:
    if type(part) is int:
        return part.bit_length() > 200
    return hasattr(part, "__len__") and len(part) > 200


def _text_of_array(value: Any) -> str:
    if origin.is_user_class(type(value)):
        return ""  # its attributes may be properties
    try:
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    except Exception:  # a deleted array, a proxy
        return ""
    if not isinstance(shape, tuple) or dtype is None:
        return ""
    kind, size = getattr(dtype, "kind", "?"), getattr(dtype, "itemsize", 0)
    names = {"f": "f", "i": "i", "u": "u", "c": "c"}
    short = f"{names[kind]}{8 * size}" if kind in names else str(dtype)
    return f"array {short}[{','.join(map(str, shape))}]"


def _cut(text: str) -> str:
    return text if len(text) <= TEXT else text[: TEXT - 3] + "..."
