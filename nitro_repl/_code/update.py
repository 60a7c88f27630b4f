"""Brings modules up to date after their files changed, in the order of their imports.

A module runs again if its file changed, or if it computed with something that changed
while it was imported; circular imports end after a second time.
"""

from __future__ import annotations

import heapq
import linecache
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from .._text import said
from .copies import Namespace, cell_number
from .execution import MISSING, Moved, execute
from .gone import gone
from .holders import Held, Holders
from .outline import absolute
from .sameness import same
from .user_file import UserFile

_TIMES = 2  # a module of a circle may need what comes after it


@dataclass(frozen=True)
class Change:
    """One edit of a file that was noticed.

    Attributes:
        module: Name of the module.
        path: Of its file.
        names: What stands for something else now, in the module itself.
        error: Why the old code stays, else None.
        held: What of the user's still stands for something older, or for what is gone.
    """

    module: str
    path: str
    names: tuple[str, ...] = ()
    error: BaseException | None = None
    held: tuple[Held, ...] = ()


class Update:
    """The work of one refresh.

    Args:
        files: Every module that is followed, by name.
        others: Namespaces without a file of their own.
    """

    def __init__(self, files: Mapping[str, UserFile], others: Sequence[Namespace]):
        self._files = files
        self._others = others
        self._codes: dict[str, types.CodeType] = {}
        self._changes: dict[str, Change] = {}
        self._runs: dict[str, int] = {}
        self._queue: list[int] = []
        self._order: list[str] = []
        self._again: set[str] = set()
        self._holders = Holders()
        self._copies: list[Held] = []

    def run(
        self,
        edited: Iterable[UserFile],
        retried: Iterable[UserFile] = (),
        reloaded: Mapping[str, Moved] = MappingProxyType({}),
    ) -> tuple[Change, ...]:
        """Execute what has to be; what was noticed, old failures not again.

        Args:
            edited: Files that hold something else than what runs.
            retried: Files that could not run and may now.
            reloaded: What somebody else's execution of a module has changed in it.
        """
        again = list(retried)
        self._again = {file.name for file in again}
        for file in (*edited, *again):
            self._compile(file)
        self._order = self._sorted()
        for name, moved in reloaded.items():
            path, names = self._files[name].path, tuple(sorted(moved))
            self._changes.setdefault(name, Change(name, path, names))
            self._moved(name, moved)
        for name in self._codes:
            self._push(name)
        while self._queue:
            self._execute(self._files[self._order[heapq.heappop(self._queue)]])
        held = (*self._copies, *self._holders.renew(self._others))
        return self._with_held(tuple(dict.fromkeys(held)))

    def _compile(self, file: UserFile) -> None:
        linecache.checkcache(file.path)
        try:
            self._codes[file.name] = file.compile()
        except (SyntaxError, ValueError) as error:
            self._failed(file, error)

    def _failed(self, file: UserFile, error: BaseException) -> None:
        why = said(error)
        file.failed = True
        if why != file.said or file.name not in self._again:
            self._changes[file.name] = Change(file.name, file.path, (), error)
        file.said = why

    def _push(self, name: str) -> None:
        at = self._order.index(name)
        if at not in self._queue and self._runs.get(name, 0) < _TIMES:
            heapq.heappush(self._queue, at)

    def _with_held(self, held: tuple[Held, ...]) -> tuple[Change, ...]:
        """The changes; the first that ran says what still holds something older."""
        changes = list(self._changes.values())
        for index, change in enumerate(changes):
            if held and change.error is None:
                changes[index] = replace(change, held=held)
                break
        return tuple(changes)

    # -- one module

    def _execute(self, file: UserFile) -> None:
        self._runs[file.name] = self._runs.get(file.name, 0) + 1
        newer = file.name in self._codes
        try:
            code = self._codes[file.name] if newer else file.compile(file.source)
            moved, defined = execute(code, file.names, file.defined)
        except (Exception, SystemExit) as error:
            self._failed(file, error)
            return
        file.defined = defined
        moved = self._with_removed(file, moved)
        if newer:
            file.source, file.failed, file.said = file.content, False, ""
            names = tuple(sorted(moved))
            before = self._changes.get(file.name)
            names += before.names if before else ()
            self._changes[file.name] = Change(file.name, file.path, names)
        self._moved(file.name, moved)

    def _moved(self, name: str, moved: Moved) -> None:
        self._holders.add(name, moved)
        self._spread(name, moved)

    def _with_removed(self, file: UserFile, moved: Moved) -> Moved:
        """Let a name that is back follow on what copies of it still stand for."""
        for name, (old, new) in list(moved.items()):
            if new is MISSING:
                file.removed[name] = old
                if gone.add(file.name, file.names, name, old):
                    self._holders.lose(file.name, name, old)
            elif old is MISSING and name in file.removed:
                moved[name] = (file.removed.pop(name), new)
        return moved

    # -- what it means for others

    def _spread(self, start: str, moved: Moved) -> None:
        """Bind copies anew, and queue what computed with what changed."""
        affected: dict[str, set[str]] = {}
        work = [(start, moved)]
        for module, changes in work:
            affected.setdefault(module, set()).update(
                name for name, (old, new) in changes.items() if not same(old, new)
            )
            for space in self._others:
                self._note_copies(space, module, changes)
            for file in self._files.values():
                if file.name == module:
                    continue
                space = Namespace(file.names, file.outline, file.package, known=True)
                copied = space.follow(module, changes)
                if copied:
                    work.append((file.name, copied))
                if _lost(copied) and file.source is not None:
                    self._push(file.name)  # importing it would fail
        self._queue_dependents(start, _Reach(self._files, affected))

    def _note_copies(self, space: Namespace, module: str, changes: Moved) -> None:
        """Bind copies in a notebook anew; note those of names that are gone."""
        for name in _lost(space.follow(module, changes)):
            what = gone.copy(space.names, name, space.names[name])
            cell = cell_number(space.names, name)
            self._copies.append(Held(name, what, cell, gone=True))

    def _queue_dependents(self, start: str, reach: _Reach) -> None:
        if not any(reach.affected.values()):
            return
        reach.close()
        for file in self._files.values():
            if file.name == start or file.source is None:
                continue
            if reach.hits(file, file.outline.loads):
                self._push(file.name)

    # -- the order

    def _sorted(self) -> list[str]:
        """Modules after what they import; a circle is cut somewhere."""
        order: dict[str, None] = {}
        open_: set[str] = set()

        def visit(name: str) -> None:
            if name in order or name in open_ or name not in self._files:
                return
            open_.add(name)
            file = self._files[name]
            newer = file.content if name in self._codes else None
            for imported in sorted(file.imports(newer)):
                visit(imported)
            order[name] = None

        for name in self._files:
            visit(name)
        return list(order)


def _lost(moved: Moved) -> list[str]:
    return [name for name, (_, new) in moved.items() if new is MISSING]


class _Reach:
    """Which names of which modules depend on a change, when they are used."""

    def __init__(
        self, files: Mapping[str, UserFile], affected: dict[str, set[str]]
    ) -> None:
        self._files = files
        self.affected = affected

    def close(self) -> None:
        """Add functions and classes whose bodies read what is affected."""
        growing = True
        while growing:
            growing = False
            for file in self._files.values():
                mine = self.affected.setdefault(file.name, set())
                for name, body in file.outline.bodies.items():
                    if name not in mine and self.hits(file, body):
                        mine.add(name)
                        growing = True

    def hits(self, file: UserFile, read: frozenset[str]) -> bool:
        """Whether code of a file that reads these names reads something affected."""
        if not read.isdisjoint(self.affected.get(file.name, ())):
            return True
        return any(
            name in read and self._reaches(file, name, read)
            for name in file.outline.imported
        )

    def _reaches(self, file: UserFile, name: str, read: frozenset[str]) -> bool:
        """Whether an imported name, used with these others, stands for a change."""
        value = file.names.get(name)
        if isinstance(value, types.ModuleType):
            return any(
                not read.isdisjoint(names)
                for module, names in self.affected.items()
                if names and f"{module}.".startswith(f"{value.__name__}.")
            )
        imported = file.outline.imported[name]
        home = sys.modules.get(absolute(imported.module, file.package))
        return home is not None and imported.name in self.affected.get(
            home.__name__, ()
        )
