"""Whether a definition that was executed again says what it said before.

Only what it owns counts: its code, defaults, captured values and members; globals are
looked up when it runs. In doubt, different.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

from .classes import class_members
from .fingerprint import fingerprint
from .references import code_info, constant_token

_ATOMS = (int, float, complex, str, bytes, bool, type(None), type(...))
_BY_NAME = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
)
_BY_PARTS: Mapping[type, tuple[str, ...]] = {
    property: ("fget", "fset", "fdel"),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
    functools.cached_property: ("func", "attrname"),
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    types.MethodType: ("__func__", "__self__"),
}
_ANNOTATIONS = ("__annotations__", "__annotate__", "__annotate_func__")


def same(old: object, new: object) -> bool:
    """Whether two values have the same content of their own."""
    try:
        return _Pairs().same(old, new)
    except Exception:  # a user's `__getattr__` may raise anything
        return False


class _Pairs:
    """The pairs compared so far; one on its way counts as equal."""

    def __init__(self) -> None:
        self._met: set[tuple[int, int]] = set()

    def same(self, old: Any, new: Any) -> bool:
        if old is new:
            return True
        kind = type(old)
        if kind is not type(new) and not self._user_types(kind, type(new)):
            return False
        if kind in _ATOMS:
            return constant_token(old) == constant_token(new)
        pair = (id(old), id(new))
        if pair in self._met:
            return True
        self._met.add(pair)
        return self._content(old, new)

    def _user_types(self, old: type, new: type) -> bool:
        return old.__name__ == new.__name__ and self.same(old, new)

    def _content(self, old: Any, new: Any) -> bool:
        if isinstance(old, types.FunctionType):
            return self._functions(old, new)
        if isinstance(old, type):
            return self._classes(old, new)
        if isinstance(old, types.ModuleType):
            return False
        return self._values(old, new)

    def _values(self, old: Any, new: Any) -> bool:
        kind = type(old)
        if kind in (list, tuple):
            return self._rows(old, new)
        if kind in (dict, types.MappingProxyType):
            return list(old) == list(new) and self._rows(old.values(), new.values())
        if isinstance(old, _BY_NAME):
            return old.__name__ == new.__name__
        if hasattr(old, "_name_") and hasattr(old, "_value_"):  # an enum member
            return old._name_ == new._name_ and self.same(old._value_, new._value_)
        return self._others(old, new)

    def _others(self, old: Any, new: Any) -> bool:
        parts = _BY_PARTS.get(type(old))
        if parts is not None:
            return all(self.same(getattr(old, p), getattr(new, p)) for p in parts)
        first, second = fingerprint((old,)), fingerprint((new,))
        return first.digest == second.digest and not first.unsound

    def _rows(self, old: Iterable[Any], new: Iterable[Any]) -> bool:
        first, second = list(old), list(new)
        return len(first) == len(second) and all(map(self.same, first, second))

    def _functions(self, old: types.FunctionType, new: types.FunctionType) -> bool:
        before, after = code_info(old.__code__), code_info(new.__code__)
        return (
            (old.__name__, before.digest) == (new.__name__, after.digest)
            and self.same(old.__defaults__, new.__defaults__)
            and self.same(old.__kwdefaults__, new.__kwdefaults__)
            and self._rows(_captured(old), _captured(new))
            and self.same(vars(old), vars(new))
            and self._globals(old, new)
        )

    def _globals(self, old: types.FunctionType, new: types.FunctionType) -> bool:
        first, second = old.__globals__, new.__globals__
        if first is second:
            return True
        if "__spec__" in first or "__spec__" in second:  # of a module: it will differ
            return False
        names = sorted(code_info(old.__code__).names)
        return all(self.same(first.get(n), second.get(n)) for n in names)

    def _classes(self, old: type, new: type) -> bool:
        if (old.__module__, old.__qualname__) != (new.__module__, new.__qualname__):
            return False
        before, after = class_members(old), class_members(new)
        for name in guests(old):
            before.pop(name, None)
            after.pop(name, None)
        for note in _ANNOTATIONS:
            before[note], after[note] = vars(old).get(note), vars(new).get(note)
        return (
            list(before) == list(after)
            and self._rows(old.__bases__, new.__bases__)
            and self._rows(before.values(), after.values())
        )


def guests(cls: type) -> dict[str, Any]:
    """The hooks that were attached to a class from outside its module."""
    module = sys.modules.get(cls.__module__)
    attached = vars(cls).get("__attached__")
    if module is None or not isinstance(attached, dict):
        return {}
    return {
        name: hook
        for name, hook in attached.items()
        if getattr(hook, "__globals__", None) is not vars(module)
    }


def _captured(function: types.FunctionType) -> list[Any]:
    cells = dict(
        zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    )
    return [_contents(cells[name]) for name in code_info(function.__code__).frees]


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _contents  # stands for a cell that nothing was put in
