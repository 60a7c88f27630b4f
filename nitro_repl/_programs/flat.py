"""A jaxpr laid flat: inner jits inlined, each scalar float constant at a place of its own.

Equal keys mean the same program but for these constants; what cannot be compared by
value has no flat form.
"""

from __future__ import annotations

import enum
import hashlib
import sys
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from .guard import is_guard

_CALLS = ("jit", "pjit", "closed_call")  # inlined
_BODIES = ("remat2", "checkpoint")  # kept as a call, constants in it found
_STEADY = ("pow",)  # what an exponent is decides how its power is computed
_RULES = {  # of no account once a trace is only lowered
    "custom_jvp_call": ("jvp_jaxpr_fun",),
    "custom_vjp_call": ("fwd_jaxpr_thunk", "bwd", "out_trees"),
    "remat2": ("policy",),
    "checkpoint": ("policy",),
}


class UnknownError(Exception):
    """Something in a jaxpr cannot be compared by value."""


@dataclass(eq=False)
class Constant:
    """A scalar float that stands in a program.

    Attributes:
        value: The number, as JAX holds it.
        aval: Its shape, dtype and weak type.
        source: Where JAX says that it was used first.
        steady: Whether it must stay part of the program.
    """

    value: Any
    aval: Any
    source: Any
    steady: bool = False

    @property
    def token(self) -> bytes:
        """The number to the last bit."""
        return np.asarray(self.value).tobytes()


Atom = int | Constant | core.Literal
"""The number of a value, or a value that stands in the program."""


@dataclass(frozen=True)
class FlatEqn:
    """One equation; `bodies` are the jaxprs in it that are laid flat too."""

    eqn: Any
    inputs: tuple[Atom, ...]
    outputs: tuple[int, ...]
    bodies: tuple[Flat, ...] = ()


@dataclass(frozen=True)
class Flat:
    """A jaxpr with numbers for its variables.

    Attributes:
        inputs: Numbers of the inputs.
        avals: Their shapes and dtypes.
        kept: Numbers and values of the arrays that it holds.
        eqns: In order.
        outputs: An atom per output.
    """

    inputs: tuple[int, ...]
    avals: tuple[Any, ...]
    kept: tuple[tuple[int, Any], ...]
    eqns: tuple[FlatEqn, ...]
    outputs: tuple[Atom, ...]


@dataclass(frozen=True)
class Skeleton:
    """A flat jaxpr, what it says without its constants, and these.

    Attributes:
        flat: The jaxpr.
        key: Equal for programs that differ in `constants` at most.
        constants: In the order of their places.
        count: How many values there are.
    """

    flat: Flat
    key: Hashable
    constants: tuple[Constant, ...]
    count: int

    @property
    def tokens(self) -> tuple[bytes, ...]:
        """The constants to the last bit."""
        return tuple(constant.token for constant in self.constants)


def skeleton(closed: core.ClosedJaxpr) -> Skeleton | None:
    """Lay a jaxpr flat; None if something in it cannot be compared by value."""
    if closed.jaxpr.effects:  # callbacks: Python code, which no key can hold
        return None
    layer = _Layer()
    flat = layer.closed(closed, guarded=True)
    writer = _Writer()
    try:
        writer.flat(flat)
    except UnknownError:
        return None
    constants = tuple(c for c in layer.constants if not c.steady)
    return Skeleton(flat, writer.key(), constants, layer.count)


@dataclass
class _Layer:
    """Gives numbers to values, over all nested jaxprs."""

    count: int = 0
    constants: list[Constant] = field(default_factory=list)

    def new(self) -> int:
        self.count += 1
        return self.count - 1

    def closed(self, closed: Any, *, guarded: bool = False) -> Flat:
        """Lay flat a jaxpr that keeps its own inputs."""
        jaxpr, values = opened(closed)
        inputs = tuple(self.new() for _ in jaxpr.invars)
        kept = tuple((self.new(), value) for value in values)
        eqns: list[FlatEqn] = []
        names = dict(zip(jaxpr.constvars, (number for number, _ in kept), strict=True))
        names |= dict(zip(jaxpr.invars, inputs, strict=True))
        outputs = self._equations(jaxpr, names, eqns, guarded=guarded)
        avals = tuple(var.aval for var in jaxpr.invars)
        return Flat(inputs, avals, kept, tuple(eqns), outputs)

    def _equations(
        self, jaxpr: Any, names: dict[Any, Any], eqns: list[FlatEqn], *, guarded: bool
    ) -> tuple[Atom, ...]:
        for eqn in jaxpr.eqns:
            inputs = tuple(self._atom(a, names, eqn.source_info) for a in eqn.invars)
            name = eqn.primitive.name
            inner = _inlined(eqn)
            if inner is not None:
                body, values = opened(inner)
                given: dict[Any, Any] = dict(zip(body.invars, inputs, strict=True))
                for var, value in zip(body.constvars, values, strict=True):
                    given[var] = core.Literal(value, var.aval)
                outs: Sequence[Any] = self._equations(body, given, eqns, guarded=False)
                names.update(zip(eqn.outvars, outs, strict=True))
                continue
            if name in _STEADY:
                for atom in inputs:
                    if isinstance(atom, Constant):
                        atom.steady = True
            bodies: tuple[Flat, ...] = ()
            if name in _BODIES:
                bodies = (self.closed(eqn.params["jaxpr"]),)
            elif guarded and is_guard(eqn):
                bodies = tuple(map(self.closed, eqn.params["branches"]))
            outs = tuple(self.new() for _ in eqn.outvars)
            names.update(zip(eqn.outvars, outs, strict=True))
            eqns.append(FlatEqn(eqn, inputs, tuple(outs), bodies))
        return tuple(self._atom(a, names, None) for a in jaxpr.outvars)

    def _atom(self, atom: Any, names: dict[Any, Any], source: Any) -> Atom:
        if not isinstance(atom, core.Literal):
            return names[atom]
        if atom.aval.shape == () and jnp.issubdtype(atom.aval.dtype, jnp.floating):
            made = Constant(atom.val, atom.aval, source)
            self.constants.append(made)
            return made
        return atom


def opened(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """A jaxpr and the arrays it holds, whether it is closed or not."""
    if isinstance(jaxpr, core.ClosedJaxpr):
        return jaxpr.jaxpr, jaxpr.consts
    return jaxpr, getattr(jaxpr, "consts", ())


def _inlined(eqn: Any) -> Any:
    """The jaxpr of a call that says nothing else, or None."""
    params = eqn.params
    if eqn.primitive.name not in _CALLS:
        return None
    asks = (
        params.get("compiler_options_kvs"),
        *(
            value
            for name in ("in_shardings", "out_shardings", "in_layouts", "out_layouts")
            for value in params.get(name, ())
            if value is not None and type(value).__name__ != "UnspecifiedValue"
        ),
    )
    return None if any(asks) else params.get("jaxpr", params.get("call_jaxpr"))


class _Writer:
    """Writes what a flat jaxpr says: text to hash, and objects to compare."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._objects: list[Any] = []
        self._places: dict[int, int] = {}
        self._avals: dict[Any, str] = {}

    def key(self) -> Hashable:
        return self._hash.hexdigest(), tuple(self._objects)

    def flat(self, flat: Flat) -> None:
        self._say(f"inputs {flat.inputs} {[self._aval(a) for a in flat.avals]}")
        for number, value in flat.kept:
            self._say(f"kept {number} {self._token(value)}")
        for one in flat.eqns:
            self._equation(one)
        self._say(f"outputs {self._atoms(flat.outputs)}")

    def _say(self, text: str) -> None:
        self._hash.update(text.encode("utf-8", "surrogatepass"))
        self._hash.update(b"\n")

    def _equation(self, one: FlatEqn) -> None:
        eqn = one.eqn
        if not _is_of_jax(eqn.primitive):  # its lowering is user code
            raise UnknownError(eqn.primitive.name)
        name = eqn.primitive.name
        skipped = _RULES.get(name, ())
        if one.bodies:
            skipped = (*skipped, "jaxpr", "branches")
        params = [
            f"{key}={self._token(value)}"
            for key, value in sorted(eqn.params.items())
            if key not in skipped
        ]
        outs = [self._aval(var.aval) for var in eqn.outvars]
        self._say(
            f"{name} {self._object(eqn.primitive)} {self._atoms(one.inputs)} "
            f"{one.outputs} {outs} {params} {self._object(eqn.ctx)}"
        )
        for body in one.bodies:
            self.flat(body)

    def _atoms(self, atoms: Iterable[Atom]) -> str:
        return " ".join(map(self._atom, atoms))

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, int):
            return str(atom)
        held = self._aval(atom.aval)
        if isinstance(atom, Constant):
            return f"{held}:{atom.token.hex()}" if atom.steady else f"{held}:?"
        return f"{held}:{self._token(atom.val)}"

    def _aval(self, aval: Any) -> str:
        text = self._avals.get(aval)
        if text is None:
            weak = getattr(aval, "weak_type", False)
            text = self._avals[aval] = f"{aval}{'~' if weak else ''}"
        return text

    def _object(self, value: Any) -> str:
        """A value that is compared by `==`, as a place among the objects."""
        place = self._places.setdefault(id(value), len(self._objects))
        if place == len(self._objects):
            self._objects.append(value)  # kept alive, so that its id is its own
        return f"object {place}"

    def _token(self, value: Any) -> str:
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, str, bytes):
            return f"{kind.__name__} {value!r}"
        if isinstance(value, tuple | list):
            return f"{kind.__qualname__}({', '.join(map(self._token, value))})"
        if isinstance(value, dict):
            items = sorted((repr(k), self._token(v)) for k, v in value.items())
            return f"dict{items}"
        if isinstance(value, frozenset | set):
            return f"set{sorted(map(self._token, value))}"
        if isinstance(value, enum.Enum):
            return f"{kind.__qualname__}.{value.name}"
        if isinstance(value, np.dtype):
            return f"dtype {value}"
        if isinstance(value, core.ClosedJaxpr | core.Jaxpr):
            return f"jaxpr {self._nested(value)}"
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            return _array_token(value)
        return self._other(value)

    def _nested(self, jaxpr: Any) -> str:
        """A body whose constants stay part of the program."""
        if opened(jaxpr)[0].effects:
            raise UnknownError("effects")
        layer, writer = _Layer(), _Writer()
        flat = layer.closed(jaxpr)
        for constant in layer.constants:
            constant.steady = True
        writer.flat(flat)
        digest, objects = writer.key()  # type: ignore[misc]
        return f"{digest} {[self._object(value) for value in objects]}"

    def _other(self, value: Any) -> str:
        if isinstance(value, type):
            return self._object(value)
        comparable = type(value).__module__.partition(".")[0] in ("jax", "jaxlib")
        if not comparable or callable(value) or type(value).__hash__ is None:
            raise UnknownError(type(value).__qualname__)
        return self._object(value)


def _array_token(value: Any) -> str:
    if jnp.issubdtype(value.dtype, jax.dtypes.extended):
        raise UnknownError(str(value.dtype))
    array = np.ascontiguousarray(np.asarray(value))
    digest = hashlib.sha256(array.reshape(-1).view(np.uint8).data)
    return f"array {array.dtype} {array.shape} {digest.hexdigest()}"


_known: dict[int, Any] = {}


def _is_of_jax(primitive: Any) -> bool:
    if id(primitive) not in _known:
        _known.update((id(found), found) for found in _primitives())
    return id(primitive) in _known


def _primitives() -> list[Any]:
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("jax.")]
    return [
        value
        for module in modules
        for value in list(vars(module).values())
        if isinstance(value, core.Primitive)
    ]


