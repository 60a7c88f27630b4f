"""The instructions of a code object, without what only lays them out.

Files, lines, docstrings and annotations are gone; jumps still point to offsets.
"""

from __future__ import annotations

import dis
import inspect
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

# Layout, not meaning: closures are described by what they bind instead.
LAYOUT = frozenset(
    [
        "CACHE",
        "NOP",
        "RESUME",
        "EXTENDED_ARG",
        "PRECALL",
        "PUSH_NULL",
        "MAKE_CELL",
        "COPY_FREE_VARS",
        "NOT_TAKEN",
    ]
)
LOADS_GLOBAL = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"])
LOADS_ATTR = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
LOADS_CONST = frozenset(["LOAD_CONST", "RETURN_CONST", "LOAD_SMALL_INT"])
ATTACHES = frozenset(["SET_FUNCTION_ATTRIBUTE"])
# What annotations are made of, with the values each leaves on the stack.
PLAIN_EFFECTS = {
    "LOAD_CONST": 1,
    "LOAD_GLOBAL": 1,
    "LOAD_NAME": 1,
    "LOAD_FAST": 1,
    "LOAD_DEREF": 1,
    "LOAD_ATTR": 0,
    "BINARY_OP": -1,
    "BINARY_SUBSCR": -1,
}
STORES = frozenset(["STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL"])
# What a class body notes about itself and its source.
CLASS_NOTES = frozenset(
    ["__doc__", "__qualname__", "__firstlineno__", "__static_attributes__"]
)
JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
CONSTS = frozenset(dis.hasconst)
NAMES = frozenset(dis.hasname)
LOCALS = frozenset(dis.haslocal)
FREES = frozenset(dis.hasfree)
FLAGS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
    | inspect.CO_ITERABLE_COROUTINE
)


class Op(NamedTuple):
    """An instruction without its layout."""

    name: str
    arg: Any  # None, a name, a constant, a number, or a jump's target offset
    kind: str  # "" | "const" | "name" | "local" | "free" | "jump" | "arg"
    offset: int


def instructions(code: types.CodeType) -> list[Op]:
    """The instructions of a code object, without layout and double ones split."""
    ops: list[Op] = []
    for ins in dis.get_instructions(code):
        if ins.opname == "KW_NAMES":  # 3.11 does not list it among those with constants
            ops.append(
                Op("KW_NAMES", code.co_consts[ins.arg or 0], "const", ins.offset)
            )
        elif ins.opname not in LAYOUT:
            ops.extend(_split(ins))
    return _without_annotations(_without_notes(ops))


def _split(ins: dis.Instruction) -> Iterator[Op]:
    opcode, value = ins.opcode, ins.argval
    if opcode in JUMPS:
        yield Op(ins.opname, value, "jump", ins.offset)
    elif opcode in CONSTS or ins.opname == "LOAD_SMALL_INT":
        yield Op(ins.opname, value, "const", ins.offset)
    elif opcode in NAMES:
        yield Op(ins.opname, value, "name", ins.offset)
    elif opcode in LOCALS and isinstance(value, tuple):
        # 3.13 joins two neighbours: LOAD_FAST_LOAD_FAST, STORE_FAST_LOAD_FAST.
        first, _, second = ins.opname.partition("_FAST_")
        yield Op(f"{first}_FAST", value[0], "local", ins.offset)
        yield Op(second, value[1], "local", ins.offset)
    elif opcode in LOCALS:
        yield Op(ins.opname, value, "local", ins.offset)
    elif opcode in FREES:
        yield Op(ins.opname, value, "free", ins.offset)
    else:
        yield Op(ins.opname, ins.arg, "arg", ins.offset)


def _without_notes(ops: list[Op]) -> list[Op]:
    kept: list[Op] = []
    for op in ops:
        if op.name == "STORE_NAME" and kept:
            source = kept[-1]
            if op.arg in CLASS_NOTES and source.kind == "const":
                kept.pop()
                continue
            if op.arg == "__module__" and source[:2] == ("LOAD_NAME", "__name__"):
                kept.pop()
                continue
        kept.append(op)
    return kept


def _without_annotations(ops: list[Op]) -> list[Op]:
    """Drop the annotations of nested functions, unless a decorator may read them."""
    drop: set[int] = set()
    for i, op in enumerate(ops):
        made = op.name == "MAKE_FUNCTION" and (op.arg or 0) & 4
        if not made and op[:2] != ("SET_FUNCTION_ATTRIBUTE", 4):
            continue
        code = next((j for j in range(i, -1, -1) if _is_code(ops[j])), None)
        after = next((o.name for o in ops[i + 1 :] if o.name not in ATTACHES), "")
        span = None if code is None else _annotations_before(ops, code)
        if span is None or after not in STORES:
            continue
        drop.update(span)
        if made:
            ops[i] = op._replace(arg=op.arg & ~4)
        else:
            drop.add(i)
    return [op for i, op in enumerate(ops) if i not in drop]


def _is_code(op: Op) -> bool:
    return op.kind == "const" and isinstance(op.arg, types.CodeType)


def _annotations_before(ops: list[Op], code: int) -> range | None:
    """The span of instructions that push the tuple of annotations, if it is plain."""
    end = code
    wanted = len(ops[code].arg.co_freevars)
    if wanted:  # the cells are gathered between the annotations and the code
        end -= 1 + wanted
    if end < 1 or ops[end - 1].name not in ("BUILD_TUPLE", "LOAD_CONST"):
        return None
    depth, i = 0, end
    while i > 0:
        i -= 1
        effect = PLAIN_EFFECTS.get(ops[i].name)
        if ops[i].name == "BUILD_TUPLE":
            effect = 1 - ops[i].arg
        if effect is None:
            return None
        depth += effect
        if depth == 1:
            return range(i, end)
    return None


def exception_entries(code: types.CodeType) -> Iterator[tuple[int, int, int, int]]:
    """(start, end, target, depth and lasti) of each entry, in byte offsets."""
    data = iter(code.co_exceptiontable)

    def number() -> int:
        byte = next(data)
        value = byte & 63
        while byte & 64:
            byte = next(data)
            value = value << 6 | byte & 63
        return value

    while True:
        try:
            start = number()
        except StopIteration:
            return
        length, target, flags = number(), number(), number()
        yield start * 2, (start + length) * 2, target * 2, flags
