"""Which outputs of a function are inputs of it, handed through inner jits and remats.

A tracer that is another one afterwards may still be the same array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core


def forwarded(function: Callable[[Any], Any], given: Sequence[Any]) -> list[int | None]:
    """For each output leaf the position of the input that it is, or None.

    Args:
        function: Takes a tuple of arrays; traced once.
        given: The arrays.
    """
    return _sources(jax.make_jaxpr(function)(tuple(given)).jaxpr)


def _sources(jaxpr: core.Jaxpr) -> list[int | None]:
    known: dict[Any, int] = {var: k for k, var in enumerate(jaxpr.invars)}

    def source(atom: Any) -> int | None:
        return None if isinstance(atom, core.Literal) else known.get(atom)

    for eqn in jaxpr.eqns:
        inner: Any = eqn.params.get("jaxpr") if eqn.primitive.name in _CALLS else None
        inner = getattr(inner, "jaxpr", inner)
        if inner is None or len(inner.invars) != len(eqn.invars):
            continue
        for var, place in zip(eqn.outvars, _sources(inner), strict=True):
            found = None if place is None else source(eqn.invars[place])
            if found is not None:
                known[var] = found
    return [source(var) for var in jaxpr.outvars]


_CALLS = frozenset(["jit", "pjit", "remat", "remat2", "checkpoint"])
