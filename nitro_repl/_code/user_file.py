"""One imported module of the user, and its file on disk.

Content decides, never a time stamp; a file is not read again while its stamps say that
it cannot have changed.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import marshal
import os
import time
import types
from typing import Any

from .execution import MISSING, Moved
from .instructions import STORES, instructions
from .origin import is_user_file
from .outline import Outline, absolute, literals, outline
from .sameness import same

RACY_NS = 2_000_000_000  # a save this soon after a reading may leave the same stamps
HALF_WRITTEN_NS = 1_000_000_000  # saving in place empties a file first

Stamps = tuple[int, int, int, int]
_IMMUTABLE = (int, float, complex, str, bytes, tuple, types.NoneType)


class UserFile:
    """A module that is followed on disk.

    Attributes:
        name: Of the module.
        module: The module.
        path: Of its source.
        source: The content that its namespace comes from; None if that is unknown.
        content: What was last found in the file.
        defined: Names that `source` defined.
        removed: What names that a newer source no longer defines stood for.
        failed: Whether `content` could not be executed.
        said: The last failure that was reported.
    """

    def __init__(self, name: str, module: types.ModuleType, path: str):
        self.name = name
        self.module = module
        self.path = path
        self.removed: dict[str, Any] = {}
        self.failed = False
        self.said = ""
        self._stamps: Stamps | None = None
        self._settled = False
        self._absent = 0  # since when, if there is no file
        self._mourned = False
        self.content: bytes | None = None
        self.source: bytes | None = None
        self.defined: frozenset[str] = frozenset()
        self._spec = self.names.get("__spec__")
        self._known: dict[str, Any] = {}
        self._first_sight()
        self.remember()

    @staticmethod
    def of(name: str, module: types.ModuleType) -> UserFile | None:
        """The file of a module; None if it is not the user's, or not a plain source."""
        names = vars(module)
        path, spec = names.get("__file__"), names.get("__spec__")
        if not isinstance(path, str):
            return None
        followed = (
            path.endswith(".py")
            and name != "__main__"
            and names.get("__name__") == name
            and isinstance(
                getattr(spec, "loader", None), importlib.machinery.SourceFileLoader
            )
            and is_user_file(path)
        )
        return UserFile(name, module, path) if followed else None

    @property
    def names(self) -> dict[str, Any]:
        """The namespace of the module."""
        return vars(self.module)

    @property
    def package(self) -> str:
        """What relative imports in it start from."""
        return self.names.get("__package__") or ""

    @property
    def outline(self) -> Outline:
        """Of the source that it runs."""
        return outline(self.source or b"")

    def imports(self, source: bytes | None = None) -> set[str]:
        """Full names of the modules that it, or a newer source of it, may import."""
        made = self.outline if source is None else outline(source)
        return {absolute(module, self.package) for module in made.modules}

    def look(self) -> bool:
        """Whether the file holds something else than at the last look."""
        try:
            if self._settled and _stamps(os.stat(self.path)) == self._stamps:
                return False
            content, stamps, now = _read(self.path)
        except FileNotFoundError:
            self._absent = self._absent or time.time_ns()
            return False
        except OSError:
            return False
        self._absent, self._mourned = 0, False
        age = now - stamps[0]
        if not content.strip() and self.content and 0 <= age < HALF_WRITTEN_NS:
            return False
        self._stamps = stamps
        self._settled = now - max(stamps[:2]) > RACY_NS
        if content == self.content:
            return False
        self.content, self.failed = content, False
        return content != self.source

    def is_reloaded(self) -> bool:
        """Whether somebody else has executed the module again, and is done with it."""
        running = self.name in getattr(importlib, "_RELOADING", ())
        return self.names.get("__spec__") is not self._spec and not running

    def remember(self) -> None:
        """Note what its names stand for, in case somebody else executes it."""
        # What may be large and is no definition is the user's to let go of.
        self._known = {
            name: value
            for name, value in self.names.copy().items()
            if name[:2] != "__" and (callable(value) or isinstance(value, _IMMUTABLE))
        }

    def moved_since(self, before: UserFile) -> Moved:
        """The names that another execution of the module gave another value."""
        return {
            name: (old, new)
            for name, old in before._known.items()
            if (new := self.names.get(name, MISSING)) is not old and new is not MISSING
        }

    def is_lost(self) -> bool:
        """Whether the file is deleted, and not in the middle of a rename; true once."""
        age = time.time_ns() - self._absent
        lost = bool(self._absent) and age > HALF_WRITTEN_NS and not self._mourned
        self._mourned = self._mourned or lost
        return lost

    def compile(self, source: bytes | None = None) -> types.CodeType:
        """Compile a source, by default what the file holds.

        Raises:
            SyntaxError: It does not parse.
        """
        loader: Any = self.names["__spec__"].loader
        text = self.content if source is None else source
        return loader.source_to_code(text, self.path)

    # -- first sight

    def _first_sight(self) -> None:
        """Take what the file holds for what was imported, if it was not edited."""
        if not self.look():
            return
        assert self._stamps is not None
        imported = _imported_code(self.names, self._stamps)
        if imported is True or not self._edited(imported):
            self.source = self.content
            self.defined = self.outline.bound
            return
        if imported is None:
            self.defined = frozenset(self._everything())
        else:
            stored = (op for op in instructions(imported) if op.name in STORES)
            self.defined = frozenset(str(op.arg) for op in stored)
        self.content = None  # the next look finds the edit
        self._settled = False

    def _edited(self, imported: types.CodeType | None) -> bool:
        try:
            code = self.compile()
        except (SyntaxError, ValueError):
            return True
        if imported is not None:
            return imported != code
        known = set(_nested(code))
        for name, value in literals(self.content or b"").items():
            if not same(self.names.get(name, value), value):
                return True
        return any(
            function.__code__ not in known
            for function in self._own_functions().values()
        )

    def _everything(self) -> list[str]:
        """All names in it but what the import machinery put there."""
        return [
            name
            for name, value in self.names.items()
            if name[:2] != "__"
            and getattr(value, "__name__", "") != f"{self.name}.{name}"
        ]

    def _own_functions(self) -> dict[str, types.FunctionType]:
        # A decorator may lend its own function the file name of what it wraps.
        return {
            name: value
            for name, value in self.names.items()
            if isinstance(value, types.FunctionType)
            and value.__code__.co_filename == self.path
            and value.__globals__ is self.names
        }


def _stamps(stat: os.stat_result) -> Stamps:
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def _read(path: str) -> tuple[bytes, Stamps, int]:
    """The content of a file, its stamps, and when it was read."""
    with open(path, "rb") as file:
        now = time.time_ns()
        stamps = _stamps(os.fstat(file.fileno()))
        return file.read(), stamps, now


def _imported_code(names: dict[str, Any], stamps: Stamps) -> Any:
    """The code that was imported, from Python's cache of it; None if there is none.

    True if the cache is so much younger than the source that both must be the same.
    """
    cached = getattr(names.get("__spec__"), "cached", None)
    if not isinstance(cached, str):
        return None
    try:
        raw, written, _ = _read(cached)
        if raw[:4] != importlib.util.MAGIC_NUMBER:
            return None
        flags, seconds, size = (
            int.from_bytes(raw[at : at + 4], "little") for at in (4, 8, 12)
        )
        of_source = (stamps[0] // 10**9 & 0xFFFFFFFF, stamps[2] & 0xFFFFFFFF)
        late = written[0] - max(stamps[:2]) > RACY_NS
        if flags == 0 and late and (seconds, size) == of_source:
            return True
        return marshal.loads(raw[16:])
    except (OSError, ValueError, EOFError, TypeError):
        return None


def _nested(code: types.CodeType) -> list[types.CodeType]:
    found = [code]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _nested(constant)
    return found
