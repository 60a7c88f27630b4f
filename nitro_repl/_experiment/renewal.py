"""Values of classes that were run again: as the newest class would have them.

`mode is Mode.FAST` goes on holding after the cell of `Mode` ran again; content is kept,
only identity moves on.
"""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Iterable, Mapping
from typing import Any

Spaces = Iterable[Mapping[str, Any]]


def renewed(value: Any, spaces: Spaces) -> Any:
    """The value with enum members and dataclasses of the newest classes.

    Args:
        value: Of a field or a class attribute; containers are looked through.
        spaces: Namespaces in which the user's code looks names up.

    Returns:
        The value itself where nothing in it is of an older class.
    """
    kind = type(value)
    if isinstance(value, enum.Enum):
        newest = newest_class(kind, spaces)
        return getattr(newest, "__members__", {}).get(value.name, value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _renewed_dataclass(value, newest_class(kind, spaces), spaces)
    held: Any = value
    if kind in (list, tuple):
        items = [renewed(item, spaces) for item in held]
        return held if _same(items, held) else kind(items)
    if kind is dict:
        made = {key: renewed(item, spaces) for key, item in held.items()}
        return held if _same(made.values(), held.values()) else made
    return value


def newest_class(kind: type, spaces: Spaces) -> type:
    """The class that now has the name of this one, or the class itself."""
    first, *rest = kind.__qualname__.split(".")
    module = sys.modules.get(kind.__module__)
    for space in (*spaces, vars(module) if module is not None else {}):
        found: Any = space.get(first)
        for part in rest:
            found = getattr(found, part, None)
        if (
            isinstance(found, type)
            and found.__qualname__ == kind.__qualname__
            and found.__module__ == kind.__module__
        ):
            return found
    return kind


def _renewed_dataclass(value: Any, newest: type, spaces: Spaces) -> Any:
    names = [field.name for field in dataclasses.fields(value)]
    held = [getattr(value, name) for name in names]
    items = [renewed(item, spaces) for item in held]
    if newest is type(value) and _same(items, held):
        return value
    fields = getattr(newest, "__dataclass_fields__", {})
    if set(fields) != set(names):
        return value
    made = object.__new__(newest)
    for name, item in zip(names, items, strict=True):
        object.__setattr__(made, name, item)  # as it was made, without __post_init__
    return made


def _same(items: Iterable[Any], held: Iterable[Any]) -> bool:
    return all(item is old for item, old in zip(items, held, strict=True))
