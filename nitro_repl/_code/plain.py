"""One text for a container of plain constants, however many it holds.

Equal texts mean equal content; only exact built-in types are written, by C code.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from .readable import ATOMS
from .references import hash_text

_CONTAINERS = frozenset([list, tuple, dict])
_DEPTH = 4
_MANY = 4_000_000  # values inside inner containers; one may be inside very often
_SHORT = 200


def plain_text(value: Any) -> str | None:
    """The content of a list, a tuple or a dict, or None if it is not all plain.

    Plain are constants, and containers of plain values, a few deep. What a long one
    says is given as a digest.
    """
    if type(value) not in _CONTAINERS or not _is_plain(value):
        return None
    try:
        text = repr(value)
    except ValueError:  # an integer too long to write
        return None
    return text if len(text) <= _SHORT else f"{type(value).__name__} {hash_text(text)}"


def _is_plain(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(_DEPTH):
        kinds = set(map(type, _inside(level)))
        held = kinds - ATOMS
        if not held:
            return True
        if not held <= _CONTAINERS:
            return False
        level = list(_inside(level))
        if kinds != held:
            level = [one for one in level if type(one) in _CONTAINERS]
        if sum(map(len, level)) > _MANY:
            return False
    return False


def _inside(containers: list[Any]) -> Iterable[Any]:
    """What containers hold, the keys of dicts too."""
    values = chain.from_iterable(containers)
    if dict not in set(map(type, containers)):
        return values
    dicts = [one for one in containers if type(one) is dict]
    return chain(values, chain.from_iterable(map(dict.values, dicts)))
