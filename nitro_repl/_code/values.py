"""Which function writes which kind of value into a walk.

Registered kinds first; a kind that nobody knows is a type name and a reason.
"""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import fractions
import functools
import logging
import operator
import pathlib
import re
import threading
import types
import typing
import uuid
import weakref
from collections.abc import Callable
from typing import Any

from . import kinds, origin
from .arrays import Hashed
from .classes import class_reference, expand_class, instance_names
from .extras import beside
from .functions import expand_function
from .library import own_token
from .replaced import Replaced, expand_replaced
from .walk import Expand, Piece, Walk, attributes


class Opaque(str):
    """What a reducer returns for a value that it cannot vouch for: the reason."""

    __slots__ = ()


Reduce = Callable[[Any], Any]

_by_type: dict[type, Reduce] = {}
_by_test: list[tuple[Callable[[Any], bool], Reduce]] = []
_memo: weakref.WeakKeyDictionary[type, Expand] = weakref.WeakKeyDictionary()


def add_reducer(kind: type | Callable[[object], bool], reduce: Reduce) -> None:
    """Use `reduce` for instances of a type, or for values that pass a test."""
    if isinstance(kind, type):
        _by_type[kind] = reduce
    else:
        _by_test.append((kind, reduce))
    _memo.clear()


def expander(value: Any) -> Expand:
    """The function that expands values of this kind."""
    kind = type(value)
    known = _memo.get(kind)
    if known is None:
        known = _memo[kind] = _find(kind)
    return known


def _find(kind: type) -> Expand:
    reduce = next((_by_type[base] for base in kind.__mro__ if base in _by_type), None)
    if reduce is not None:
        return _reducing(reduce)
    if kind in EXACT:
        return EXACT[kind]
    if _is_array_type(kind):
        return kinds.expand_array
    if _is_dtype(kind):
        return kinds.expand_text
    family = (expand for base, expand in FAMILIES if issubclass(kind, base))
    return next(family, expand_instance)


def _reducing(reduce: Reduce) -> Expand:
    def expand(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
        return _reduced(walk, reduce, value, piece, kids)

    return expand


def _reduced(
    walk: Walk, reduce: Reduce, value: Any, piece: Piece, kids: list[int]
) -> str:
    name = type(value).__qualname__
    try:
        plain = reduce(value)
    except Exception as error:  # a value in a strange state must not stop a lookup
        plain = Opaque(f"{name} cannot be read ({type(error).__name__})")
    if isinstance(plain, Opaque):
        walk.unsound(piece, str(plain))
        return f"opaque {name}"
    if isinstance(plain, Hashed):
        piece.holds(plain.nbytes, plain.dtype, plain.shape)
        return f"reduced {name} {plain.said} {plain.dtype} {plain.shape} {plain.digest}"
    return f"reduced {name} {walk.item(plain, piece, kids)}"


def _is_array_type(kind: type) -> bool:
    return origin.module_name(kind).partition(".")[0] in ("numpy", "ml_dtypes") and all(
        hasattr(kind, name) for name in ("dtype", "shape", "tobytes")
    )


def _is_dtype(kind: type) -> bool:
    return any(b.__name__ == "dtype" and b.__module__ == "numpy" for b in kind.__mro__)


# -- anything else


def expand_instance(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """An instance: its class and its attributes, from `__dict__` and `__slots__`."""
    for test, reduce in _by_test:
        if test(value):
            return _reduced(walk, reduce, value, piece, kids)
    token = own_token(value)
    if token:
        return token
    if _is_typing(value):
        return kinds.expand_typing(walk, value, piece, kids)
    kind = class_reference(walk, type(value), piece, kids)
    names = instance_names(value)
    if names is None or has_hidden_state(type(value)):
        said = f"{type(value).__module__}.{type(value).__qualname__}"
        walk.unsound(piece, f"the content of a {said} cannot be read, reached")
        names = names or {}
    label = f"instance {kind}"
    if type(value).__eq__ is object.__eq__ and (
        not names or origin.is_user_class(type(value))
    ):
        label = f"{label} {walk.which(value)}"  # equal to itself alone, as code can ask
    return "\n".join([label, *attributes(walk, names, piece, kids)])


def expand_thread_local(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """Its class: what it holds is another thing in the thread that traces."""
    what = "a threading.local has what the thread that traces put there, not yours,"
    walk.unsound(piece, f"{what} read")
    kind = class_reference(walk, type(value), piece, kids)
    return f"thread local {kind} {walk.which(value)}"


def _is_typing(value: Any) -> bool:
    if type(value).__module__ not in ("typing", "types", "typing_extensions"):
        return False
    return typing.get_origin(value) is not None or hasattr(value, "__name__")


_hidden: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def has_hidden_state(kind: type) -> bool:
    """Whether instances hold more than `__dict__` and `__slots__`: C fields."""
    known = _hidden.get(kind)
    if known is None:
        known = _hidden[kind] = any(map(_adds_fields, kind.__mro__[:-1]))
    return known


def _adds_fields(kind: type) -> bool:
    base = kind.__base__ or object
    slots = vars(kind).get("__slots__", ())
    slots = (slots,) if isinstance(slots, str) else tuple(slots)
    count = len([slot for slot in slots if slot not in ("__dict__", "__weakref__")])
    for offset in ("__dictoffset__", "__weakrefoffset__"):
        count += getattr(kind, offset) > 0 and getattr(base, offset) <= 0
    return kind.__basicsize__ - base.__basicsize__ > count * 8


EXACT: dict[type, Expand] = {
    types.FunctionType: expand_function,
    types.MethodType: kinds.expand_method,
    types.BuiltinFunctionType: kinds.expand_builtin,
    types.ModuleType: kinds.expand_module,
    type: expand_class,
    list: kinds.expand_sequence,
    tuple: kinds.expand_sequence,
    dict: kinds.expand_dict,
    collections.OrderedDict: kinds.expand_dict,
    collections.Counter: kinds.expand_dict,
    collections.deque: kinds.expand_deque,
    collections.defaultdict: kinds.expand_defaultdict,
    types.MappingProxyType: kinds.expand_dict,
    set: kinds.expand_set,
    frozenset: kinds.expand_set,
    weakref.WeakKeyDictionary: kinds.expand_dict,
    weakref.WeakValueDictionary: kinds.expand_dict,
    weakref.WeakSet: kinds.expand_set,
    range: kinds.expand_text,
    slice: kinds.parts("start", "stop", "step"),
    bytearray: kinds.expand_bytes,
    memoryview: kinds.expand_bytes,
    array.array: kinds.expand_bytes,
    object: kinds.expand_object,
    types.CellType: kinds.expand_cell,
    types.CodeType: kinds.expand_code,
    types.MethodWrapperType: kinds.expand_wrapper,
    types.WrapperDescriptorType: kinds.expand_wrapper,
    types.MethodDescriptorType: kinds.expand_wrapper,
    types.ClassMethodDescriptorType: kinds.expand_wrapper,
    types.GetSetDescriptorType: kinds.expand_wrapper,
    types.MemberDescriptorType: lambda walk, value, *_: f"slot {value.__name__}",
    functools._lru_cache_wrapper: beside(kinds.expand_wrapped),
    functools.cached_property: kinds.parts("func", "attrname"),
    functools.singledispatchmethod: kinds.parts("dispatcher", "func"),
    Replaced: expand_replaced,
    operator.itemgetter: kinds.expand_pickled,
    operator.attrgetter: kinds.expand_pickled,
    operator.methodcaller: kinds.expand_pickled,
    type(vars(collections.namedtuple("Pair", "a"))["a"]): kinds.expand_field_of_tuple,
    re.Pattern: kinds.expand_pattern,
    weakref.ref: kinds.expand_weakref,
    decimal.Decimal: kinds.expand_text,
    fractions.Fraction: kinds.expand_text,
    uuid.UUID: kinds.expand_text,
    datetime.datetime: kinds.expand_text,
    datetime.date: kinds.expand_text,
    datetime.time: kinds.expand_text,
    datetime.timedelta: kinds.expand_text,
}
FAMILIES: tuple[tuple[type, Expand], ...] = (
    (enum.Enum, beside(kinds.expand_enum)),
    (type, expand_class),
    (types.ModuleType, kinds.expand_module),
    (functools.partial, kinds.expand_partial),
    (property, beside(kinds.parts("fget", "fset", "fdel"))),
    (classmethod, beside(kinds.expand_class_method)),
    (staticmethod, beside(kinds.parts("__func__"))),
    (threading.local, expand_thread_local),
    (pathlib.PurePath, beside(kinds.expand_text)),
    (weakref.ref, beside(kinds.expand_weakref)),
    (BaseException, kinds.expand_exception),
    (logging.Filterer, beside(kinds.expand_logging)),
    (logging.LoggerAdapter, beside(kinds.expand_logging)),
    (logging.Formatter, beside(kinds.expand_logging)),
    (tuple, kinds.subclass_of(tuple, kinds.named_tuple)),
    (list, kinds.subclass_of(list, kinds.expand_sequence)),
    (dict, kinds.subclass_of(dict, kinds.expand_dict)),
    (set, kinds.subclass_of(set, kinds.expand_set)),
    (frozenset, kinds.subclass_of(frozenset, kinds.expand_set)),
    (str, kinds.subclass_of(str, kinds.as_base(str))),
    (bytes, kinds.subclass_of(bytes, kinds.as_base(bytes))),
    (int, kinds.subclass_of(int, kinds.as_base(int))),
    (float, kinds.subclass_of(float, kinds.as_base(float))),
    (complex, kinds.subclass_of(complex, kinds.as_base(complex))),
)
