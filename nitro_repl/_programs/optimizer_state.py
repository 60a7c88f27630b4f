"""Optimizer state: made once, and carried over when the optimizer is swapped.

State moves only between slots of the same state class, field and parameter path;
anything else starts fresh and is listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from .._experiment.base import Experiment
from .._experiment.hooks import Hooks
from .._experiment.hyper import Hyperparameters, transformation
from .._experiment.view import Reads, traced_view


def initial(
    experiment: Experiment, hooks: Hooks, reads: Reads, params: Any, values: Any
) -> Any:
    """The optimizer state of fresh parameters.

    Args:
        experiment: Gives GraphConst values.
        hooks: Gives `optimizer`.
        reads: Filled with what `optimizer` reads.
        params: Parameters as a nested dict of arrays.
        values: Pair of the Device fields and the hyperparameters, by name.

    Returns:
        The state as optax made it, its leaves arrays of their own: no buffer is shared
        with the parameters or between leaves, so all can be donated.
    """
    fields, hyper = values
    concrete = traced_view(
        experiment, hooks, reads, device=fields, training=True, program="optimizer"
    )
    made = transformation(concrete.optimizer, Hyperparameters(hyper))
    return jax.tree.map(_own, made.init(params))


def carry_over(old: Any, new: Any) -> tuple[Any, list[str], list[str]]:
    """Fill a fresh optimizer state with what an old one has for the same slots.

    Returns:
        The filled state, the slots kept and the slots that start fresh, as texts
        such as `ScaleByAdamState.mu.a.kernel`.
    """
    have = {path: leaf for path, leaf in _slots(old)}
    kept: list[str] = []
    fresh: list[str] = []
    filled: list[Any] = []
    for path, leaf in _slots(new):
        before = have.get(path)
        fits = (
            before is not None
            and before.shape == leaf.shape
            and before.dtype == leaf.dtype
        )
        (kept if fits else fresh).append(path)
        filled.append(before if fits else leaf)
    return jax.tree.unflatten(jax.tree.structure(new), filled), kept, fresh


def _own(leaf: Any) -> Any:
    array = jnp.asarray(leaf)
    if getattr(
        array, "weak_type", False
    ):  # it would come back strong: another executable
        array = jax.lax.convert_element_type(array, array.dtype)
    return jax.device_put(array, may_alias=False)


def _slots(state: Any) -> Iterator[tuple[str, Any]]:
    """Leaves in tree order with a path of state classes, fields and parameter keys."""
    seen: dict[str, int] = {}
    for path, leaf in _walk(state, ""):
        number = seen[path] = seen.get(path, 0) + 1
        yield (path if number == 1 else f"{path}#{number}"), leaf


def _walk(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    if node is None:
        return
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        for name in getattr(node, "_fields"):  # noqa: B009  # a NamedTuple, to checkers
            yield from _walk(
                getattr(node, name), f"{path}.{type(node).__name__}.{name}".lstrip(".")
            )
    elif isinstance(node, tuple | list):
        for item in node:  # a position in a chain is not part of the path
            yield from _walk(item, path)
    elif isinstance(node, dict):
        for name in sorted(node):
            yield from _walk(node[name], f"{path}.{name}".lstrip("."))
    else:
        for index, leaf in enumerate(jax.tree.leaves(node)):
            yield (path if index == 0 else f"{path}[{index}]"), leaf
