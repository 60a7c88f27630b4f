"""A jaxpr laid flat: inner jits inlined, each scalar float constant at its own place.

The order of equations, inputs and outputs stays that of the jaxpr.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend import core

from .guard import is_guard

_CALLS = ("jit", "pjit", "closed_call")  # inlined
_BODIES = ("remat2", "checkpoint")  # kept as a call, constants in it found
_POWERS = ("pow",)  # what an exponent is decides how its power is computed


@dataclass(eq=False)
class Constant:
    """A scalar float that stands in a program.

    Attributes:
        value: The number, as JAX holds it.
        aval: Its shape, dtype and weak type.
        source: Where JAX says that it was used first.
        place: Its position among all constants of the jaxpr.
        steady: Whether it must stay part of the program.
    """

    value: Any
    aval: Any
    source: Any
    place: int
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


@dataclass
class Layer:
    """Gives numbers to values, over all nested jaxprs.

    Attributes:
        count: How many values there are.
        constants: Every scalar float, in the order of their places.
    """

    count: int = 0
    constants: list[Constant] = field(default_factory=list)

    def new(self) -> int:
        self.count += 1
        return self.count - 1

    def closed(self, closed: Any, *, guarded: bool = False) -> Flat:
        """Lay flat a jaxpr that keeps its own inputs.

        Args:
            closed: A jaxpr, closed or not.
            guarded: Lay the branch of the non-finite guard flat too.
        """
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
            if name in _POWERS:
                for atom in inputs[1:]:
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
        aval: Any = atom.aval
        if aval.shape == () and jnp.issubdtype(aval.dtype, jnp.floating):
            made = Constant(atom.val, aval, source, len(self.constants))
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
