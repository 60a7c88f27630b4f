"""How functions enter a walk: code, defaults, captured values, attributes, reads.

An installed function is a token, but what it was given is walked: it may be the user's.
"""

from __future__ import annotations

import types
from typing import Any

from . import origin
from .reads import LOOKS_AT_TYPES, Body
from .references import CodeInfo, code_info
from .walk import Piece, Walk, attributes, check_outside, data

# What a walk does not account for: the outside world, and what is no content here.
UNSOUND_NAMES = frozenset(
    [
        "__abstractmethods__",
        "__annotations__",
        "__builtins__",
        "__code__",
        "__dataclass_params__",
        "__doc__",
        "__file__",
        "__firstlineno__",
        "__globals__",
        "__loader__",
        "__module__",
        "__orig_bases__",
        "__parameters__",
        "__protocol_attrs__",
        "__qualname__",
        "__spec__",
        "__static_attributes__",
        "__subclasses__",
        "__type_params__",
        "exists",
        "f_globals",
        "f_locals",
        "getEffectiveLevel",
        "get_original_bases",
        "get_type_hints",
        "glob",
        "isEnabledFor",
        "is_dir",
        "is_file",
        "iterdir",
        "open",
        "read_bytes",
        "read_text",
        "rglob",
        "stat",
    ]
)

SEES_ORDER = frozenset(["__dict__", "vars"])
_GENERATED = "__create_fn__.<locals>."


def expand_function(
    walk: Walk, function: types.FunctionType, piece: Piece, kids: list[int]
) -> str:
    """A function: its code, what it was made with, and what it reads."""
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
    names = frozenset() if _of_a_dataclass(code) else _names(info)
    if walk.owner is not None and not names.isdisjoint(LOOKS_AT_TYPES):
        walk.whole_owner = True
        kids.append(walk.node(walk.owner, own))
    for found in sorted(names & UNSOUND_NAMES):
        walk.unsound(own, f"{found} is read", info.digest)
    walk.sees_identity |= info.identity
    walk.sees_order |= not names.isdisjoint(SEES_ORDER)
    label = [f"def {function.__name__} {info.digest}"]
    label += _defaults(walk, function, own, kids)
    body = Body(walk, function, info, own, kids)
    label += _captured(body)
    label += [body.read(read) for read in info.reads if read.kind != "free"]
    label += attributes(walk, vars(function), own, kids)
    return "\n".join(label)


def _names(info: CodeInfo) -> frozenset[str]:
    """The names in code, those too that it may give to getattr."""
    texts = (text for text in info.constants if isinstance(text, str))
    return info.names.union(text for text in texts if text[:2] == "__")


def _of_a_dataclass(code: types.CodeType) -> bool:
    """Whether a dataclass made this method: it asks for classes, and opens none."""
    return code.co_filename == "<string>" and code.co_qualname.startswith(_GENERATED)


def _library_function(
    walk: Walk, function: types.FunctionType, piece: Piece, kids: list[int]
) -> str:
    """An installed function: a token, and what it was given: it may be the user's."""
    module = origin.module_name(function)
    check_outside(walk, piece, module, f"{module}.{function.__qualname__}")
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
    """The implementations of a `functools.singledispatch` function."""
    registry = vars(function).get("registry")
    if "dispatch" in vars(function) and isinstance(registry, types.MappingProxyType):
        return dict(registry)
    return None


class Empty:
    """Stands for a cell that nothing was put in."""


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return Empty


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


def _captured(body: Body) -> list[str]:
    function = body.function
    cells = dict(
        zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    )
    label: list[str] = []
    for name in body.info.frees:
        value = _contents(cells[name])
        if isinstance(value, types.ModuleType) or body.is_owner(value):
            label += body.free_reads(name, value)
        else:
            label.append(data(body.walk, "closure", name, value, body.own, body.kids))
    return label
