"""Which cell gave each name of a notebook the value that it has.

Found by comparing the namespace before and after a cell, so that it counts whatever the
cell did; a value that was changed in place since is nobody's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .._code.readable import text_of


class Setters:
    """The cells of one shell that last set its names.

    Args:
        names: Gives the namespace.
    """

    def __init__(self, names: Callable[[], Mapping[str, Any]]):
        self._names = names
        self._before: dict[str, int] = {}
        self._set: dict[str, tuple[int, str]] = {}

    def before_cell(self) -> None:
        """A cell begins."""
        self._before = {name: id(value) for name, value in self._names().items()}

    def after_cell(self, number: int) -> None:
        """A cell has ended, as `In [number]`."""
        now = dict(self._names())
        for name, value in now.items():
            if not name.startswith("_") and self._before.get(name) != id(value):
                self._set[name] = number, text_of(value)
        for gone in self._set.keys() - now.keys():
            del self._set[gone]
        self._before = {}

    def cell_of(self, name: str, text: str) -> str:
        """The cell that gave a name this value, or ''."""
        number, said = self._set.get(name, (0, ""))
        return f"In [{number}]" if number and said == text else ""
