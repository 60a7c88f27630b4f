"""The spec of a `@nitro.program` method: what it is called with, and its trace.

Arrays are inputs, all else is a constant of the program; state that it writes is
dropped with the model it was given.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._experiment.routing import KEY
from .._experiment.view import Reads
from .blueprint import Blueprint
from .clock import hook_id, train_clock
from .key import aval, struct
from .spec import Spec


@jax.tree_util.register_static
@dataclass(frozen=True)
class Constant:
    """A value that is no array, in what a method is given or returns."""

    value: Any


@dataclass(frozen=True)
class Given:
    """What a method is called with, without the numbers.

    Attributes:
        name: Of the method.
        tree: Structure of the arguments; where an array is, it has a leaf.
        avals: Of the arrays, in order of the leaves.
        constants: Values of the other arguments, by parameter.
        content: Equal for equal constants.
    """

    name: str
    tree: Any
    avals: tuple[jax.ShapeDtypeStruct, ...]
    constants: Mapping[str, Any]
    content: Hashable

    @property
    def signature(self) -> Hashable:
        """Equal where one program serves."""
        return self.name, self.tree, tuple(map(aval, self.avals)), self.content

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that are given."""
        filled = jax.tree.unflatten(self.tree, self.avals)
        return tuple(sorted({*filled, *self.constants}))

    def filled(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """The arguments, from their arrays."""
        made = jax.tree.map(
            lambda leaf: leaf.value if isinstance(leaf, Constant) else leaf,
            jax.tree.unflatten(self.tree, leaves),
            is_leaf=lambda leaf: isinstance(leaf, Constant),
        )
        return {**made, **self.constants}


def method_clock() -> dict[str, Any]:
    """Avals of what a method's key is made from."""
    clock = train_clock()
    return {"key": clock["key"], "own": clock["bad"], "step": clock["step"]}


def method(plan: Blueprint, given: Given) -> Spec:
    """One method in eval mode on the parameters and state of one boundary."""
    name, wanted = given.name, plan.route(given.name)

    def run(groups: Any, reads: Reads) -> Any:
        hooks = plan.view(groups, reads, name, training=False)
        model = plan.structure.merge(groups["params"], groups["state"], training=False)
        arguments = given.filled(groups["inputs"])
        if wanted.wants_key:
            arguments[KEY] = _key(groups["clock"], name)
        return jax.tree.map(_output, getattr(hooks, name)(model, **arguments))

    arguments = {
        "params": plan.structure.param_avals,
        "state": plan.structure.state_avals,
        "inputs": tuple(map(struct, given.avals)),
        "fields": plan.fields,
        "clock": method_clock(),
    }
    extra = (given.tree, given.content)
    return Spec(name, run, arguments, "call", plan.eval_content, extra)


def returned(out: Any, leaves: Sequence[Any]) -> Any:
    """What a method returned, from the output of its trace and the arrays it gave."""
    made = jax.tree.unflatten(jax.tree.structure(out), leaves)
    return jax.tree.map(
        lambda leaf: leaf.value if isinstance(leaf, Constant) else leaf,
        made,
        is_leaf=lambda leaf: isinstance(leaf, Constant),
    )


def _key(clock: Mapping[str, Any], name: str) -> Any:
    """The key that was given, or that of the run for this method and step."""
    made = jax.random.fold_in(clock["key"], hook_id(name))
    made = jax.random.fold_in(made, clock["step"])
    return jnp.where(clock["own"], clock["key"], made)


def _output(leaf: Any) -> Any:
    if hasattr(leaf, "dtype") or isinstance(leaf, bool | int | float | complex):
        return leaf
    return Constant(leaf)
