"""How functions, and the values that their code reads, enter a walk.

A name is resolved when the walk is made, through modules and classes, and the value
found is what counts.
"""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any

from . import origin
from .references import CodeInfo, Read, code_info, constant_token
from .walk import ATOMS, Piece, Walk, text_of

UNSOUND_BUILTINS = frozenset(
    [
        "globals",
        "locals",
        "eval",
        "exec",
        "compile",
        "open",
        "input",
        "__import__",
        "id",
        "breakpoint",
    ]
)
UNSOUND_NAMES = frozenset(
    [
        "__code__",
        "__globals__",
        "__doc__",
        "__file__",
        "f_globals",
        "f_locals",
        "__spec__",
        "__loader__",
        "__builtins__",
    ]
)
# Of what these see, only the whole class of `self` is a safe account.
LOOKS_AT_TYPES = frozenset(["type", "vars", "dir", "__class__", "__dict__", "__mro__"])
LOOKS_BY_NAME = LOOKS_AT_TYPES | {"getattr", "hasattr"}
SEEDED = frozenset(
    [
        "default_rng",
        "Generator",
        "PCG64",
        "PCG64DXSM",
        "Philox",
        "SeedSequence",
        "MT19937",
        "SFC64",
        "RandomState",
    ]
)
SKIPPED_ATTRIBUTES = frozenset(
    [
        "__module__",
        "__qualname__",
        "__name__",
        "__doc__",
        "__annotations__",
        "__type_params__",
        "__annotate__",
    ]
)
MISSING = object()


def expand_function(
    walk: Walk, function: types.FunctionType, piece: Piece, kids: list[int]
) -> str:
    """A function: its code, defaults, captured values, attributes, and what it reads."""
    code = function.__code__
    if not origin.is_user_code(code, function.__globals__):
        return _library_function(walk, function, piece, kids)
    name = walk.hints.get(id(function)) or f"{function.__name__}()"
    own = walk.piece("function", name, piece)
    info = code_info(code)
    own.where = origin.place(code)
    own.digest = f"{info.digest} {function.__name__}"
    own.shape = info.shape
    own.constants = info.constants
    walk.codes |= info.codes
    if walk.owner is not None and not info.names.isdisjoint(LOOKS_AT_TYPES):
        walk.whole_owner = True
        kids.append(walk.node(walk.owner, own))
    for found in sorted(info.names & UNSOUND_NAMES):
        walk.unsound(own, f"{found} is read", info.digest)
    label = [f"def {function.__name__} {info.digest}"]
    label += _defaults(walk, function, own, kids)
    label += _captured(walk, function, info, own, kids)
    for read in info.reads:
        if read.kind != "free":
            label.append(_read(walk, function, info, read, own, kids))
    label += attributes(walk, vars(function), own, kids)
    return "\n".join(label)


def _library_function(
    walk: Walk, function: types.FunctionType, piece: Piece, kids: list[int]
) -> str:
    """An installed function: a token, and what it was given: it may be the user's."""
    module = origin.module_name(function)
    check_stdlib(walk, piece, module, f"{module}.{function.__qualname__}")
    label = [origin.library_token(module, function.__qualname__)]
    registry = _dispatch_registry(function)
    if registry is not None:
        # The other cells of a singledispatch function are caches.
        return "\n".join([*label, walk.item(registry, piece, kids)])
    for default in function.__defaults__ or ():
        label.append(walk.item(default, piece, kids))
    for key, default in (function.__kwdefaults__ or {}).items():
        label.append(f"{key}={walk.item(default, piece, kids)}")
    for cell in function.__closure__ or ():
        label.append(walk.item(_contents(cell), piece, kids))
    return "\n".join(label + attributes(walk, vars(function), piece, kids))


def _dispatch_registry(function: types.FunctionType) -> dict[Any, Any] | None:
    names = vars(function)
    if function.__code__.co_name != "wrapper" or not {"registry", "dispatch"} <= set(
        names
    ):
        return None
    registry = names["registry"]
    return dict(registry) if isinstance(registry, types.MappingProxyType) else None


class Empty:
    """Stands for a cell that nothing was put in."""


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return Empty


def attributes(
    walk: Walk, names: dict[str, Any], piece: Piece, kids: list[int]
) -> list[str]:
    """The attributes of a function or an instance, in the order of their names."""
    return [
        f"{name}={walk.item(names[name], piece, kids)}"
        for name in sorted(names, key=str)
        if name not in SKIPPED_ATTRIBUTES
    ]


def data(
    walk: Walk, kind: str, name: str, value: Any, reader: Piece, kids: list[int]
) -> str:
    """A value that code holds under a name: `item`, and a piece of its own."""
    if type(value) in ATOMS:
        token = constant_token(value)
        piece = walk.piece(kind, name, reader)
        piece.text = text_of(value)
        piece.labels.append(token)
        return token
    if isinstance(value, types.FunctionType | type):
        kids.append(walk.node(value, reader))
        return "*"
    piece = walk.piece(kind, name, reader)
    piece.text = text_of(value)
    kids.append(walk.node(value, piece))
    return "*"


def _defaults(
    walk: Walk, function: types.FunctionType, own: Piece, kids: list[int]
) -> list[str]:
    code = function.__code__
    values = function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    pairs = list(zip(names[len(names) - len(values) :], values, strict=False))
    pairs += sorted((function.__kwdefaults__ or {}).items())
    return [
        f"{name}={data(walk, 'value', f'default {name} of {own.name}', v, own, kids)}"
        for name, v in pairs
    ]


def _captured(
    walk: Walk,
    function: types.FunctionType,
    info: CodeInfo,
    own: Piece,
    kids: list[int],
) -> list[str]:
    cells = dict(
        zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    )
    label: list[str] = []
    for name in info.frees:
        value = _contents(cells[name])
        if isinstance(value, types.ModuleType) or (
            isinstance(value, type) and value in walk.owner_mro
        ):
            reads = [r for r in info.reads if r.kind == "free" and r.name == name]
            reads = reads or [Read("free", name, (), False)]
            for read in reads:
                label.append(_follow(walk, value, info, read, own, kids))
        else:
            label.append(data(walk, "closure", name, value, own, kids))
    return label


def _read(
    walk: Walk,
    function: types.FunctionType,
    info: CodeInfo,
    read: Read,
    own: Piece,
    kids: list[int],
) -> str:
    if read.kind == "import":
        return _imported(walk, function, info, read, own, kids)
    value = function.__globals__.get(read.name, MISSING)
    if value is MISSING:
        return _builtin(walk, info, read, own, kids)
    return _follow(walk, value, info, read, own, kids)


def _imported(
    walk: Walk,
    function: types.FunctionType,
    info: CodeInfo,
    read: Read,
    own: Piece,
    kids: list[int],
) -> str:
    name = read.name.lstrip(".")
    level = len(read.name) - len(name)
    if level:
        package = str(function.__globals__.get("__package__") or "").split(".")
        name = ".".join([*package[: len(package) - level + 1], *filter(None, [name])])
    module = sys.modules.get(name)
    if module is None:
        return f"import {name}, not yet"
    return _follow(walk, module, info, read._replace(name=name), own, kids)


def _builtin(
    walk: Walk, info: CodeInfo, read: Read, own: Piece, kids: list[int]
) -> str:
    name = read.name
    value = vars(builtins).get(name, MISSING)
    if value is MISSING:
        return f"{name} undefined"
    if name in UNSOUND_BUILTINS or (name in ("vars", "dir") and read.called):
        walk.unsound(own, f"{name}() is called", info.digest)
    if isinstance(value, types.FunctionType) or (
        isinstance(value, type) and origin.is_user_class(value)
    ):
        return f"{name} {walk.item(value, own, kids)}"  # replaced by somebody
    return f"builtin {name}"


def _follow(
    walk: Walk, value: Any, info: CodeInfo, read: Read, own: Piece, kids: list[int]
) -> str:
    """A value and the attributes that the code takes from it."""
    chain, i = (read.name, *read.attrs), 1
    while isinstance(value, types.ModuleType) and i < len(chain):
        if not origin.is_user_module(value):
            return _library_chain(walk, value, chain, i, info, read, own, kids)
        found = _attribute(value, chain[i])
        if found is MISSING:
            break
        value, i = found, i + 1
    said = ".".join(chain[:i])
    if isinstance(value, types.ModuleType) and not origin.is_user_module(value):
        return _library_chain(walk, value, chain, i, info, read, own, kids)
    if isinstance(value, type) and value in walk.owner_mro and not walk.whole_owner:
        return f"{said} {_owner(walk, value, chain[i:], info, own, kids)}"
    if isinstance(value, type) and i < len(chain) and origin.is_user_class(value):
        member = _class_member(value, chain[i])
        if member is not MISSING:
            said = f"{said}.{chain[i]}"
            return f"{said} {data(walk, 'attribute', said, member, own, kids)}"
    # One piece for one global, however many attributes of it are read.
    if (said, id(value)) in walk.told:
        return f"{said} {walk.item(value, own, kids)}"
    walk.told.add((said, id(value)))
    return f"{said} {data(walk, 'global', said, value, own, kids)}"


def _attribute(module: types.ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except Exception:  # a module's own __getattr__ may raise anything
        full = f"{module.__name__}.{name}"
        return sys.modules.get(full, MISSING)


def _class_member(cls: type, name: str) -> Any:
    """A class attribute that can be read without the class, else MISSING."""
    if type(cls) is not type and any(name in vars(m) for m in type(cls).__mro__):
        return MISSING
    for base in cls.__mro__:
        if name in vars(base):
            member = vars(base)[name]
            if isinstance(member, staticmethod):
                return member.__func__
            plain = not hasattr(type(member), "__get__")
            return (
                member if plain or isinstance(member, types.FunctionType) else MISSING
            )
    return MISSING


def _library_chain(
    walk: Walk,
    value: Any,
    chain: tuple[str, ...],
    i: int,
    info: CodeInfo,
    read: Read,
    own: Piece,
    kids: list[int],
) -> str:
    """`jnp.sin`: a token for what a library holds, unless it is the user's."""
    while isinstance(value, types.ModuleType):
        name = value.__name__
        if (origin.is_stdlib(name) and not origin.is_pure(name)) or (
            name == "numpy.random"
            and not (i < len(chain) and chain[i] in SEEDED and not read.called)
        ):
            walk.unsound(own, f"{'.'.join(chain)} is read", info.digest)
        if i >= len(chain):
            return origin.library_token(name, "")
        found = _attribute(value, chain[i])
        if found is MISSING:
            return f"{'.'.join(chain)} missing"
        value, i = found, i + 1
        if isinstance(value, types.ModuleType) and origin.is_user_module(value):
            rest = read._replace(name=".".join(chain[:i]), attrs=chain[i:])
            return _follow(walk, value, info, rest, own, kids)
    token = origin.library_token(name, ".".join(chain[:i]))
    if type(value) in ATOMS or _holds_user_code(value):
        return f"{token} {walk.item(value, own, kids)}"
    return token


def _holds_user_code(value: Any) -> bool:
    """Whether a library's attribute was replaced by the user, or wraps user code."""
    for _ in range(8):
        if isinstance(value, types.FunctionType):
            if origin.is_user_code(value.__code__, value.__globals__):
                return True
            if value.__closure__:
                return True  # a decorator's or a factory's product
            inner = vars(value).get("__wrapped__", MISSING)
        elif isinstance(value, type):
            return origin.is_user_class(value)
        elif isinstance(value, types.MethodType):
            inner = value.__func__
        else:
            if origin.is_user_class(type(value)):
                return True
            try:
                inner = getattr(value, "__wrapped__", MISSING)
            except Exception:  # a proxy may raise anything
                return False
        if inner is MISSING:
            return False
        value = inner
    return False


def _owner(
    walk: Walk,
    cls: type,
    attrs: tuple[str, ...],
    info: CodeInfo,
    own: Piece,
    kids: list[int],
) -> str:
    """What code can reach of the experiment class it belongs to, not all of it."""
    if not info.names.isdisjoint(LOOKS_BY_NAME):
        walk.whole_owner = True
        return walk.item(cls, own, kids)
    after = walk.owner_mro[walk.owner_mro.index(cls) + 1 :]
    places = [(cls.__mro__, attrs[:1])] if attrs else []
    if not attrs:
        if info.supers is None:
            places = [(cls.__mro__, sorted(info.names)), (after, sorted(info.names))]
        else:
            places = [(after, sorted(info.supers))]
            if info.supers == frozenset():
                places = [(cls.__mro__, sorted(info.names))]
    label = ["owner"]
    for bases, names in places:
        for name in names:
            base = next((b for b in bases if name in vars(b)), None)
            if base is None:
                label.append(f"{name} none")
            elif origin.is_user_class(base):
                member = vars(base)[name]
                said = f"{base.__name__}.{name}"
                token = data(walk, "attribute", said, member, own, kids)
                label.append(f"{name} {token}")
            else:
                module = origin.module_name(base)
                label.append(
                    origin.library_token(module, f"{base.__qualname__}.{name}")
                )
    return "\n".join(label)


def check_stdlib(walk: Walk, piece: Piece, module: str, said: str) -> None:
    """Note a reason for a value of a standard module that reads the outside world."""
    if origin.is_stdlib(module) and not origin.is_pure(module):
        walk.unsound(piece, f"{said} is reached")
