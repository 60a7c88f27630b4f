"""Optimizer state: made once, and carried over when the optimizer is swapped.

State moves only between slots of the same state class, field and parameter path;
anything else starts fresh and is listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._experiment.hyper import Rule
from .._experiment.view import Reads
from .blueprint import Blueprint
from .update import OptimizerState, Update


def initial(
    plan: Blueprint,
    reads: Reads,
    params: Sequence[Any],
    values: tuple[Any, Any],
    rules: dict[str, Rule] | None = None,
) -> OptimizerState:
    """The optimizer state of fresh parameters.

    Args:
        plan: Gives the hook `optimizer` and how parameters are updated.
        reads: Filled with what `optimizer` reads.
        params: One leaf per parameter.
        values: Pair of the Device fields and the hyperparameters, by name.
        rules: Filled with the rule of each group.

    Returns:
        The state, its leaves arrays of their own: no buffer is shared with the
        parameters or between leaves, so all can be donated.
    """
    fields, hyper = values
    view = plan.view({"fields": fields}, reads, "optimizer", training=True)
    update = Update(plan.structure, plan.recipe, view.optimizer, hyper)
    return jax.tree.map(_own, update.initial(params, rules))


@dataclass(frozen=True)
class CarriedOver:
    """A fresh state filled from an old one; `str()` says what became of each slot.

    Attributes:
        state: The filled state.
        kept: Slots of both states.
        fresh: Slots that only the new state has.
        dropped: Slots that only the old state had.
    """

    state: Any
    kept: tuple[Slot, ...]
    fresh: tuple[Slot, ...]
    dropped: tuple[Slot, ...]

    def __str__(self) -> str:
        said = f"{len(self.kept)} arrays kept; fresh: {_listed(self.fresh)}"
        return f"{said}; dropped: {_listed(self.dropped)}"


class Slot(NamedTuple):
    """A place in an optimizer state.

    Attributes:
        path: State classes, fields and parameter keys: `ScaleByAdamState.mu.a.kernel`.
        part: The path without parameter keys: `ScaleByAdamState.mu`.
    """

    path: str
    part: str


def carried(old: OptimizerState, new: OptimizerState) -> CarriedOver:
    """Fill a fresh optimizer state with what an old one has, whatever its groups.

    A parameter that is in another group now takes its slots along; what a group has
    once (a count) comes from the group of that name, else from any.
    """
    parts = [
        carry_over(old.groups.get(group, ()), state, *old.groups.values())
        for group, state in new.groups.items()
    ]
    ema = carry_over({"ema": old.ema}, {"ema": new.ema})
    states = [part.state for part in parts]
    groups = dict(zip(new.groups, states, strict=True))
    kept = {slot for part in (*parts, ema) for slot in part.kept}
    fresh = [slot for part in (*parts, ema) for slot in part.fresh]
    dropped = [slot for part in (*parts, ema) for slot in part.dropped]
    return CarriedOver(
        OptimizerState(groups, ema.state["ema"]),
        tuple(slot for part in (*parts, ema) for slot in part.kept),
        tuple(dict.fromkeys(fresh)),
        tuple(slot for slot in dict.fromkeys(dropped) if slot not in kept),
    )


def carry_over(old: Any, new: Any, *others: Any) -> CarriedOver:
    """Fill a fresh state with what an old one, or others, have for the same slots."""
    have = dict(_slots(old))
    for other in others:
        have = {**dict(_slots(other)), **have}
    kept: dict[Slot, Any] = {}
    fresh: list[Slot] = []
    filled: list[Any] = []
    for slot, leaf in _slots(new):
        before = have.get(slot)
        if (
            before is not None
            and before.shape == leaf.shape
            and before.dtype == leaf.dtype
        ):
            kept[slot] = before
            filled.append(before)
        else:
            fresh.append(slot)
            filled.append(leaf)
    state = jax.tree.unflatten(jax.tree.structure(new), filled)
    dropped = tuple(slot for slot in have if slot not in kept)
    return CarriedOver(state, tuple(kept), tuple(fresh), dropped)


def _listed(slots: Iterable[Slot]) -> str:
    """The slots by the part of the state that they belong to."""
    parts = Counter(slot.part for slot in slots)
    names = (part + (f" ({n} arrays)" if n > 1 else "") for part, n in parts.items())
    return ", ".join(names) or "nothing"


def _own(leaf: Any) -> Any:
    array = jnp.asarray(leaf)
    if getattr(
        array, "weak_type", False
    ):  # it would come back strong: another executable
        array = jax.lax.convert_element_type(array, array.dtype)
    return jax.device_put(array, may_alias=False)


def _slots(state: Any) -> Iterator[tuple[Slot, Any]]:
    """Leaves in tree order, each with its slot."""
    seen: dict[str, int] = {}
    for (path, part), leaf in _walk(state, Slot("", "")):
        number = seen[path] = seen.get(path, 0) + 1
        yield Slot(path if number == 1 else f"{path}#{number}", part), leaf


def _walk(node: Any, at: Slot) -> Iterator[tuple[Slot, Any]]:
    if node is None:
        return
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        for name in getattr(node, "_fields"):  # noqa: B009  # a NamedTuple, to checkers
            path = f"{at.path}.{type(node).__name__}.{name}".lstrip(".")
            yield from _walk(getattr(node, name), Slot(path, path))
    elif isinstance(node, tuple | list):
        for item in node:  # a position in a chain is not part of the path
            yield from _walk(item, at)
    elif isinstance(node, dict):
        for name in sorted(node):
            path = f"{at.path}.{name}".lstrip(".")
            yield from _walk(node[name], Slot(path, at.part or path))
    else:
        for index, leaf in enumerate(jax.tree.leaves(node)):
            path = at.path if index == 0 else f"{at.path}[{index}]"
            yield Slot(path, at.part or "state"), leaf
