"""How classes enter a walk, and which attributes an instance has.

What the interpreter and the standard library note about a class, or cache on it, is
not content: running an unchanged class statement again gives the same digest.
"""

from __future__ import annotations

import abc
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from . import origin
from .library import holds_user_code, is_data
from .walk import Piece, Walk, check_outside, data

NOTES = frozenset(
    [
        "__module__",
        "__qualname__",
        "__doc__",
        "__dict__",
        "__weakref__",
        "__firstlineno__",
        "__static_attributes__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__abstractmethods__",
        "_abc_impl",
        "__orig_bases__",
        "__parameters__",
        "__type_params__",
        "__classcell__",
        "__classdictcell__",
        "__protocol_attrs__",
        "__non_callable_proto_members__",
        "__dataclass_params__",
        "__slotnames__",
        "__attached__",  # the hooks of an experiment, which are its methods too
    ]
)
ENUM_NOTES = frozenset(
    [
        "_member_map_",
        "_value2member_map_",
        "_unhashable_values_",
        "_unhashable_values_map_",
        "_hashable_values_",
        "_inverted_",
        "_member_names_",
        "_singles_mask_",
        "_all_bits_",
    ]
)


Note = Callable[[type], Any]
_notes: list[Note] = []


def add_note(note: Note) -> None:
    """Use what is noted of a class elsewhere: None, or a value to walk with it."""
    _notes.append(note)


def class_reference(walk: Walk, cls: type, piece: Piece, kids: list[int]) -> str:
    """The class of a value: a token for an installed one, else a child."""
    if not origin.is_user_class(cls):
        return library_class(walk, cls, piece, kids)
    kids.append(walk.node(cls, piece))
    return "*"


def expand_class(walk: Walk, cls: type, piece: Piece, kids: list[int]) -> str:
    """A class: name, bases, metaclass and every member it defines."""
    if not origin.is_user_class(cls):
        module = origin.module_name(cls)
        check_outside(walk, piece, module, f"{module}.{cls.__qualname__}")
        return library_class(walk, cls, piece, kids)
    walk.classes.append(cls)
    own = walk.piece("class", cls.__name__, piece)
    members = class_members(cls)
    walk.order(name for name in vars(cls) if name in members)
    own.digest = f"{cls.__name__} {sorted(members)}"
    own.where = _place(cls)
    label = [f"class {cls.__name__}"]
    label += [class_reference(walk, base, own, kids) for base in cls.__bases__]
    label.append(class_reference(walk, type(cls), own, kids))
    for name in members:
        label.append(f"{name} {_member(walk, cls, name, members[name], own, kids)}")
    registered = _registered(cls)
    if registered:
        label.append(f"registered {walk.item(registered, own, kids)}")
    for note in _notes:
        if (noted := note(cls)) is not None:
            label.append(f"noted {walk.item(noted, own, kids)}")
    return "\n".join(label)


def _registered(cls: type) -> frozenset[type]:
    """The classes that an abstract class takes for its own."""
    if "_abc_impl" not in vars(cls):
        return frozenset()
    dump: Any = getattr(abc, "_get_dump", None)  # of CPython, where the registry is C
    if dump is None:
        return frozenset(getattr(cls, "_abc_registry", ()))
    return frozenset(kind for ref in dump(cls)[0] if (kind := ref()) is not None)


def library_class(walk: Walk, cls: type, piece: Piece, kids: list[int]) -> str:
    """An installed class: a token, and what the user replaced in it or its bases."""
    label = [origin.library_token(origin.module_name(cls), cls.__qualname__)]
    for base in cls.__mro__:
        for name in _replaced(base):
            member = vars(base)[name]
            label.append(f"{base.__qualname__}.{name} {walk.item(member, piece, kids)}")
    return "\n".join(label)


class _Seen(NamedTuple):
    """The members of a class at a look, kept so that their ids stay theirs."""

    ids: list[int]
    members: list[Any]
    replaced: list[str]


_members_of: weakref.WeakKeyDictionary[type, _Seen] = weakref.WeakKeyDictionary()


def _replaced(cls: type) -> list[str]:
    """Names under which an installed class holds what is, or may be, the user's."""
    if not cls.__flags__ & (1 << 9) or origin.is_user_class(cls):
        return []  # written in C, or walked as a base of the user's
    members = vars(cls)
    ids = list(map(id, members.values()))
    known = _members_of.get(cls)
    if known is None or known.ids != ids:
        names = [name for name in sorted(members) if _is_put(cls, name, members[name])]
        known = _members_of[cls] = _Seen(ids, list(members.values()), names)
    return known.replaced


def _is_put(cls: type, name: str, member: Any) -> bool:
    if is_data(member):
        return name[:1] != "_"
    if isinstance(member, types.FunctionType):
        return member.__module__ != origin.module_name(cls) and origin.is_user_code(
            member.__code__, member.__globals__
        )
    return holds_user_code(member, captured=False)


def class_members(cls: type) -> dict[str, Any]:
    """What the class statement put there, in the order of the names."""
    names = vars(cls)
    enum_members = names.get("_member_map_")
    if not isinstance(enum_members, dict):
        return {name: names[name] for name in sorted(names) if name not in NOTES}
    plain = {
        name: names[name]
        for name in sorted(names)
        if name not in NOTES and name not in ENUM_NOTES and name not in enum_members
    }
    return {**plain, "_member_map_": dict(enum_members)}


def _member(
    walk: Walk, cls: type, name: str, value: Any, own: Piece, kids: list[int]
) -> str:
    for function in _functions_in(value):
        walk.hints.setdefault(id(function), f"{cls.__name__}.{name}()")
    if isinstance(value, types.MemberDescriptorType):
        return f"slot {name}"
    return data(walk, "attribute", f"{cls.__name__}.{name}", value, own, kids)


def _functions_in(value: Any) -> list[Any]:
    """The functions that a member is made of, to be called by the member's name."""
    if isinstance(value, types.FunctionType):
        return [value]
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, classmethod | staticmethod):
        return [value.__func__]
    return []


def _place(cls: type) -> str:
    for value in vars(cls).values():
        for function in _functions_in(value):
            code = getattr(function, "__code__", None)
            # Generated methods (a dataclass's __init__) come from nowhere.
            if code is None or not origin.is_user_file(code.co_filename):
                continue
            if origin.place(code):
                return origin.place(code).partition(":")[0]
    return ""


def instance_names(value: Any) -> dict[str, Any] | None:
    """The attributes an instance holds itself; None if it cannot hold any."""
    names = slots_of(value)
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        names.update(own)
        return names
    return names if _slots_of_class(type(value)).declared else None


def slots_of(
    value: Any, counts: Callable[[type], bool] = lambda base: True
) -> dict[str, Any]:
    """What the slots of an instance hold, those of classes that count."""
    kind = type(value)
    names: dict[str, Any] = {}
    for name, member in _slots_of_class(kind).members:
        if not counts(member.__objclass__):
            continue
        try:
            names[name] = member.__get__(value, kind)
        except AttributeError:
            continue
    return names


class _Slots(NamedTuple):
    declared: bool
    members: tuple[tuple[str, types.MemberDescriptorType], ...]


# Of each class for good: slots are made with their class, and never later.
_slots: weakref.WeakKeyDictionary[type, _Slots] = weakref.WeakKeyDictionary()


def _slots_of_class(kind: type) -> _Slots:
    known = _slots.get(kind)
    if known is None:
        known = _slots[kind] = _find_slots(kind)
    return known


def _find_slots(kind: type) -> _Slots:
    bases = [base for base in kind.__mro__ if vars(base).get("__slots__") is not None]
    members = {
        name: member
        for base in bases
        for name, member in vars(base).items()
        if isinstance(member, types.MemberDescriptorType)
    }
    return _Slots(bool(bases), tuple(members.items()))
