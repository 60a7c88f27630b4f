"""What stands for names that the user's files no longer define.

A fresh process would not find them. Here they go on being what they were, so that
nothing that runs breaks; whoever reaches them is told. A name that is back is not gone.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .references import code_info

IMPORTED = "what was imported and is gone from its file:"
"""Begins the reason of code that names it: where that is imported nothing would run."""
HELD = "what is gone from its file:"
"""Begins the reason of whatever else leads to it, perhaps without using it."""


@dataclass(frozen=True)
class _Entry:
    value: Any
    module: dict[str, Any]
    name: str
    said: str

    @property
    def is_gone(self) -> bool:
        return self.name not in self.module


class Gone:
    """Definitions that are gone from their files, and copies of names that are."""

    def __init__(self) -> None:
        self._definitions: dict[int, _Entry] = {}
        self._copies: dict[tuple[int, str], _Entry] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known to be gone."""
        return not self._definitions and not self._copies

    def add(self, module: str, names: dict[str, Any], name: str, value: Any) -> bool:
        """Note that a module's name is gone; whether the value is known by itself.

        Args:
            module: Name of the module.
            names: Its namespace, without the name.
            name: What is gone.
            value: What it stood for.
        """
        self._sweep()
        own = callable(value) and getattr(value, "__module__", None) == module
        if not own or any(held is value for held in list(names.values())):
            return False
        self._definitions[id(value)] = _Entry(value, names, name, f"{module}.{name}")
        return True

    def add_copy(
        self, space: dict[str, Any], local: str, module: str, name: str
    ) -> None:
        """Note that an import bound `local` to a name that is gone from a module."""
        names = vars(sys.modules[module])
        entry = self._copies.get((id(names), name))  # a copy of a copy
        if entry is None or not entry.is_gone:
            entry = _Entry(space[local], names, name, f"{module}.{name}")
        self._copies[id(space), local] = entry

    def definition(self, value: Any) -> str:
        """What a value was defined as, `losses.focal`, if that is gone; else ''."""
        entry = self._definitions.get(id(value))
        return entry.said if entry is not None and entry.is_gone else ""

    def copy(self, space: dict[str, Any], local: str, value: Any) -> str:
        """What a name was imported as, if that is gone; else ''."""
        entry = self._copies.get((id(space), local))
        gone = entry is not None and entry.value is value and entry.is_gone
        return entry.said if entry is not None and gone else ""

    def _sweep(self) -> None:
        """Let go of what is back."""
        self._definitions = {k: e for k, e in self._definitions.items() if e.is_gone}
        self._copies = {k: e for k, e in self._copies.items() if e.is_gone}


def codes_of(value: Any) -> Iterator[str]:
    """Digests of the code that runs where a definition is used."""
    members = vars(value).values() if isinstance(value, type) else (value,)
    for member in members:
        inner = getattr(member, "__func__", getattr(member, "fget", member))
        code = getattr(inspect.unwrap(inner), "__code__", None)
        if isinstance(code, types.CodeType):
            yield code_info(code).digest


gone = Gone()
"""Of this process."""
