"""What one code object says: its own content, and the names it reads.

Equal content under another name of a local, line, file or docstring is equal here.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import types
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .instructions import (
    FLAGS,
    LOADS_ATTR,
    LOADS_CONST,
    LOADS_GLOBAL,
    STORES,
    Op,
    exception_entries,
    instructions,
)

_LONG = 1000  # characters of a string above which a digest stands for it
CLASS_NOTES = ("__module__", "__qualname__")  # what every class body begins with
SUPER = "super()"  # stands for an attribute: what `super(A, self)` takes of A


class Read(NamedTuple):
    """One value that code reads: a name and the attributes taken from it."""

    kind: str  # "global" | "free" | "import"
    name: str
    attrs: tuple[str, ...]
    called: bool  # called at once, with no argument: `vars()`


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
        identity: Whether it asks if two values are one object, `a is b`.
    """

    digest: str
    shape: str
    constants: tuple[Any, ...]
    frees: tuple[str, ...]
    reads: tuple[Read, ...]
    names: frozenset[str]
    supers: frozenset[str] | None
    codes: frozenset[str]
    identity: bool


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
    if kind in (str, bytes) and len(value) > _LONG:  # type: ignore[arg-type]
        return f"{kind.__name__} {len(value)} {hash_text(value)}"  # type: ignore[arg-type]
    if kind is slice:
        parts = value.start, value.stop, value.step  # type: ignore[attr-defined]
        return f"slice{constant_token(parts)}"
    return f"{kind.__name__} {value!r}"


def hash_text(text: str | bytes) -> str:
    """32 hex characters for a text."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return hashlib.blake2b(data, digest_size=16).hexdigest()


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
        self.identity = False
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
            identity=self.identity or self._asks_identity(),
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
            if op.name != "STORE_NAME" or op.arg not in CLASS_NOTES:
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
        self.identity |= nested.identity

    def _asks_identity(self) -> bool:
        """Whether `is` stands between two values of which none is a singleton."""
        return any(
            op.name == "IS_OP" and not _loads_singleton(before)
            for before, op in itertools.pairwise(self.ops)
        )

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
        for start, end, target, flags in exception_entries(self.code):
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
            if i > 1 and ops[i - 2].name in LOADS_GLOBAL and ops[i - 2].arg == "super":
                attrs = (SUPER,)  # `super(A, self)` takes A apart, nothing else does
            stored = ops[i - 1].name in STORES
            while i < len(ops) and ops[i].name in LOADS_ATTR and not stored:
                attrs = (*attrs, ops[i].arg)
                i += 1
            called = (
                not stored
                and i < len(ops)
                and ops[i].name == "CALL"
                and ops[i].arg == 0
            )
            self.reads[Read(kind, name, attrs, called)] = None
        for name in self.imported:
            if name in self.names:  # bound as a global, not as a local
                module, attrs = self.imported[name]
                self.reads[Read("import", module, attrs, False)] = None

    def _root(self, op: Op) -> tuple[str, str, tuple[str, ...]] | None:
        if op.name in LOADS_GLOBAL or op.name == "STORE_GLOBAL":
            return "global", op.arg, ()  # what it leaves there is its result too
        if op.name == "STORE_DEREF" and op.arg in self.code.co_freevars:
            return "free", op.arg, ()
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


def _argument_names(code: types.CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS)
    count += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def _loads_singleton(op: Op) -> bool:
    return op.name in LOADS_CONST and _is_singleton(op.arg)


def _is_singleton(value: object) -> bool:
    return value is None or value is ... or isinstance(value, bool)
