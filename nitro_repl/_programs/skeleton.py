"""What a jaxpr says without its float constants: a key to compare programs by.

Equal keys mean the same program but for these constants. What cannot be compared by
value has no key.
"""

from __future__ import annotations

import enum
import hashlib
import sys
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from .flat import Atom, Constant, Flat, FlatEqn, Layer, opened

_RULES = {  # of no account once a trace is only lowered
    "custom_jvp_call": ("jvp_jaxpr_fun",),
    "custom_vjp_call": ("fwd_jaxpr_thunk", "bwd", "out_trees"),
    "remat2": ("policy",),
    "checkpoint": ("policy",),
}


class UnknownError(Exception):
    """Something in a jaxpr cannot be compared by value, or not made an input."""


@dataclass(frozen=True)
class Skeleton:
    """A flat jaxpr, what it says without its constants, and these.

    Attributes:
        flat: The jaxpr.
        key: Equal for programs that differ in `constants` at most.
        constants: In the order of their places; those that can be inputs.
    """

    flat: Flat
    key: Hashable
    constants: tuple[Constant, ...]

    @property
    def tokens(self) -> tuple[bytes, ...]:
        """The constants to the last bit."""
        return tuple(constant.token for constant in self.constants)


def skeleton(closed: core.ClosedJaxpr) -> Skeleton | None:
    """Lay a jaxpr flat; None if something in it cannot be compared by value."""
    if closed.jaxpr.effects:  # callbacks: Python code, which no key can hold
        return None
    layer = Layer()
    flat = layer.closed(closed, guarded=True)
    writer = _Writer()
    try:
        writer.flat(flat)
    except UnknownError:
        return None
    constants = tuple(c for c in layer.constants if not c.steady)
    return Skeleton(flat, writer.key(), constants)


class _Writer:
    """Writes what a flat jaxpr says: text to hash, and objects to compare."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._objects: list[Any] = []
        self._places: dict[tuple[type, Any], int] = {}
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
            said = f"={atom.token.hex()}" if atom.steady else ""
            return f"{held}:constant {atom.place}{said}"
        return f"{held}:{self._token(atom.val)}"

    def _aval(self, aval: Any) -> str:
        text = self._avals.get(aval)
        if text is None:
            weak = getattr(aval, "weak_type", False)
            text = self._avals[aval] = f"{aval}{'~' if weak else ''}"
        return text

    def _object(self, value: Any) -> str:
        """A value that is compared by `==`, as a place among the objects."""
        place = self._places.setdefault((type(value), value), len(self._objects))
        if place == len(self._objects):
            self._objects.append(value)
        return f"object {place}"

    def _token(self, value: Any) -> str:
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, str, bytes):
            return f"{kind.__name__} {value!r}"
        for base, write in self._writers:
            if isinstance(value, base):
                return write(self, value)
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            return _array_token(value)
        return self._other(value)

    def _sequence(self, value: Any) -> str:
        return f"{type(value).__qualname__}({', '.join(map(self._token, value))})"

    def _dict(self, value: Any) -> str:
        return f"dict{sorted((repr(k), self._token(v)) for k, v in value.items())}"

    def _set(self, value: Any) -> str:
        return f"set{sorted(map(self._token, value))}"

    def _nested(self, jaxpr: Any) -> str:
        """A body whose constants stay part of the program."""
        if opened(jaxpr)[0].effects:
            raise UnknownError("effects")
        layer, writer = Layer(), _Writer()
        flat = layer.closed(jaxpr)
        for constant in layer.constants:
            constant.steady = True
        writer.flat(flat)
        digest, objects = writer.key()  # type: ignore[misc]
        return f"jaxpr {digest} {[self._object(value) for value in objects]}"

    def _other(self, value: Any) -> str:
        comparable = type(value).__module__.partition(".")[0] in ("jax", "jaxlib")
        comparable = comparable and not callable(value)
        if not (comparable or _is_function_of_jax(value)):
            raise UnknownError(type(value).__qualname__)
        if type(value).__hash__ is None:
            raise UnknownError(type(value).__qualname__)
        return self._object(value)

    _writers: tuple[tuple[Any, Any], ...] = (  # kind, how to write it
        (tuple | list, _sequence),
        (dict, _dict),
        (set | frozenset, _set),
        (enum.Enum, lambda _, value: f"{type(value).__qualname__}.{value.name}"),
        (np.dtype, lambda _, value: f"dtype {value}"),
        (core.ClosedJaxpr | core.Jaxpr, _nested),
        (type, _object),
    )


def _array_token(value: Any) -> str:
    if jnp.issubdtype(value.dtype, jax.dtypes.extended):
        raise UnknownError(str(value.dtype))
    array = np.ascontiguousarray(np.asarray(value))
    digest = hashlib.sha256(array.reshape(-1).view(np.uint8).data)
    return f"array {array.dtype} {array.shape} {digest.hexdigest()}"


def _is_function_of_jax(value: Any) -> bool:
    """Whether JAX holds a function under its own name, as those of a PRNG are."""
    module = getattr(value, "__module__", None) or ""
    name = getattr(value, "__qualname__", "")
    held = getattr(sys.modules.get(module), name, None)
    return module.partition(".")[0] == "jax" and held is value


_known: dict[int, Any] = {}


def _is_of_jax(primitive: Any) -> bool:
    if id(primitive) not in _known:
        _known.update((id(found), found) for found in _primitives())
    return id(primitive) in _known


def _primitives() -> list[Any]:
    # Copied at once: other threads import and define meanwhile, and even `list` of
    # the items may give them a turn.
    known = sys.modules.copy()
    modules = [m for name, m in known.items() if name.startswith("jax.")]
    return [
        value
        for module in modules
        for value in vars(module).copy().values()
        if isinstance(value, core.Primitive)
    ]
