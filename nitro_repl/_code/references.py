"""What one code object says: its own content, and the names it reads.

Equal content under another name of a local, line, file or docstring is equal here.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import types
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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


class Read(NamedTuple):
    """One value that code reads: a name and the attributes taken from it."""

    kind: str  # "global" | "free" | "import"
    name: str
    attrs: tuple[str, ...]
    called: bool  # called at once, with no argument: `vars()`


class Op(NamedTuple):
    """An instruction without its layout."""

    name: str
    arg: Any  # None, a name, a constant, a number, or a jump's target offset
    kind: str  # "" | "const" | "name" | "local" | "free" | "jump" | "arg"
    offset: int


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """The content of one code object, with that of the code nested in it.

    Attributes:
        digest: Of everything it says.
        shape: The same with numbers and strings blanked.
        constants: Those numbers and strings, in order.
        frees: Its free variables in an order that their names do not decide.
        reads: Values it reads from outside.
        names: Every global and attribute name in it.
        supers: Attributes taken from `super()`, or None when that cannot be told.
        codes: Digests of itself and of the code nested in it.
    """

    digest: str
    shape: str
    constants: tuple[Any, ...]
    frees: tuple[str, ...]
    reads: tuple[Read, ...]
    names: frozenset[str]
    supers: frozenset[str] | None
    codes: frozenset[str]


_memo: dict[int, tuple[weakref.ref[types.CodeType], CodeInfo]] = {}


def code_info(code: types.CodeType) -> CodeInfo:
    """The content of a code object; worked out once an object."""
    entry = _memo.get(id(code))
    if entry is not None and entry[0]() is code:
        return entry[1]
    info = _Reader(code).info()
    key = id(code)
    _memo[key] = (weakref.ref(code, lambda ref: _forget(key, ref)), info)
    return info


def _forget(key: int, ref: weakref.ref[types.CodeType]) -> None:
    entry = _memo.get(key)
    if entry is not None and entry[0] is ref:
        _memo.pop(key, None)


def constant_token(value: object) -> str:
    """A constant as text that tells 1, 1.0, True and -0.0, 0.0 apart."""
    kind = type(value)
    if kind is tuple:
        return f"({','.join(map(constant_token, value))})"  # type: ignore[arg-type]
    if kind is frozenset:
        return f"{{{','.join(sorted(map(constant_token, value)))}}}"  # type: ignore[arg-type]
    if kind is int:
        return f"int {value:x}"
    if kind is slice:
        parts = value.start, value.stop, value.step  # type: ignore[attr-defined]
        return f"slice{constant_token(parts)}"
    return f"{kind.__name__} {value!r}"


def hash_text(text: str) -> str:
    """32 hex characters for a text."""
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


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


class _Reader:
    """Reads one code object; lives for one call of `code_info`."""

    def __init__(self, code: types.CodeType):
        self.code = code
        self.ops = instructions(code)
        self.args = _argument_names(code)
        self.numbers: dict[str, int] = {name: i for i, name in enumerate(self.args)}
        self.imported = self._imports()
        self.text: list[str] = []
        self.shape: list[str] = []
        self.constants: list[Any] = []
        self.names: set[str] = set()
        self.codes: set[str] = set()
        self.reads: dict[Read, None] = {}

    def info(self) -> CodeInfo:
        code = self.code
        flags = code.co_flags & FLAGS
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
        self._say(f"{code.co_name} {counts} {flags} {self.args}")
        self._say_instructions()
        self._say("|".join(self._exception_table()))
        self._collect_reads()
        digest = hash_text("\n".join(self.text))
        return CodeInfo(
            digest=digest,
            shape=hash_text("\n".join(self.shape)),
            constants=tuple(self.constants),
            frees=self._frees(),
            reads=tuple(self.reads),
            names=frozenset(self.names),
            supers=self._supers(),
            codes=frozenset(self.codes | {digest}),
        )

    def _say(self, text: str, blank: str | None = None) -> None:
        self.text.append(text)
        self.shape.append(text if blank is None else blank)

    # -- instructions

    def _say_instructions(self) -> None:
        index = {op.offset: i for i, op in reversed(list(enumerate(self.ops)))}
        self.offsets = sorted(index)
        self.index = index
        hidden = self._closure_builds()
        for i, op in enumerate(self.ops):
            if i not in hidden:
                self._say_op(i, op)

    def _say_op(self, i: int, op: Op) -> None:
        if op.kind == "const":
            self._say_constant(op)
        elif op.kind == "jump":
            self._say(f"{op.name} {self._position(op.arg) - i:+d}")
        elif op.kind == "name":
            self.names.add(op.arg)
            self._say(f"{op.name} {op.arg}")
        elif op.kind in ("local", "free"):
            by_name = "DICT" in op.name or "CLASS" in op.name  # a class body looks up
            arg = op.arg if by_name else self._number(op.arg)
            self._say(f"{op.name} {arg}")
        else:
            self._say(f"{op.name} {op.arg}")

    def _say_constant(self, op: Op) -> None:
        if isinstance(op.arg, types.CodeType):
            self._say_nested(op)
        elif op.name in LOADS_CONST and not _is_singleton(op.arg):
            self.constants.append(op.arg)
            self._say(f"{op.name} {constant_token(op.arg)}", f"{op.name} ?")
        else:
            self._say(f"{op.name} {constant_token(op.arg)}")

    def _say_nested(self, op: Op) -> None:
        nested = code_info(op.arg)
        bound = [self._number(name) for name in nested.frees]
        self._say(
            f"{op.name} code {nested.digest} {bound}",
            f"{op.name} code {nested.shape} {bound}",
        )
        self.constants.extend(nested.constants)
        self.names |= nested.names
        self.codes |= nested.codes

    def _number(self, name: str) -> object:
        """A local's number: its place among the arguments, or of first appearance."""
        if name == "__class__":
            return name
        return self.numbers.setdefault(name, len(self.numbers))

    def _closure_builds(self) -> set[int]:
        """Indices of instructions that only gather cells for a nested function.

        Their order follows the names of the cells, which `_say_nested` replaces.
        """
        hidden: set[int] = set()
        for i, op in enumerate(self.ops):
            if not isinstance(op.arg, types.CodeType) or op.kind != "const":
                continue
            wanted = op.arg.co_freevars
            start = i - 1 - len(wanted)
            if not wanted or start < 0 or self.ops[i - 1].name != "BUILD_TUPLE":
                continue
            if tuple(o.arg for o in self.ops[start : i - 1]) == wanted:
                hidden.update(range(start, i))
        return hidden

    def _position(self, offset: int) -> int:
        """The index of the first kept instruction at or after an offset."""
        at = self.index.get(offset)
        if at is not None:
            return at
        later = next((o for o in self.offsets if o >= offset), None)
        return len(self.ops) if later is None else self.index[later]

    def _exception_table(self) -> Iterator[str]:
        for start, end, target, flags in _exception_entries(self.code):
            if self._position(start) < self._position(end):
                spots = (start, end, target)
                yield f"{[self._position(spot) for spot in spots]} {flags}"

    def _frees(self) -> tuple[str, ...]:
        order = self.numbers
        return tuple(
            sorted(
                self.code.co_freevars,
                key=lambda name: (name not in order, order.get(name, 0), name),
            )
        )

    # -- reads

    def _imports(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Locals bound by an import statement: name -> (module, attributes)."""
        bound: dict[str, tuple[str, tuple[str, ...]]] = {}
        module, attrs, listed, level = "", (), False, 0
        pending = False
        for i, op in enumerate(self.ops):
            if op.name == "IMPORT_NAME":
                listed, level = bool(self.ops[i - 1].arg), self.ops[i - 2].arg
                name = op.arg if listed else op.arg.partition(".")[0]
                module, attrs, pending = "." * level + name, (), True
            elif op.name == "IMPORT_FROM":
                attrs, pending = ((op.arg,) if listed else (*attrs, op.arg)), True
            elif pending and op.name in STORES:
                bound[op.arg] = (module, attrs)
                pending = False
        return bound

    def _collect_reads(self) -> None:
        ops, i = self.ops, 0
        while i < len(ops):
            start = self._root(ops[i])
            nested = ops[i].arg
            i += 1
            if isinstance(nested, types.CodeType):
                self._nested_reads(code_info(nested).reads)
            if start is None:
                continue
            kind, name, attrs = start
            while i < len(ops) and ops[i].name in LOADS_ATTR:
                attrs = (*attrs, ops[i].arg)
                i += 1
            called = i < len(ops) and ops[i].name == "CALL" and ops[i].arg == 0
            self.reads[Read(kind, name, attrs, called)] = None
        for name in self.imported:
            if name in self.names:  # bound as a global, not as a local
                module, attrs = self.imported[name]
                self.reads[Read("import", module, attrs, False)] = None

    def _root(self, op: Op) -> tuple[str, str, tuple[str, ...]] | None:
        if op.name in LOADS_GLOBAL:
            return "global", op.arg, ()
        if op.kind in ("local", "free") and op.name.startswith("LOAD"):
            if op.arg in self.imported:
                return "import", *self.imported[op.arg]
            if op.arg in self.code.co_freevars:
                return "free", op.arg, ()
        return None

    def _nested_reads(self, reads: Iterable[Read]) -> None:
        for read in reads:
            if read.kind != "free" or read.name in self.code.co_freevars:
                self.reads[read] = None
            elif read.name in self.imported:
                module, attrs = self.imported[read.name]
                both = (*attrs, *read.attrs)
                self.reads[Read("import", module, both, read.called)] = None

    def _supers(self) -> frozenset[str] | None:
        """Attributes taken from `super()`; None if `super` or `__class__` leaks."""
        taken: set[str] = set()
        uses = matched = 0
        for i, op in enumerate(self.ops):
            if op.name in LOADS_GLOBAL and op.arg == "super":
                uses += 1
                taken_here = self._super_attr(i)
                if taken_here:
                    matched += 1
                    taken.add(taken_here)
            elif op.arg == "__class__" and op.kind in ("free", "name"):
                after = self.ops[i + 2].name if i + 2 < len(self.ops) else ""
                if not after.startswith("LOAD_SUPER"):
                    return None
            elif isinstance(op.arg, types.CodeType):
                nested = code_info(op.arg).supers
                if nested is None:
                    return None
                taken |= nested
        return frozenset(taken) if uses == matched else None

    def _super_attr(self, i: int) -> str | None:
        """The name in `super().name` or `super(A, self).name` from instruction i."""
        for j in range(i + 1, min(i + 5, len(self.ops))):
            op = self.ops[j]
            if op.name.startswith("LOAD_SUPER"):
                return op.arg
            if op.name == "CALL":
                after = self.ops[j + 1] if j + 1 < len(self.ops) else op
                return after.arg if after.name in LOADS_ATTR else None
        return None


def _is_singleton(value: object) -> bool:
    return value is None or value is ... or isinstance(value, bool)


def _argument_names(code: types.CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS)
    count += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def _exception_entries(code: types.CodeType) -> Iterator[tuple[int, int, int, int]]:
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
