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


def text_of(value: Any) -> str:
    """A short readable form of a constant, or '' for what has none."""
    kind = type(value)
    if kind in ATOMS:
        if kind in (str, bytes):
            value = value[:TEXT]
        elif kind is int and value.bit_length() > 200:
            return "a large integer"
        return _cut(repr(value))
    if kind in (list, tuple, dict, set, frozenset):
        return _text_of_container(value)
    if issubclass(kind, types.ModuleType):
        return f"module {value.__name__}"
    return _text_of_array(value)


def _text_of_container(value: Any) -> str:
    if not value:
        return repr(value)
    if len(value) > 12:
        return f"{type(value).__name__} of {len(value)}"
    parts = list(value.values()) if type(value) is dict else list(value)
    if all(type(part) in ATOMS for part in parts):
        return _cut(repr(value)) if _short(value) else f"{type(value).__name__}"
    return f"{type(value).__name__} of {len(value)}"


def _short(value: Any) -> bool:
    keys = list(value) if type(value) is dict else []
    parts = [*keys, *value.values()] if type(value) is dict else list(value)
    return all(type(part) in ATOMS and not _is_long(part) for part in parts)


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
