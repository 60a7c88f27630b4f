"""Manual mode: `train_step` owns the step, with the optimizers of `setup_optimizers`.

Every number that it returns must be finite, and nothing finite may become otherwise:
else parameters, optimizer and model state stay those of the step before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.extend import core

from .._experiment.base import Experiment
from .._experiment.hooks import Hooks
from .._experiment.routing import Route
from .._experiment.view import Reads, traced_view
from ..errors import HookError
from .blueprint import Batch, Blueprint
from .clock import hook_arguments, train_clock
from .columns import check_names
from .guard import keep_if
from .model import Structure, parts_of
from .nnx_optimizers import (
    WHERE,
    fill,
    hyperparameters,
    norms,
    set_up,
    state_of,
    watch,
)
from .results import is_differentiable, precise
from .spec import Spec
from .trace import epoch


def step(plan: Blueprint, batch: Batch) -> Spec:
    """The user's whole train step: what the program `step` gives otherwise, too."""
    wanted = plan.route("train_step")

    def step(groups: Any, reads: Reads) -> Any:
        hooks = plan.view(groups, reads, "step", training=True)
        model = plan.structure.merge(groups["params"], groups["state"], training=True)
        made, optimizers = set_up(hooks, model)
        fill(optimizers, jax.tree.unflatten(plan.opt, groups["opt"]), groups["hyper"])
        watch(optimizers)
        said = hooks.train_step(model, made, **hook_arguments(wanted, groups))
        numbers = _checked_numbers(said, wanted)
        check_names(numbers.keys() - {"loss"}, plan, wanted)
        params, state = parts_of(model)
        _check_params(params, plan.structure)
        after = plan.checked_opt(state_of(optimizers))
        kept = (after, params, plan.checked_state(state))
        return _kept(groups, kept, numbers, norms(optimizers))

    arguments = {
        **plan.model_arguments(batch, wanted, train_clock()),
        "opt": plan.opt_avals,
        "hyper": plan.hyper,
    }
    return Spec(
        "step",
        step,
        arguments,
        "train",
        plan.train_content,
        extra=(plan.opt, plan.structure.tree, "manual"),
        donate=frozenset({"params", "opt"}),
    )


def fresh(
    experiment: Experiment,
    hooks: Hooks,
    reads: Reads,
    model: nnx.Module,
    fields: Mapping[str, Any],
) -> dict[str, Any]:
    """The state of fresh optimizers: a tree of arrays for each, by name.

    Args:
        experiment: Gives GraphConst values.
        hooks: Gives `setup_optimizers`.
        reads: Filled with what it reads.
        model: In train mode.
        fields: The Device fields.
    """
    view = traced_view(
        experiment, hooks, reads, device=fields, training=True, program=WHERE
    )
    _, optimizers = set_up(view, model)

    def strong(leaf: Any) -> Any:  # a weak one would come back strong
        return jax.lax.convert_element_type(leaf, jnp.asarray(leaf).dtype)

    return jax.tree.map(strong, state_of(optimizers))


def rates(
    experiment: Experiment,
    hooks: Hooks,
    structure: Structure,
    fields: Mapping[str, Any],
) -> dict[str, float]:
    """First values of what `optax.inject_hyperparams` makes a hyperparameter.

    Args:
        experiment: Gives GraphConst values.
        hooks: Gives `setup_optimizers`.
        structure: Of the model.
        fields: Avals of the Device fields.

    Returns:
        Numbers by name: `generator.learning_rate`, or `learning_rate` of a single
        optimizer. What follows a Device field or a schedule of optax's is not there.
    """
    names: list[str] = []

    def numbers(params: Any, state: Any, given: Any) -> list[Any]:
        model = structure.merge(params, state, training=True)
        made = fresh(experiment, hooks, Reads(), model, given)
        found = {name: leaf for name, _, leaf in hyperparameters(made)}
        names.extend(found)
        return list(found.values())

    with epoch():
        closed = jax.make_jaxpr(numbers)(
            structure.param_avals, structure.state_avals, dict(fields)
        )
    outvars = closed.jaxpr.outvars
    values = [_constant(closed, var) for var in outvars]
    return {
        name: value
        for name, value in zip(names, values, strict=True)
        if value is not None
    }


def _constant(closed: core.ClosedJaxpr, wanted: Any) -> float | None:
    """The number that a traced output always is; None if an input decides it."""
    if isinstance(wanted, core.Literal):
        return float(wanted.val)
    jaxpr = closed.jaxpr
    needed, eqns = {wanted}, []
    for eqn in reversed(jaxpr.eqns):
        if any(var in needed for var in eqn.outvars):
            eqns.insert(0, eqn)
            needed |= {var for var in eqn.invars if not isinstance(var, core.Literal)}
    if not needed.isdisjoint(jaxpr.invars):
        return None
    alone = core.Jaxpr(
        jaxpr.constvars, [], [wanted], eqns, jaxpr.effects,
        jaxpr.debug_info.with_unknown_names(),
    )  # fmt: skip
    [number] = core.jaxpr_as_fun(core.ClosedJaxpr(alone, closed.consts))()
    return float(str(number)) if number.dtype == jnp.float32 else float(number)


# ---- what comes of a step


def _checked_numbers(said: Any, wanted: Route) -> dict[str, Any]:
    """What `train_step` returned: scalars by name, in float32 at least."""
    where = f"train_step, {wanted.place}"
    if not isinstance(said, Mapping) or "loss" not in said:
        got = "a dict without it" if isinstance(said, Mapping) else type(said).__name__
        raise HookError(
            f'`train_step` must return a dict with "loss", not {got}',
            where=where,
            fix='return {"loss": loss, "generator_loss": ...}',
        )
    numbers = {}
    for name, value in said.items():
        shape = getattr(
            value, "shape", None if not isinstance(value, int | float) else ()
        )
        if shape != () or not isinstance(name, str):
            got = type(value).__name__ if shape is None else f"of shape {tuple(shape)}"
            raise HookError(
                f"`train_step` returned {name!r}, which is {got}, not a scalar",
                where=where,
                fix="reduce it: .mean()",
            )
        numbers[name] = precise(jnp.asarray(value))
    return numbers


def _check_params(params: Sequence[Any], structure: Structure) -> None:
    shapes = [(leaf.shape, leaf.dtype) for leaf in params]
    if shapes != [(leaf.shape, leaf.dtype) for leaf in structure.param_avals]:
        raise HookError(
            "the model has other parameters after `train_step` than before",
            where="train_step",
            fix="update them with optimizer.update(model, grads); keep their shapes",
        )


def _kept(
    groups: Mapping[str, Any],
    new: tuple[Any, ...],
    numbers: dict[str, Any],
    norms: Sequence[Any],
) -> tuple[Any, ...]:
    """Optimizer state, parameters, state, step, whether it was bad, and the numbers."""
    # Donated inputs are matched to outputs in order; any other order is copied.
    old = (groups["opt"], groups["params"], groups["state"])
    clock, loss = groups["clock"], numbers.pop("loss")
    fine = [jnp.isfinite(number) for number in numbers.values()]
    fine += _stays_finite(old[:2], new[:2])
    rest = jnp.stack(fine).all() if fine else jnp.array(True)
    good, sticky = jnp.isfinite(loss) & rest & ~clock["bad"], clock["sticky"]
    kept = keep_if(good, lambda: new, old)
    moved = clock["step"] + (good | ~sticky).astype(clock["step"].dtype)
    told = [loss, jnp.where(rest, 0, jnp.nan), *norms]
    stacked = jnp.stack([number.astype(loss.dtype) for number in told])
    return (*kept, moved, ~good & sticky, stacked, numbers)


def _stays_finite(old: Any, new: Any) -> list[Any]:
    """For each floating array, whether nothing in it ceased to be finite."""
    pairs = zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
    return [
        (jnp.isfinite(after) | ~jnp.isfinite(before)).all()
        for before, after in pairs
        if is_differentiable(after)
    ]
