"""How each kind of plain value enters a walk.

A label holds all that the value itself says; what it contains are its children. A kind
that nobody knows is a type name and a reason.
"""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import logging
import operator
import pathlib
import re
import sys
import types
import typing
import uuid
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from . import origin
from .classes import class_reference, expand_class, instance_names
from .functions import expand_function
from .references import code_info, constant_token
from .walk import Expand, Piece, Walk, attributes, check_stdlib, data


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
    for base in kind.__mro__:
        if base in _by_type:
            return _reducing(_by_type[base])
    if kind in EXACT:
        return EXACT[kind]
    if _is_array_type(kind):
        return expand_array
    if any(b.__name__ == "dtype" and b.__module__ == "numpy" for b in kind.__mro__):
        return expand_text
    for base, expand in FAMILIES:
        if issubclass(kind, base):
            return expand
    if kind.__module__ in ("typing", "types", "typing_extensions"):
        return expand_typing
    return expand_instance


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
    return f"reduced {name} {walk.item(plain, piece, kids)}"


# -- containers


def _items(walk: Walk, values: Iterable[Any], piece: Piece, kids: list[int]) -> str:
    return ",".join([walk.item(value, piece, kids) for value in values])


def expand_sequence(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A list, a tuple or a deque."""
    items = _items(walk, value, piece, kids)
    return f"{type(value).__name__}[{items}]"


def expand_dict(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A mapping; its order counts, since code can see it."""
    flat = [part for pair in list(value.items()) for part in pair]
    return f"{type(value).__name__}{{{_items(walk, flat, piece, kids)}}}"


def expand_set(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A set, without an order."""
    tokens = [walk.item(part, piece, kids) for part in list(value)]
    if len(kids) > 1:
        walk.graph.unordered.add(walk.current)
    return f"{type(value).__name__}<{','.join(sorted(tokens))}>"


def expand_deque(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A deque: items and bound."""
    return f"deque {value.maxlen} [{_items(walk, value, piece, kids)}]"


def expand_defaultdict(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A defaultdict: factory and items."""
    factory = walk.item(value.default_factory, piece, kids)
    return f"default {factory} {expand_dict(walk, value, piece, kids)}"


def _subclass_of(base: type, content: Expand) -> Expand:
    """For a subclass of a container: class and attributes beside the content."""

    def expand(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
        inside = content(walk, value, piece, kids)
        kind = class_reference(walk, type(value), piece, kids)
        names = instance_names(value)
        more = attributes(walk, names, piece, kids)
        return "\n".join([f"{base.__name__} {kind} {inside}", *more])

    return expand


def _as(base: type) -> Expand:
    def expand(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
        return constant_token(base.__new__(base, value))

    return expand


def _named_tuple(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    return f"[{_items(walk, tuple.__iter__(value), piece, kids)}]"


# -- callables and descriptors


def expand_partial(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A partial: function, arguments, keywords."""
    function = walk.item(value.func, piece, kids)
    args = [
        data(walk, "value", f"argument {i} of a partial", arg, piece, kids)
        for i, arg in enumerate(value.args)
    ]
    args += [
        f"{key}={data(walk, 'value', f'argument {key} of a partial', arg, piece, kids)}"
        for key, arg in value.keywords.items()
    ]
    kind = class_reference(walk, type(value), piece, kids)
    more = attributes(walk, vars(value), piece, kids)
    return "\n".join([f"partial {kind} {function}", *args, *more])


def expand_method(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A bound method; an experiment it is bound to is the caller's to account for."""
    function = walk.item(value.__func__, piece, kids)
    if walk.owner is not None and isinstance(value.__self__, walk.owner):
        return f"method {function}"
    return f"method {function} {walk.item(value.__self__, piece, kids)}"


def expand_builtin(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A function written in C, with what it is bound to."""
    bound = getattr(value, "__self__", None)
    name = getattr(value, "__qualname__", value.__name__)
    module = origin.module_name(value)
    check_stdlib(walk, piece, module, f"{module}.{name}")
    if name in ("open", "input") and module in ("io", "_io", "builtins"):
        walk.unsound(piece, f"{name}() is reached")
    if bound is None or isinstance(bound, types.ModuleType):
        return origin.library_token(module, name)
    return f"bound {name} {walk.item(bound, piece, kids)}"


def expand_wrapper(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A slot or a method of a C class: its name and where it stands."""
    home = getattr(value, "__objclass__", None)
    bound = getattr(value, "__self__", None)
    label = f"{type(value).__name__} {value.__name__}"
    if isinstance(home, type):
        label = f"{label} {home.__module__}.{home.__qualname__}"
    if bound is not None:
        label = f"{label} {walk.item(bound, piece, kids)}"
    return label


def _parts(*names: str) -> Expand:
    """A value that is its type and these attributes."""

    def expand(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
        kind = class_reference(walk, type(value), piece, kids)
        parts = [getattr(value, name, None) for name in names]
        return f"{kind} ({_items(walk, parts, piece, kids)})"

    return expand


def expand_wrapped(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """An lru_cache wrapper; what it has cached follows from what it wraps."""
    parameters = value.cache_parameters()
    token = f"{parameters['maxsize']} {parameters['typed']}"
    return f"lru_cache {token} {walk.item(value.__wrapped__, piece, kids)}"


# -- modules, arrays and values with a text of their own

MODULE_NOTES = frozenset(
    [
        "__builtins__",
        "__cached__",
        "__doc__",
        "__file__",
        "__loader__",
        "__name__",
        "__package__",
        "__path__",
        "__spec__",
        "__annotations__",
        "__annotate__",
    ]
)


def expand_module(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A module as a value: a user's whole namespace, or a library's name."""
    if not origin.is_user_module(value):
        check_stdlib(walk, piece, value.__name__, value.__name__)
        return origin.library_token(value.__name__, "")
    main = value.__name__ == "__main__"
    label = ["module"]
    for name, held in sorted(vars(value).items()):
        if name in MODULE_NOTES or (main and (name.startswith("_") or name in HISTORY)):
            continue
        label.append(f"{name} {data(walk, 'global', name, held, piece, kids)}")
    return "\n".join(label)


HISTORY = frozenset(["In", "Out", "exit", "quit", "get_ipython"])


def _is_array_type(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("numpy", "ml_dtypes") and all(
        hasattr(kind, name) for name in ("dtype", "shape", "tobytes")
    )


def expand_array(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A numpy array or scalar: dtype, shape and bytes."""
    dtype = value.dtype
    label = f"{class_reference(walk, type(value), piece, kids)} {dtype!r} {value.shape}"
    if dtype.hasobject:
        return f"{label} {walk.item(value.tolist(), piece, kids)}"
    data_hash = hashlib.blake2b(value.tobytes(), digest_size=16).hexdigest()
    return f"{label} {data_hash}"


def expand_text(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A value that its repr describes fully and without an address."""
    return f"{type(value).__qualname__} {value!r}"


def expand_pattern(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A compiled regular expression."""
    return f"pattern {value.pattern!r} {value.flags}"


def expand_bytes(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A bytearray, an array or a memoryview."""
    code = getattr(value, "typecode", "") or getattr(value, "format", "")
    raw = bytes(value) if isinstance(value, bytearray) else value.tobytes()
    return f"{type(value).__name__} {code} {hashlib.sha256(raw).hexdigest()}"


def expand_pickled(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A small C object that describes itself as a call: itemgetter and friends."""
    reduced = value.__reduce__()
    return f"{type(value).__qualname__} {walk.item(tuple(reduced[1:]), piece, kids)}"


def expand_field_of_tuple(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A field of a named tuple: its index, without its docstring."""
    return f"field {value.__reduce__()[1][0]}"


def expand_weakref(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A weak reference: what it points to, if that lives."""
    return f"weakref {walk.item(value(), piece, kids)}"


def expand_logging(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A logger: it cannot come back into a traced value."""
    return type(value).__qualname__


def expand_code(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A code object as a value."""
    info = code_info(value)
    walk.codes |= info.codes
    return f"code {info.digest}"


def expand_cell(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A cell as a value."""
    try:
        return f"cell {walk.item(value.cell_contents, piece, kids)}"
    except ValueError:
        return "empty cell"


def expand_enum(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """An enum member: by name and value, with its class."""
    kind = class_reference(walk, type(value), piece, kids)
    inner = walk.item(value._value_, piece, kids)
    return f"enum {kind} {value._name_} {inner}"


def expand_exception(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """An exception: class, arguments, attributes."""
    kind = class_reference(walk, type(value), piece, kids)
    label = [f"exception {kind} {walk.item(value.args, piece, kids)}"]
    return "\n".join(label + attributes(walk, vars(value), piece, kids))


def expand_typing(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """An annotation: `list[int]`, `A | B`, a type variable."""
    name = getattr(value, "__name__", None) or getattr(value, "_name", None)
    parts = [typing.get_origin(value), *typing.get_args(value)]
    if parts == [None] and isinstance(value, types.SimpleNamespace):
        return expand_instance(walk, value, piece, kids)
    if parts == [None] and name is None:
        return expand_instance(walk, value, piece, kids)
    return f"typing {type(value).__name__} {name} {_items(walk, parts, piece, kids)}"


# -- anything else


def expand_instance(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """An instance: its class and its attributes, from `__dict__` and `__slots__`."""
    for test, reduce in _by_test:
        if test(value):
            return _reduced(walk, reduce, value, piece, kids)
    token = _library_value(value)
    if token:
        return token
    kind = class_reference(walk, type(value), piece, kids)
    names = instance_names(value)
    if names is None or has_hidden_state(type(value)):
        said = f"{type(value).__module__}.{type(value).__qualname__}"
        walk.unsound(piece, f"the content of a {said} cannot be read, reached")
        names = names or {}
    return "\n".join([f"instance {kind}", *attributes(walk, names, piece, kids)])


def _library_value(value: Any) -> str:
    """A token for a value that its library holds under the value's own name."""
    try:
        module = sys.modules.get(origin.module_name(value))
        if module is None or origin.is_user_module(module):
            return ""
        held = origin.found(module, value)
    except Exception:  # a proxy's attribute access may raise anything
        return ""
    if not held:
        return ""
    name = getattr(value, "__qualname__", None) or value.__name__
    return origin.library_token(module.__name__, name)


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
    types.MethodType: expand_method,
    types.BuiltinFunctionType: expand_builtin,
    types.ModuleType: expand_module,
    type: expand_class,
    list: expand_sequence,
    tuple: expand_sequence,
    dict: expand_dict,
    collections.OrderedDict: expand_dict,
    collections.Counter: expand_dict,
    collections.deque: expand_deque,
    collections.defaultdict: expand_defaultdict,
    types.MappingProxyType: expand_dict,
    set: expand_set,
    frozenset: expand_set,
    weakref.WeakKeyDictionary: expand_dict,
    weakref.WeakValueDictionary: expand_dict,
    weakref.WeakSet: expand_set,
    range: expand_text,
    slice: _parts("start", "stop", "step"),
    bytearray: expand_bytes,
    memoryview: expand_bytes,
    array.array: expand_bytes,
    object: lambda *_: "object",
    types.CellType: expand_cell,
    types.CodeType: expand_code,
    types.MethodWrapperType: expand_wrapper,
    types.WrapperDescriptorType: expand_wrapper,
    types.MethodDescriptorType: expand_wrapper,
    types.ClassMethodDescriptorType: expand_wrapper,
    types.GetSetDescriptorType: expand_wrapper,
    types.MemberDescriptorType: lambda walk, value, *_: f"slot {value.__name__}",
    functools._lru_cache_wrapper: expand_wrapped,
    functools.cached_property: _parts("func", "attrname"),
    functools.singledispatchmethod: _parts("dispatcher", "func"),
    operator.itemgetter: expand_pickled,
    operator.attrgetter: expand_pickled,
    operator.methodcaller: expand_pickled,
    type(collections.namedtuple("Pair", "a").a): expand_field_of_tuple,
    re.Pattern: expand_pattern,
    weakref.ref: expand_weakref,
    decimal.Decimal: expand_text,
    fractions.Fraction: expand_text,
    uuid.UUID: expand_text,
    datetime.datetime: expand_text,
    datetime.date: expand_text,
    datetime.time: expand_text,
    datetime.timedelta: expand_text,
}
FAMILIES: tuple[tuple[type, Expand], ...] = (
    (enum.Enum, expand_enum),
    (type, expand_class),
    (types.ModuleType, expand_module),
    (functools.partial, expand_partial),
    (property, _parts("fget", "fset", "fdel")),
    (classmethod, _parts("__func__")),
    (staticmethod, _parts("__func__")),
    (pathlib.PurePath, expand_text),
    (weakref.ref, expand_weakref),
    (BaseException, expand_exception),
    (logging.Filterer, expand_logging),
    (logging.LoggerAdapter, expand_logging),
    (logging.Formatter, expand_logging),
    (tuple, _subclass_of(tuple, _named_tuple)),
    (list, _subclass_of(list, expand_sequence)),
    (dict, _subclass_of(dict, expand_dict)),
    (set, _subclass_of(set, expand_set)),
    (frozenset, _subclass_of(frozenset, expand_set)),
    (str, _subclass_of(str, _as(str))),
    (bytes, _subclass_of(bytes, _as(bytes))),
    (int, _subclass_of(int, _as(int))),
    (float, _subclass_of(float, _as(float))),
    (complex, _subclass_of(complex, _as(complex))),
)
