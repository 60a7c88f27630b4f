"""Executes a changed module again, in its own namespace, wholly or not at all.

Definitions that say what they said before stay the objects they were; names that only
the old source defined are gone afterwards.
"""

from __future__ import annotations

import builtins
import contextlib
import types
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, cast

from .references import code_info
from .sameness import guests, same


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
"""Stands for the value of a name that has none."""

Moved = dict[str, tuple[Any, Any]]
"""Name -> its value before and after."""


def execute(
    code: types.CodeType, names: dict[str, Any], before: Iterable[str]
) -> tuple[Moved, frozenset[str]]:
    """Execute a module's code again.

    Args:
        code: Of the whole module.
        names: The module's own namespace.
        before: Names that the old source defined.

    Returns:
        The names that have another value now, and all that the code defined.

    Raises:
        BaseException: What the code raised; the namespace is as it was.
    """
    saved = dict(names)
    body = _Body(names, saved, frozenset(before))
    try:
        exec(code, names, body)
    except BaseException:
        _restore(names, saved)
        raise
    for name in body.stale:
        names.pop(name, None)
    for old, new in body.kept:
        _follow(old, new)
    moved = {
        name: (saved.get(name, MISSING), names.get(name, MISSING))
        for name in {*saved, *names}
        if saved.get(name, MISSING) is not names.get(name, MISSING)
    }
    for old, new in moved.values():
        _take_guests(old, new)
    return moved, frozenset(body.stored)


def _restore(names: dict[str, Any], saved: dict[str, Any]) -> None:
    """Put a namespace back, without a moment in which a name is missing."""
    names.update(saved)
    for name in names.keys() - saved.keys():
        names.pop(name, None)


class _Body(MutableMapping[str, Any]):
    """The locals of a module body: its namespace, without what it has yet to define.

    Other threads see the old value of a name until there is a new one.
    """

    def __init__(
        self, names: dict[str, Any], saved: dict[str, Any], before: frozenset[str]
    ):
        self._names = names
        self._saved = saved
        self.stale = {*before, "__annotations__"}
        self.stored: set[str] = set()
        self.kept: list[tuple[Any, Any]] = []

    def __getitem__(self, name: str) -> Any:
        if name not in self.stale:
            return self._names[name]
        if name == "__annotations__":
            raise KeyError(name)  # the interpreter then begins a new one
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise NameError(f"name '{name}' is not defined", name=name)

    def __contains__(self, name: object) -> bool:
        return name not in self.stale and name in self._names

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name that has one; code that asks does not fail."""
        return self._names[name] if name in self else default

    def __setitem__(self, name: str, value: Any) -> None:
        old = self._saved.get(name, MISSING)
        if old is not value and _is_definition(value) and same(old, value):
            self.kept.append((old, value))
            value = old
        self._names[name] = value
        self.stale.discard(name)
        self.stored.add(name)

    def __delitem__(self, name: str) -> None:
        if name in self.stale:
            raise NameError(f"name '{name}' is not defined", name=name)
        del self._names[name]
        self.stored.discard(name)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self._names if name not in self.stale])

    def __len__(self) -> int:
        return len(list(iter(self)))


def _is_definition(value: object) -> bool:
    return isinstance(value, types.FunctionType | type)


def _follow(old: Any, new: Any) -> None:
    """Give a definition that stays the lines and the docstring of the new source."""
    if isinstance(old, type):
        members = vars(new)
        for name, value in vars(old).copy().items():
            if isinstance(value, types.FunctionType):
                _follow(value, members.get(name))
    elif isinstance(new, types.FunctionType) and old is not new:
        if code_info(old.__code__).digest != code_info(new.__code__).digest:
            return  # a hook that was attached stands in the place of the method
        if old.__code__.co_freevars == new.__code__.co_freevars:
            old.__code__ = new.__code__
        old.__doc__ = new.__doc__


def _take_guests(old: Any, new: Any) -> None:
    """Attach to a newer class the hooks that a notebook attached to the one before."""
    if isinstance(old, type) and isinstance(new, type):
        for hook in guests(old).values():
            with contextlib.suppress(Exception):  # it is no hook of the new class
                cast(Any, new).hook(hook)
