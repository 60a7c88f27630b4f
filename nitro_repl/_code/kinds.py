"""How each kind of plain value is written into a walk.

A label holds all that the value itself says; what it contains are its children.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from typing import Any

from . import origin
from .arrays import bytes_digest, digest_of
from .classes import class_reference, instance_names
from .plain import plain_text
from .references import code_info, constant_token
from .walk import Expand, Piece, Walk, attributes, check_outside, data

# -- containers


def _items(walk: Walk, values: Iterable[Any], piece: Piece, kids: list[int]) -> str:
    return ",".join([walk.item(value, piece, kids) for value in values])


def expand_sequence(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A list or a tuple."""
    whole = plain_text(value)
    if whole is not None:
        return whole
    items = _items(walk, value, piece, kids)
    return f"{type(value).__name__}[{items}]"


def expand_dict(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A mapping; its order counts, since code can see it."""
    whole = plain_text(value)
    if whole is not None:
        return whole
    kept = value.copy() if type(value) is dict else value  # others may add to it
    flat = [part for pair in list(kept.items()) for part in pair]
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


def subclass_of(base: type, content: Expand) -> Expand:
    """For a subclass of a container: class and attributes beside the content."""

    def expand(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
        inside = content(walk, value, piece, kids)
        kind = class_reference(walk, type(value), piece, kids)
        names = instance_names(value) or {}
        more = attributes(walk, names, piece, kids)
        return "\n".join([f"{base.__name__} {kind} {inside}", *more])

    return expand


def as_base(base: type) -> Expand:
    """For a subclass of an atom: its plain value."""

    def expand(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
        return constant_token(base.__new__(base, value))

    return expand


def named_tuple(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """The items of a tuple, whatever its class makes of iteration."""
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
    check_outside(walk, piece, module, f"{module}.{name}")
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


def parts(*names: str) -> Expand:
    """A value that is its type and these attributes."""

    def expand(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
        kind = class_reference(walk, type(value), piece, kids)
        held = [getattr(value, name, None) for name in names]
        return f"{kind} ({_items(walk, held, piece, kids)})"

    return expand


def expand_class_method(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A class method; of the experiment's it gets the class, and may read it all."""
    if walk.owner is not None:
        walk.whole_owner = True
        kids.append(walk.node(walk.owner, piece))
    return parts("__func__")(walk, value, piece, kids)


def expand_wrapped(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """An lru_cache wrapper; what it kept may be older than what it wraps now."""
    code = getattr(value.__wrapped__, "__code__", None)
    of_the_user = code is not None and origin.is_user_file(code.co_filename)
    if of_the_user and value.cache_info().currsize:
        walk.unsound(piece, "a result that lru_cache kept is reached")
    parameters = value.cache_parameters()
    token = f"{parameters['maxsize']} {parameters['typed']}"
    return f"lru_cache {token} {walk.item(value.__wrapped__, piece, kids)}"


def expand_object(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A bare object: nothing but which one it is, as `MODE is FAST` asks."""
    return f"object {walk.which(value)}"


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
        check_outside(walk, piece, value.__name__, value.__name__)
        return origin.library_token(value.__name__, "")
    main = value.__name__ == "__main__"
    label = ["module"]
    for name, held in sorted(vars(value).copy().items()):
        if name in MODULE_NOTES or (main and (name.startswith("_") or name in HISTORY)):
            continue
        said = f"{piece.name}.{name}" if piece.kind == "global" else name
        home = (value.__name__, name)
        held_as = data(walk, "global", said, held, piece, kids, home=home)
        label.append(f"{name} {held_as}")
    return "\n".join(label)


HISTORY = frozenset(["In", "Out", "exit", "quit", "get_ipython"])


def expand_array(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A numpy array or scalar: dtype, shape and bytes."""
    dtype = value.dtype
    label = f"{class_reference(walk, type(value), piece, kids)} {dtype!r} {value.shape}"
    if dtype.hasobject:
        return f"{label} {walk.item(value.tolist(), piece, kids)}"
    piece.holds(value.nbytes, dtype, value.shape)
    return f"{label} {digest_of(value)}"


def expand_text(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A value that its repr describes fully and without an address."""
    return f"{type(value).__qualname__} {value!r}"


def expand_pattern(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A compiled regular expression."""
    return f"pattern {value.pattern!r} {value.flags}"


def expand_bytes(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """A bytearray, an array or a memoryview."""
    code = getattr(value, "typecode", "") or getattr(value, "format", "")
    shape = getattr(value, "shape", "")
    raw = value if isinstance(value, bytearray) else value.tobytes()
    return f"{type(value).__name__} {code} {shape} {bytes_digest(raw)}"


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
    """A logger: of it, only its level can come back into a traced value."""
    state = [getattr(value, name, None) for name in ("level", "disabled")]
    return f"{type(value).__qualname__} {state}"


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


OF_TYPES = ("__bound__", "__constraints__", "__supertype__")


def expand_typing(walk: Walk, value: Any, piece: Piece, kids: list[int]) -> str:
    """An annotation: `list[int]`, `A | B`, a type variable."""
    name = getattr(value, "__name__", None) or getattr(value, "_name", None)
    inner = [typing.get_origin(value), *typing.get_args(value)]
    inner += [getattr(value, name, None) for name in OF_TYPES]
    return f"typing {type(value).__name__} {name} {_items(walk, inner, piece, kids)}"
