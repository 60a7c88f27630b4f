"""Weight decay is composed once: by the framework, or by the user's optimizer.

What would pull the weights twice is refused before the first compile, and before a live
value takes hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._experiment.base import Experiment
from .._experiment.view import Reads
from .._programs.blueprint import Blueprint
from .._programs.explain import hooks_explained
from .._programs.own_decay import decays_by_itself
from .._programs.trace import epoch
from .._programs.update import Update
from ..errors import HookError
from .live import Values


def check_decay(
    plan: Blueprint, values: Values, numbers: Mapping[str, float] | None = None
) -> None:
    """Refuse a weight decay of the framework's beside one of the optimizer's own.

    Args:
        plan: Gives the hook `optimizer` and how parameters are updated.
        values: The Device fields and hyperparameters.
        numbers: Hyperparameters that are to hold, beside those of `values`.

    Raises:
        HookError: The optimizer decays weights by itself.
    """
    if plan.hooks.manual:
        return
    numbers = {**values.numbers, **(numbers or {})}
    for group in plan.recipe.names:
        decay = numbers.get(f"{group}.weight_decay", numbers.get("weight_decay", 0.0))
        if decay or any(plan.recipe.anchored):
            _check_group(plan, values, group)


def scheduled_decay(names: Iterable[str]) -> dict[str, float]:
    """What `check_decay` takes for decays that a schedule will make other than 0."""
    return {name: 1.0 for name in names if name.endswith("weight_decay")}


def _check_group(plan: Blueprint, values: Values, group: str) -> None:
    by_hp = False

    def make(given: Any) -> Any:
        nonlocal by_hp
        fields, hyper = given
        groups = {"fields": fields}
        view = plan.view(groups, Reads(), "optimizer", training=True)
        update = Update(plan.structure, plan.recipe, view.optimizer, hyper)
        made, hp = update.rule(group)
        by_hp = hp.decays
        return made

    params = Update(plan.structure, plan.recipe, make, {})
    avals = params.of_group(plan.structure.param_avals, group)
    with hooks_explained("optimizer"), epoch():
        own = decays_by_itself(make, (values.fields, values.hyper), avals)
    if by_hp:
        _check_choice(plan)
    elif own:
        raise HookError(
            "`optimizer` decays weights by itself, and so would the weight_decay of "
            "this run: they would be pulled twice",
            where="optimizer, weight_decay",
            fix="leave decay to the run (optax.adam instead of optax.adamw), or\n"
            "use hp.weight_decay in the optimizer, or set weight_decay=0",
        )


def _check_choice(plan: Blueprint) -> None:
    """An optimizer that uses `hp.weight_decay` alone decides what it pulls."""
    chosen = plan.hooks.get("no_decay") is not Experiment.no_decay
    if not chosen and not any(plan.recipe.anchored):
        return
    hook = "no_decay" if chosen else "decay_anchor"
    raise HookError(
        f"`optimizer` uses hp.weight_decay itself, so `{hook}` would have no effect",
        where=f"optimizer, {hook}",
        fix="leave decay to the run: optax.adam(hp.learning_rate), for example;\n"
        f"or remove `{hook}`, and give the mask to optax",
    )
