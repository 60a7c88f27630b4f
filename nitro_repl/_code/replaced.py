"""What stands in installed modules in place of what they held when first seen.

Code of a library calls its own functions by name: their names say nothing once a user
has put others there. Names that a module's own code assigns are its own state.
"""

from __future__ import annotations

import functools
import itertools
import operator
import sys
import threading
import types
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from . import origin
from .instructions import instructions
from .library import holds_user_code, own_token
from .readable import ATOMS, text_of
from .references import code_info
from .walk import Piece, Walk

_CODE = (types.FunctionType, types.BuiltinFunctionType, type)
_OURS = __name__.partition(".")[0]


class Replaced(dict[tuple[str, str], Any]):
    """Module and name -> what stands there now."""


class Libraries:
    """The modules of some packages, as they were when they were first seen.

    Functions, classes, other callables and plain constants are compared, by identity.

    Args:
        packages: Names of top level packages. What they import later is seen too.
    """

    def __init__(self, packages: Iterable[str]):
        self._packages = set(packages)
        self._names: set[str] = set()
        self._modules: dict[str, _Module] = {}
        self._imported = 0
        self._rows: list[tuple[Any, dict[str, Any]]] = []
        self._last: list[Any] | None = None
        self._replaced = Replaced()
        self._lock = threading.Lock()
        self._meet()

    def watch(self, modules: Iterable[str], names: Iterable[str]) -> None:
        """Look at the packages of these modules too, and at these names."""
        packages = {name.partition(".")[0] for name in modules} - {_OURS}
        with self._lock:
            if not packages <= self._packages:
                self._packages |= packages
                self._imported = 0
                self._meet()
            if not self._names.issuperset(names):
                self._names.update(names)
                self._line_up()

    def replaced(self) -> Replaced:
        """What a user put in the place of something, under the names looked at."""
        with self._lock:
            self._meet()
            now = self._values()
            if not _same(now, self._last):
                self._replaced = Replaced(
                    ((name, key), value)
                    for name, module in self._modules.items()
                    for key, value in module.differences(self._names)
                )
                self._last = now
            return self._replaced

    def _values(self) -> list[Any] | None:
        """What all names that are looked at stand for; None if one is gone."""
        try:
            return [
                *itertools.chain.from_iterable(
                    itertools.starmap(operator.call, self._rows)
                )
            ]
        except KeyError:
            return None

    def _line_up(self) -> None:
        """Ready what takes all values in few calls."""
        found = (
            (module.watched(self._names), vars(module.module))
            for module in self._modules.values()
        )
        self._rows = [
            (operator.itemgetter(*keys, keys[0]), names)  # from two on it gives a tuple
            for keys, names in found
            if keys
        ]
        self._last = None

    def _meet(self) -> None:
        """Take in modules that were imported since the last look, or again."""
        now = map(sys.modules.get, self._modules)
        known = (module.module for module in self._modules.values())
        if len(sys.modules) == self._imported and all(map(operator.is_, now, known)):
            return
        modules = dict(sys.modules)
        for name, module in modules.items():
            if name.partition(".")[0] in self._packages:
                self._take(name, module)
        self._imported = len(modules)
        self._line_up()

    def _take(self, name: str, module: types.ModuleType) -> None:
        if type(getattr(module, "__dict__", None)) is not dict:
            return  # a lazy stand-in
        if name not in self._modules:
            self._modules[name] = _Module(module)
        self._modules[name].module = module


def _same(now: list[Any] | None, last: list[Any] | None) -> bool:
    """Whether they are the same objects."""
    if now is None or last is None:
        return False
    return len(now) == len(last) and all(map(operator.is_, now, last))


class _Module:
    """One module's names and what they stood for when it was first seen."""

    def __init__(self, module: types.ModuleType):
        self.module = module
        names = vars(module).copy()
        self._held = {key: value for key, value in names.items() if _counts(key, value)}

    def watched(self, names: Collection[str]) -> list[str]:
        """Those of its names that are looked at."""
        return [key for key in self._held if key in names]

    def differences(self, names: Collection[str]) -> Iterator[tuple[str, Any]]:
        """Names with another value; what the library did itself is taken as it is."""
        for key in self.watched(names):
            before, now = self._held[key], vars(self.module).get(key, _Gone)
            if now is before or _is_ours(now):
                continue
            if self._is_own(key, before, now):
                self._held[key] = now
            else:
                yield key, now

    def _is_own(self, key: str, before: Any, now: Any) -> bool:
        """Whether the library did it itself: its state, or the module loaded again."""
        if now is _Gone or holds_user_code(now, captured=False):
            return False
        if type(now) in ATOMS and type(now) is type(before) and now == before:
            return True
        if own_token(now):
            if _says(now) == _says(before):
                return True  # loaded again, with the same text
        elif isinstance(now, types.FunctionType) and self._is_of_package(now):
            return True  # made at run time
        return key in _assigned(self.module.__name__)

    def _is_of_package(self, function: types.FunctionType) -> bool:
        package = self.module.__name__.partition(".")[0]
        return origin.module_name(function).partition(".")[0] == package


class _Gone:
    """Stands for a name that was deleted."""


@functools.lru_cache(maxsize=1024)
def _assigned(module: str) -> frozenset[str]:
    """Names that code of a module declares global and assigns."""
    try:
        spec: Any = sys.modules[module].__spec__
        codes = _nested(spec.loader.get_code(module))
        return frozenset(name for code in codes for name in _stores(code))
    except Exception:  # made at run time, or by a loader that keeps no code
        return frozenset()


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _stores(code: types.CodeType) -> Iterator[str]:
    return (op.arg for op in instructions(code) if op.name == "STORE_GLOBAL")


def _counts(key: str, value: Any) -> bool:
    """Whether a name is one that code calls, or a plain constant."""
    if key.startswith("__") or type(value).__module__ in ("typing", "types"):
        return False  # annotations; a module is not taken for another
    return type(value) in ATOMS or isinstance(value, _CODE) or _is_callable(value)


def _is_callable(value: Any) -> bool:
    try:
        return callable(value)
    except Exception:  # a proxy may raise anything
        return False


def _is_ours(value: Any) -> bool:
    """Whether it is a stand-in of this package, there for the time of a trace."""
    return origin.module_name(value).partition(".")[0] == _OURS


def _says(value: Any) -> tuple[Any, ...]:
    names = [getattr(value, key, None) for key in ("__module__", "__qualname__")]
    return (*names, _digest(value))


def _digest(value: Any) -> str:
    """Of the code of a function, also of one that a library loaded again."""
    code = getattr(value, "__code__", None)
    return code_info(code).digest if isinstance(code, types.CodeType) else ""


def expand_replaced(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """What stands in libraries: each place, and what is there now."""
    label = ["replaced"]
    piece.digest = "libraries"  # a change is told by its place
    for place in sorted(value):
        own = walk.piece("library", ".".join(place), piece)
        own.text = text_of(value[place])
        own.labels.append(own.name)
        held = walk.item(value[place], own, kids)
        label.append(f"{own.name} {held} {_digest(value[place])}")
    return "\n".join(label)
