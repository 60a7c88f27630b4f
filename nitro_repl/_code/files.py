"""The user's imported modules, followed on disk.

After a refresh each runs what its file says, or, if that cannot run, what it ran
before; a file whose content is the same is no change, however often it is saved.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Iterator

from .copies import Namespace, Provider, notebook
from .execution import Moved
from .origin import is_user_module
from .update import Change as Change, Update
from .user_file import UserFile

_NOT_YET = ("ImportError", "ModuleNotFoundError")


class Files:
    """Every imported module of the user that has a source file."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._busy = False
        self._seen: dict[str, types.ModuleType] = {}
        self._imported: tuple[list[str], list[types.ModuleType]] = ([], [])
        self._files: dict[str, UserFile] = {}
        self._without: dict[str, types.ModuleType] = {}
        self._reloaded: dict[str, Moved] = {}
        self._providers: list[Provider] = []

    def refresh(self) -> tuple[Change, ...]:
        """Look at every file and execute again what changed.

        Returns:
            Each edit once, one that could not run too.
        """
        with self._lock:
            if self._busy:  # called by a module that is being executed
                return ()
            self._busy = True
            try:
                return self._refresh()
            finally:
                self._busy = False

    def paths(self) -> frozenset[str]:
        """The source files that are followed."""
        with self._lock:
            return frozenset(file.path for file in self._files.values())

    def register(self, provider: Provider) -> None:
        """Add a namespace in which imported names are kept up to date."""
        with self._lock:
            self._providers.append(provider)

    def unregister(self, provider: Provider) -> None:
        """Remove what `register` added."""
        with self._lock:
            if provider in self._providers:
                self._providers.remove(provider)

    def _refresh(self) -> tuple[Change, ...]:
        found = self._discover()
        for file in [file for file in self._files.values() if file.is_reloaded()]:
            self._follow(file.name, file.module)
        reloaded, self._reloaded = self._reloaded, {}
        edited = [file for file in self._files.values() if file.look()]
        retried = [
            file
            for file in self._files.values()
            if file.failed and (edited or found or file.said.startswith(_NOT_YET))
        ]
        lost = tuple(
            Change(file.name, file.path, (), FileNotFoundError("it is deleted"))
            for file in self._files.values()
            if file.is_lost()
        )
        if not edited and not retried and not reloaded:
            return lost
        update = Update(self._files, list(self._namespaces()))
        changes = update.run(edited, retried, reloaded)
        for file in self._files.values():
            file.remember()
        return lost + changes

    def _discover(self) -> bool:
        """Follow what was imported since; whether there is anything new."""
        modules = sys.modules.copy()
        imported = (list(modules), list(modules.values()))
        if imported == self._imported:  # the same objects: as a rule nothing is new
            return False
        found, begun = False, False
        for name, module in modules.items():
            if self._seen.get(name) is module:
                continue
            if not isinstance(module, types.ModuleType):
                continue
            if getattr(vars(module).get("__spec__"), "_initializing", False):
                begun = True
                continue
            self._seen[name] = module
            found = self._follow(name, module) or found
        if len(self._seen) > len(sys.modules):
            for name in self._seen.keys() - sys.modules.keys():
                del self._seen[name]
                self._files.pop(name, None)
                self._without.pop(name, None)
        self._imported = ([], []) if begun else imported
        return found

    def _follow(self, name: str, module: types.ModuleType) -> bool:
        before = self._files.pop(name, None)
        self._without.pop(name, None)
        file = UserFile.of(name, module)
        if file is not None:
            self._files[name] = file
            if before is not None:  # a reload, or imported anew
                file.removed = before.removed
                self._reloaded[name] = file.moved_since(before)
        elif is_user_module(module):
            self._without[name] = module
        return file is not None

    def _namespaces(self) -> Iterator[Namespace]:
        """Namespaces without a file that is followed, each once."""
        spaces = [vars(module) for module in self._without.values()]
        spaces += [names for provide in self._providers if (names := provide())]
        for names in {id(names): names for names in spaces}.values():
            yield notebook(names)


files = Files()
"""Of this process."""
