"""Whether a transformation decays weights by itself, so that decay is composed once.

It does if an update from gradients that are zero depends on the parameters. Read off
its trace: no number is computed, and a rate that is zero at first hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core


class _Kind(IntEnum):
    """What is known of a value; the larger one wins where two meet."""

    ZERO = 0
    OTHER = 1
    PARAMS = 2


def decays_by_itself(make: Callable[[Any], Any], given: Any, params: Any) -> bool:
    """Whether the first update depends on the parameters when gradients are zero.

    Args:
        make: Gives an optax transformation.
        given: What it is called with: a tree of arrays, whose numbers do not matter.
        params: Parameters as a tree of avals.
    """

    def first(params: Any, zeros: Any, given: Any, loss: Any) -> Any:
        made = make(given)
        state = made.init(params)
        return made.update(zeros, state, params, value=loss, grad=zeros)[0]

    loss = jax.ShapeDtypeStruct((), jnp.float32)
    closed = jax.make_jaxpr(first)(params, params, given, loss)
    count = len(jax.tree.leaves(params))
    others = len(closed.jaxpr.invars) - 2 * count
    kinds = [_Kind.PARAMS] * count + [_Kind.ZERO] * count + [_Kind.OTHER] * others
    return _Kind.PARAMS in _through(closed, kinds)


def _through(closed: core.ClosedJaxpr, given: Sequence[_Kind]) -> list[_Kind]:
    """The kinds of a jaxpr's outputs, from those of its inputs."""
    jaxpr = closed.jaxpr
    known: dict[Any, _Kind] = dict(zip(jaxpr.invars, given, strict=True))
    pairs = zip(jaxpr.constvars, closed.consts, strict=True)
    known |= {var: _Kind.OTHER for var, _ in pairs}

    def kind(atom: Any) -> _Kind:
        if isinstance(atom, core.Literal):
            return _of_value(atom.val)
        return known[atom]

    for eqn in jaxpr.eqns:
        made = _equation(eqn, [kind(atom) for atom in eqn.invars])
        known |= dict(zip(eqn.outvars, made, strict=True))
    return [kind(atom) for atom in jaxpr.outvars]


def _equation(eqn: Any, given: list[_Kind]) -> list[_Kind]:
    name = eqn.primitive.name
    inner = eqn.params.get("jaxpr") or eqn.params.get("call_jaxpr")
    called = isinstance(inner, core.ClosedJaxpr) and name not in _LOOPS
    if called and len(inner.jaxpr.invars) == len(given):
        return _through(inner, given)
    if name == "cond":
        branches = [_through(branch, given[1:]) for branch in eqn.params["branches"]]
        return [max(kinds) for kinds in zip(*branches, strict=True)]
    rule = _RULES.get(name, _joined)
    return [_of_dtype(var, rule(given)) for var in eqn.outvars]


def _joined(given: Sequence[_Kind]) -> _Kind:
    """Anything may come of this, a constant even of zeros."""
    return max([_Kind.OTHER, *given])


def _kept(given: Sequence[_Kind]) -> _Kind:
    """Zeros give zeros."""
    return max(given, default=_Kind.OTHER)


def _product(given: Sequence[_Kind]) -> _Kind:
    return _Kind.ZERO if _Kind.ZERO in given else max(given)


def _quotient(given: Sequence[_Kind]) -> _Kind:
    return _Kind.ZERO if given[0] is _Kind.ZERO else max(given)


def _chosen(given: Sequence[_Kind]) -> _Kind:
    return max(given[1:])  # by a mask, which decides no more than which of them


def _of_value(value: Any) -> _Kind:
    if not np.issubdtype(jnp.result_type(value), np.inexact):
        return _Kind.OTHER
    return _Kind.OTHER if np.asarray(value).any() else _Kind.ZERO


def _of_dtype(var: Any, kind: _Kind) -> _Kind:
    """A count that is zero is zero for one step only."""
    number = jax.dtypes.issubdtype(var.aval.dtype, np.inexact)
    return kind if number else max(kind, _Kind.OTHER)


_LOOPS = frozenset({"scan", "while"})
_RULES: Mapping[str, Callable[[Sequence[_Kind]], _Kind]] = {
    "mul": _product,
    "dot_general": _product,
    "conv_general_dilated": _product,
    "div": _quotient,
    "select_n": _chosen,
    **dict.fromkeys(
        (
            "abs", "add", "add_any", "broadcast_in_dim", "concatenate",
            "convert_element_type", "copy", "cumsum", "expand_dims", "imag", "max",
            "min", "neg", "real", "reduce_max", "reduce_min", "reduce_sum", "reshape",
            "rev", "sign", "slice", "sqrt", "square", "squeeze", "sub", "tanh",
            "transpose", "integer_pow", "stop_gradient", "optimization_barrier",
            "reduce_precision",
        ),
        _kept,
    ),
}  # fmt: skip
