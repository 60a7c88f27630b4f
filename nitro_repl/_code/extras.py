"""What a user put on a value beside what its kind says: attributes, a subclass.

Installed kinds keep caches and locks in their attributes; only what is the user's is
taken.
"""

from __future__ import annotations

import enum
import functools
import logging
from typing import Any

from . import origin
from .classes import class_reference, slots_of
from .walk import Expand, Piece, Walk, attributes

_WRAPPER = frozenset(["__wrapped__", "cache_parameters"])
_LOGGER = frozenset(vars(logging.Logger("")))


def beside(content: Expand) -> Expand:
    """The content of a kind, then what the user put beside it."""

    def expand(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
        inside = content(walk, value, piece, kids)
        return "\n".join([inside, *_extras(walk, value, piece, kids)])

    return expand


def _extras(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> list[str]:
    kind = type(value)
    names: dict[str, Any] = dict(getattr(value, "__dict__", None) or {})
    label: list[str] = []
    if isinstance(value, enum.Enum):
        names = {name: names[name] for name in names if name[:1] != "_"}
    elif isinstance(value, logging.Logger):
        names = {name: names[name] for name in names if name not in _LOGGER}
    elif origin.is_user_class(kind):
        label.append(class_reference(walk, kind, piece, kids))
        names |= slots_of(value, origin.is_user_class)
    elif isinstance(value, logging.Filterer | logging.LoggerAdapter):
        names = {}  # locks and streams
    elif isinstance(value, functools._lru_cache_wrapper):
        names = {name: names[name] for name in names if name not in _WRAPPER}
    return label + attributes(walk, names, piece, kids)
