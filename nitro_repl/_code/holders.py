"""The user's objects that hold what a file defined anew: partials, registries...

Each is made to hold the newest definition, as it would if its cell ran again; what
cannot be is found, so that it can be said. Nothing of the user's runs.
"""

from __future__ import annotations

import collections
import enum
import functools
import gc
import re
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .copies import Namespace, cell_number
from .execution import MISSING, Moved
from .origin import HERE, is_user_class, is_user_file

_OBJECTS = 50_000  # that are looked at after one edit
_SEARCHED = 1_000  # inside one of an unknown kind
_LENGTH = 1_000  # of a container; a longer one is data, no registry
_DEPTH = 8
_SHELL = re.compile(r"__.*|_+|_i+|_i?\d+|_[iod]h|In|Out")
_PACKAGE = __name__.partition(".")[0]

Found = tuple[Any, bool]
"""What stands for a value now, and whether anything in it has changed."""
Visit = Callable[[Any], Found]
Renew = Callable[[Any, Visit], Any]


class CannotRenewError(Exception):
    """A value holds an old definition, and nothing can take its place."""


@dataclass(frozen=True)
class Held:
    """A name that still stands for something old.

    Attributes:
        name: In the user's namespace.
        what: The definition, as `module.name`.
        cell: Number of the cell that bound the name, 0 if it is not known.
        gone: Whether the definition is gone, rather than newer.
    """

    name: str
    what: str
    cell: int
    gone: bool = False


class Holders:
    """Renews what holds definitions that were replaced; one use."""

    def __init__(self) -> None:
        self._new: dict[int, tuple[Any, Any, str]] = {}
        self._lost: dict[int, tuple[Any, str]] = {}
        self._done: dict[int, tuple[Any, Found]] = {}
        self._left = _OBJECTS
        self._depth = 0
        self._stuck: list[tuple[str, bool]] = []

    def add(self, module: str, moved: Moved) -> None:
        """Say what a module's names stood for and stand for now."""
        for name, (old, new) in moved.items():
            if callable(old) and callable(new) and old is not MISSING is not new:
                self._new.setdefault(id(old), (old, new, f"{module}.{name}"))

    def lose(self, module: str, name: str, value: Any) -> None:
        """Say that a module defines something no longer."""
        self._lost[id(value)] = value, f"{module}.{name}"

    def renew(self, spaces: Iterable[Namespace]) -> tuple[Held, ...]:
        """Renew what these namespaces lead to; what could not be."""
        found: list[Held] = []
        if not self._new and not self._lost:
            return ()
        for space in spaces:
            for name, value in space.names.copy().items():
                if not _SHELL.fullmatch(name):
                    found += self._root(space.names, name, value)
        return tuple(found)

    def _root(self, names: dict[str, Any], name: str, value: Any) -> list[Held]:
        self._stuck = []
        if id(value) in self._new:  # the user's own name for it, perhaps on purpose
            self._note(value)
        else:
            made, _ = self.visit(value)
            if made is not value:
                names[name] = made
        cell = cell_number(names, name) if self._stuck else 0
        stuck = dict.fromkeys(self._stuck)
        return [Held(name, what, cell, lost) for what, lost in stuck]

    # -- one value

    def visit(self, value: Any) -> Found:
        """What stands for a value now."""
        if id(value) in self._new:
            return self._newest(value), True
        if id(value) in self._lost:
            self._note(value)
            return value, False
        if isinstance(value, _ATOMS) or self._depth > _DEPTH or self._left <= 0:
            return value, False
        if id(value) not in self._done:
            self._left -= 1
            self._depth += 1
            self._done[id(value)] = value, (value, False)
            try:
                self._done[id(value)] = value, self._open(value)
            except Exception:  # a layout that differs, a `__setattr__` of the user
                self._note(type(value))
                self._search(value)
            finally:
                self._depth -= 1
        return self._done[id(value)][1]

    def _newest(self, value: Any) -> Any:
        for _ in self._new:
            if id(value) not in self._new:
                break
            value = self._new[id(value)][1]
        return value

    def _open(self, value: Any) -> Found:
        for is_kind, renew in _renewals:
            if is_kind(value):
                made = renew(value, self.visit)
                return made, made is not value
        if isinstance(value, enum.Enum):
            kind, moved = self.visit(type(value))
            return (kind[value.name], True) if moved else (value, False)
        kind = type(value)
        moved = id(kind) in self._new and not isinstance(value, (tuple, type))
        if moved:  # an instance of an edited class is one of the newest class
            object.__setattr__(value, "__class__", self._newest(kind))
        elif id(kind) in self._lost:
            self._note(kind)
        made, changed = self._content(value)
        return made, changed or moved

    def _content(self, value: Any) -> Found:
        for kind, opened in _KINDS.items():
            if isinstance(value, kind):
                return opened(self, value)
        if is_user_class(type(value)) and hasattr(value, "__dict__"):
            return value, self._mapping(vars(value))
        self._search(value)
        return value, False

    def _note(self, value: Any) -> None:
        if id(value) in self._new:
            self._stuck.append((self._new[id(value)][2], False))
        elif id(value) in self._lost:
            self._stuck.append((self._lost[id(value)][1], True))

    # -- kinds that are renewed

    def _partial(self, value: functools.partial[Any]) -> Found:
        function, moved = self.visit(value.func)
        args, more = self._items(value.args)
        keywords = {name: self.visit(held) for name, held in value.keywords.items()}
        if not (moved or more or any(changed for _, changed in keywords.values())):
            return value, False
        given = {name: held for name, (held, _) in keywords.items()}
        made = type(value)(function, *args, **given)
        vars(made).update(vars(value))
        return made, True

    def _items(self, values: Iterable[Any]) -> tuple[list[Any], bool]:
        found = [self.visit(value) for value in values]
        return [made for made, _ in found], any(changed for _, changed in found)

    def _list(self, value: list[Any]) -> Found:
        if len(value) > _LENGTH:
            return value, False
        made, changed = self._items(value)
        for index, (old, new) in enumerate(zip(list(value), made, strict=True)):
            if old is not new:
                value[index] = new
        return value, changed

    def _dict(self, value: dict[Any, Any]) -> Found:
        if len(value) > _LENGTH:
            return value, False
        return value, self._mapping(value)

    def _mapping(self, names: dict[Any, Any]) -> bool:
        changed = False
        for name, held in dict(names).items():
            made, moved = self.visit(held)
            changed = changed or moved
            if made is not held:
                names[name] = made
        return changed

    def _tuple(self, value: tuple[Any, ...]) -> Found:
        if len(value) > _LENGTH:
            return value, False
        made, changed = self._items(value)
        kind, moved = self.visit(type(value))
        if not moved and all(new is old for new, old in zip(made, value, strict=True)):
            return value, changed
        return getattr(kind, "_make", kind)(made), True

    def _set(self, value: set[Any]) -> Found:
        if len(value) > _LENGTH:
            return value, False
        held = list(value)
        made, changed = self._items(held)
        same = all(new is old for new, old in zip(made, held, strict=True))
        # Not in place: another thread may iterate over it.
        return (value, changed) if same else (type(value)(made), True)

    def _function(self, value: types.FunctionType) -> Found:
        """Captured values, defaults, and what a decorator wrapped."""
        changed = False
        for cell in value.__closure__ or ():
            try:
                held = cell.cell_contents
            except ValueError:
                continue
            made, moved = self.visit(held)
            changed = changed or moved
            if made is not held:
                cell.cell_contents = made
        if value.__defaults__ and is_user_file(value.__code__.co_filename):
            made, moved = self._items(value.__defaults__)
            if moved:
                value.__defaults__ = tuple(made)
            changed = changed or moved
        if value.__kwdefaults__:
            changed = self._mapping(value.__kwdefaults__) or changed
        return value, self._mapping(vars(value)) or changed

    def _wrapped(self, value: Any) -> Found:
        made, changed = self.visit(value.__func__)
        return (type(value)(made) if made is not value.__func__ else value), changed

    def _method(self, value: types.MethodType) -> Found:
        owner, changed = self.visit(value.__self__)
        if changed and not isinstance(owner, type):
            return getattr(owner, value.__name__, value), True
        return value, changed

    def _class(self, value: type) -> Found:
        """What a class of a cell took from a file; a base cannot be exchanged."""
        if not is_user_class(value):
            return value, False
        for base in value.__mro__[1:]:
            self._note(base)
        changed = False
        for name, held in vars(value).copy().items():
            if name[:2] == "__":
                continue
            made, moved = self.visit(held)
            changed = changed or moved
            if made is not held:
                type.__setattr__(value, name, made)
        return value, changed

    # -- kinds that can only be searched

    def _search(self, value: Any) -> None:
        """Note the old definitions that an object of an unknown kind holds."""
        if type(value).__module__.partition(".")[0] == _PACKAGE:
            return  # programs in use hold what they were made from
        work, met = collections.deque([(value, 0)]), {id(value)}
        while work and len(met) < _SEARCHED:
            held, depth = work.popleft()
            for part in gc.get_referents(held):
                if id(part) in met:
                    continue
                met.add(id(part))
                self._note(part)
                if isinstance(part, (*_ATOMS, type)) or id(part) in self._new:
                    continue
                self._note(type(part))
                if depth < _DEPTH and not _is_namespace(part):
                    work.append((part, depth + 1))


def register(is_kind: Callable[[Any], bool], renew: Renew) -> None:
    """Teach how values of a kind are renewed.

    Args:
        is_kind: Whether a value is of this kind.
        renew: Takes a value, and a function that says what stands for anything in it;
            gives the value itself or what takes its place. Whatever it raises means
            that nothing can.
    """
    _renewals.append((is_kind, renew))


_renewals: list[tuple[Callable[[Any], bool], Renew]] = []
_ATOMS = (
    bool, int, float, complex, str, bytes, types.NoneType, types.ModuleType,
    types.CodeType, types.FrameType, types.BuiltinFunctionType,
)  # fmt: skip
_KINDS: dict[type, Callable[[Holders, Any], Found]] = {
    functools.partial: Holders._partial,
    list: Holders._list,
    dict: Holders._dict,
    tuple: Holders._tuple,
    set: Holders._set,
    types.FunctionType: Holders._function,
    types.MethodType: Holders._method,
    staticmethod: Holders._wrapped,
    classmethod: Holders._wrapped,
    type: Holders._class,
}


def _is_namespace(value: object) -> bool:
    return (isinstance(value, dict) and "__builtins__" in value) or (
        isinstance(value, types.FunctionType)
        and value.__code__.co_filename.startswith(HERE)
    )
