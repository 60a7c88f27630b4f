"""Says which classes of a notebook inherit from one that a cell has defined anew.

As everywhere in Python they go on with the class that they were made from until their
own cell runs again; of an experiment or a model that would be a silent old version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._code.copies import cell_number
from .._code.holders import Held
from .._programs.disk import held_words
from .._run import registry
from .._text import tell


class Subclasses:
    """Follows the classes of one shell.

    Args:
        names: Gives the namespace.
    """

    def __init__(self, names: Callable[[], dict[str, Any]]):
        self._names = names
        self._before: dict[str, type] = {}

    def before_cell(self) -> None:
        """A cell begins."""
        items = list(self._names().items())
        self._before = {name: kind for name, kind in items if isinstance(kind, type)}

    def after_cell(self) -> None:
        """A cell has ended; nothing is said as long as nothing was trained."""
        before, self._before = self._before, {}
        if registry.runs:
            for held in self._left(before):
                tell(held_words(held))

    def _left(self, before: dict[str, type]) -> Iterator[Held]:
        names = self._names()
        for name, old in before.items():
            new = names.get(name)
            if new is old or not isinstance(new, type) or issubclass(new, old):
                continue
            if _identity(new) == _identity(old):
                for kind in _descendants(old):
                    if names.get(kind.__name__) is kind:
                        cell = cell_number(names, kind.__name__)
                        yield Held(kind.__name__, name, cell)


def _identity(kind: type) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def _descendants(kind: type) -> list[type]:
    """The classes that inherit from one, each once."""
    found: dict[type, None] = {}
    for child in type.__subclasses__(kind):
        found |= dict.fromkeys([child, *_descendants(child)])
    return list(found)
