"""Names that an import bound in another namespace, kept at the newest value.

A name is bound anew only while it still stands for the old value and an import put it
there; what a user assigned stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

from .execution import MISSING, Moved
from .gone import gone
from .outline import Outline, absolute, merged, outline

_NOTHING = merged(())


@dataclass(frozen=True)
class Namespace:
    """A namespace of the user, and what is known of how its names were bound.

    Attributes:
        names: The namespace.
        outline: Of the source that filled it.
        package: What relative imports in it start from.
        known: Whether `outline` says it all: else a name that it does not know counts
            as imported under its own name.
    """

    names: dict[str, Any]
    outline: Outline = _NOTHING
    package: str = ""
    known: bool = False

    def follow(self, module: str, moved: Moved) -> Moved:
        """Bind the copies of a module's names anew; which names changed here.

        A copy of a name that is gone stays, and is noted: its new value is missing.
        """
        changed: Moved = {}
        for name, attr in self._copies(module, moved).items():
            old, new = moved[attr]
            held = self.names.get(name, MISSING)
            if held is MISSING or held is not old or held is new:
                continue
            if new is MISSING:
                gone.add_copy(self.names, name, module, attr)
            else:
                self.names[name] = new
            changed[name] = (old, new)
        return changed

    def _copies(self, module: str, moved: Moved) -> Mapping[str, str]:
        """Local name -> the name in the module that it may be a copy of."""
        copies: dict[str, str] = {}
        stars = {absolute(star, self.package): star for star in self.outline.stars}
        if module in stars or not self.known:
            bound = self.outline.since.get(stars.get(module, ""), self.outline.bound)
            unbound = moved.keys() - bound
            copies = {
                name: name
                for name in unbound
                if name[:2] != "__"
                and (module in stars or _may_be_of(module, *moved[name]))
            }
        for name, imported in self.outline.imported.items():
            if imported.name in moved and self._is(imported.module, module):
                copies[name] = imported.name
        return copies

    def _is(self, imported: str, module: str) -> bool:
        return absolute(imported, self.package) == module


def _may_be_of(module: str, old: Any, new: Any) -> bool:
    """Whether a name of unknown origin may be a copy; one that is gone says whose.

    `math` in two namespaces is no copy of the one in a file that imports it no longer.
    """
    if new is not MISSING:
        return True
    return not isinstance(old, ModuleType) and (
        getattr(old, "__module__", module) == module
    )


def notebook(names: dict[str, Any]) -> Namespace:
    """A notebook's namespace: the cells that are kept say what bound what."""
    cells = names.get("In")
    if not isinstance(cells, list):
        return Namespace(names)
    sources = [cell for cell in cells if isinstance(cell, str)]
    return Namespace(names, merged(map(outline, sources)))


def cell_number(names: dict[str, Any], name: str) -> int:
    """The number of the cell that last bound a name, 0 if none is known."""
    cells = names.get("In")
    for number in range(len(cells) - 1 if isinstance(cells, list) else 0, 0, -1):
        source = cast(list[Any], cells)[number]
        if isinstance(source, str) and name in outline(source).bound:
            return number
    return 0


Provider = Callable[[], dict[str, Any] | None]
"""Gives a namespace that copies may stand in, while there is one."""
