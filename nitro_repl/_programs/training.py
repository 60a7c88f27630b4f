"""From hooks to program specs: the train step, split or whole, and evaluation.

forward gives outputs and residuals, loss a value and the cotangent, backward the
gradients, optimizer the next state. Editing one hook leaves the other programs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .._experiment.routing import Route
from .._experiment.view import Reads
from .blueprint import Batch, Blueprint
from .clock import eval_clock, hook_arguments, train_clock
from .forwarded import forwarded
from .guard import keep_if
from .judge import Judge
from .key import struct
from .model import parts_of
from .recipe import PARTS
from .results import (
    check_outputs,
    is_differentiable,
    merged,
    precise,
    scalar,
    weight,
)
from .spec import Program, Spec
from .update import Update


def forward(plan: Blueprint, batch: Batch) -> Spec:
    """Outputs, new state and the pull-back of one batch in train mode.

    The new state is a pair: its leaves, and the parameters written, by index.
    """
    wanted = plan.route("forward")

    def forward(groups: Any, reads: Reads) -> Any:
        hooks = plan.view(groups, reads, "forward", training=True)
        apply = applied(plan, hooks, groups, wanted)
        trained = trained_of(plan, reads, groups)
        outputs, pullback, (state, written) = jax.vjp(apply, trained, has_aux=True)
        return outputs, (state, really(plan, apply, trained, written)), pullback

    return Spec(
        "forward",
        forward,
        plan.model_arguments(batch, wanted, train_clock()),
        "train",
        plan.train_content,
        share_inputs=True,
    )


def loss(plan: Blueprint, outputs: Any, batch: Batch, *, training: bool = True) -> Spec:
    """Value, cotangent, train metrics and weight; not `training`: the value alone."""
    judge = Judge.of(plan, training)
    leaves, tree = jax.tree.flatten(outputs)

    def loss(groups: Any, reads: Reads) -> Any:
        hooks = plan.view(groups, reads, "loss", training=training)
        given = groups["outputs"]

        def value(chosen: Any) -> Any:
            made = jax.tree.unflatten(tree, merged(given, chosen))
            return judge(hooks, reads, groups, made)

        chosen = tuple(filter(is_differentiable, given))
        if not training:
            return value(chosen)[1][0]
        (_, (total, metrics)), cotangent = jax.value_and_grad(value, has_aux=True)(
            chosen
        )
        return scalar(total, judge.wanted), cotangent, metrics, weight(total)

    arguments = {
        "outputs": tuple(map(struct, leaves)),
        "batch": {name: batch[name] for name in judge.names(batch)},
        "fields": plan.fields,
        "clock": train_clock() if training else eval_clock(),
    }
    return Spec("loss", loss, arguments, "train" if training else "value", extra=tree)


def backward(forward: Program, *, to_sum: bool = False) -> Spec:
    """Gradients, from the residuals of `forward` and the cotangent of `loss`.

    Args:
        forward: Whose residuals it takes.
        to_sum: Give them in float32 at least: others are added to them.
    """
    outputs, _, pullback = forward.out
    residuals, tree = jax.tree.flatten(pullback)
    leaves, output_tree = jax.tree.flatten(outputs)

    def backward(groups: Any, reads: Reads) -> Any:
        given = iter(groups["cotangent"])
        full = [
            next(given)
            if is_differentiable(leaf)
            else np.zeros(leaf.shape, jax.dtypes.float0)
            for leaf in leaves
        ]
        pull = jax.tree.unflatten(tree, groups["residuals"])
        grads = pull(jax.tree.unflatten(output_tree, full))[0]
        return jax.tree.map(precise, grads) if to_sum else grads

    arguments = {
        "residuals": tuple(map(struct, residuals)),
        "cotangent": tuple(
            jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
            for leaf in leaves
            if is_differentiable(leaf)
        ),
    }
    return Spec(
        "backward",
        backward,
        arguments,
        "first" if to_sum else "train",
        extra=forward.key,
        follows=forward,  # whose custom rules run backward
    )


def optimizer(
    plan: Blueprint,
    loss: Any,
    grads: Sequence[Any] | None = None,
    written: Mapping[int, Any] = MappingProxyType({}),
) -> Spec:
    """The next parameters and states, unless the loss or a gradient is not finite.

    Args:
        plan: What it is made from.
        loss: Aval of the loss.
        grads: Avals of the gradients, if not those of the parameters.
        written: Avals of the parameters that `forward` has written, by index.
    """
    structure = plan.structure
    if grads is None:
        grads = plan.recipe.trained(structure.param_avals)

    def optimizer(groups: Any, reads: Reads) -> Any:
        hooks = plan.view(groups, reads, "optimizer", training=True)
        return _moved(plan, hooks, reads, groups)

    arguments = {
        "params": structure.param_avals,
        "grads": tuple(grads),
        "opt": plan.opt_avals,
        "state": structure.state_avals,
        "new_state": structure.state_avals,
        "hyper": plan.hyper,
        "fields": plan.fields,
        "loss": struct(loss),
        "clock": {name: train_clock()[name] for name in ("step", "bad", "sticky")},
    }
    if written:
        arguments["written"] = {i: struct(leaf) for i, leaf in written.items()}
    return Spec(
        "optimizer",
        optimizer,
        arguments,
        "train",
        extra=(plan.opt, structure.tree),
        donate=frozenset({"params", "opt"}),
    )


def step(plan: Blueprint, batch: Batch) -> Spec:
    """The whole train step: what `optimizer` gives, and the train metrics."""
    wanted, judge = plan.route("forward"), Judge.of(plan, training=True)

    def step(groups: Any, reads: Reads) -> Any:
        hooks = plan.view(groups, reads, "step", training=True)
        ((state, written), total, metrics), grads = whole_gradient(
            plan, hooks, reads, groups, judge
        )
        number = scalar(total, judge.wanted)
        made = {"loss": number, "grads": grads, "new_state": state, "written": written}
        return (*_moved(plan, hooks, reads, {**groups, **made}), metrics)

    arguments = {
        **plan.model_arguments(batch, wanted, train_clock()),
        "batch": {
            n: batch[n] for n in sorted({*wanted.names(batch), *judge.names(batch)})
        },
        "opt": plan.opt_avals,
        "hyper": plan.hyper,
    }
    return Spec(
        "step",
        step,
        arguments,
        "train",
        plan.train_content,
        extra=(plan.opt, plan.structure.tree),
        donate=frozenset({"params", "opt"}),
    )


def evaluation(plan: Blueprint, batch: Batch) -> Spec:
    """Outputs of one batch in eval mode; new state is dropped."""
    wanted = plan.route("forward")

    def forward(groups: Any, reads: Reads) -> Any:
        hooks = plan.view(groups, reads, "eval", training=False)
        model = plan.structure.merge(groups["params"], groups["state"], training=False)
        return hooks.forward(model, **hook_arguments(wanted, groups))

    arguments = plan.model_arguments(batch, wanted, eval_clock())
    return Spec("eval", forward, arguments, "eval", plan.eval_content)


# ---- parts


def applied(
    plan: Blueprint, hooks: Any, groups: Mapping[str, Any], wanted: Route
) -> Callable[[Any], tuple[Any, Any]]:
    """`forward` in train mode: trained parameters to outputs and new state.

    The new state is a pair: its leaves, and the trained parameters written, by index.
    """

    def apply(trained: Any) -> tuple[Any, Any]:
        params = plan.recipe.whole(trained, groups["params"])
        model = plan.structure.merge(params, groups["state"], training=True)
        outputs = hooks.forward(model, **hook_arguments(wanted, groups))
        check_outputs(outputs, wanted)
        after, state = parts_of(model)
        return outputs, (plan.checked_state(state), plan.written(params, after))

    return apply


def really(
    plan: Blueprint,
    apply: Callable[[Any], tuple[Any, Any]],
    trained: Sequence[Any],
    written: Mapping[int, Any],
) -> dict[int, Any]:
    """Those of the written parameters that are not as before: nnx.jit writes all."""
    if not written:
        return {}
    places = plan.recipe.trained(range(len(plan.recipe.frozen)))
    sources = forwarded(lambda given: apply(given)[1][1], trained)
    return {
        index: written[index]
        for index, source in zip(sorted(written), sources, strict=True)
        if source is None or places[source] != index
    }


def whole_gradient(
    plan: Blueprint, hooks: Any, reads: Reads, groups: Any, judge: Judge
) -> tuple[tuple[Any, Any, dict[str, Any]], Any]:
    """New state as of `applied`, what `loss` gave and train metrics; the gradients."""
    apply = applied(plan, hooks, groups, plan.route("forward"))

    def value(trained: Any) -> Any:
        outputs, state = apply(trained)
        number, (total, metrics) = judge(hooks, reads, groups, outputs)
        return number, (state, total, metrics)

    trained = trained_of(plan, reads, groups)
    (_, given), grads = jax.value_and_grad(value, has_aux=True)(trained)
    (state, written), total, metrics = given
    written = really(plan, apply, trained, written)
    return ((state, written), total, metrics), grads


def trained_of(plan: Blueprint, reads: Reads, groups: Mapping[str, Any]) -> Any:
    """The parameters that get a gradient."""
    reads.add("recipe", "frozen")
    return plan.recipe.trained(groups["params"])


def _moved(
    plan: Blueprint, hooks: Any, reads: Reads, groups: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Optimizer state, parameters, state, step, whether it was bad, and the numbers."""
    for part in PARTS:
        reads.add("recipe", part)
    update = Update(plan.structure, plan.recipe, hooks.optimizer, groups["hyper"])
    clock, loss = groups["clock"], groups["loss"]
    pairs = zip(groups["grads"], plan.recipe.trained(groups["params"]), strict=True)
    grads = tuple(grad.astype(param.dtype) for grad, param in pairs)
    opt = jax.tree.unflatten(plan.opt, groups["opt"])
    norm = optax.tree.norm(grads)

    written = groups.get("written", {})
    before = tuple(written.get(i, leaf) for i, leaf in enumerate(groups["params"]))

    def moved() -> Any:
        after, trained = update(before, grads, opt, loss, norm)
        return trained, groups["new_state"], plan.checked_opt(after)

    finite = jnp.isfinite(loss) & jnp.isfinite(norm)
    good, sticky = finite & ~clock["bad"], clock["sticky"]
    # Parameters first: XLA schedules this branch with fewer waits between CPU threads
    # than with the optimizer state first, some 5 % of the step of an mlp.
    kept = (plan.recipe.trained(groups["params"]), groups["state"], groups["opt"])
    trained, state, opt = keep_if(good, moved, kept)
    params = plan.recipe.whole(trained, groups["params"])
    numbers = jnp.stack([loss, norm.astype(loss.dtype)])
    step = clock["step"] + (good | ~sticky).astype(clock["step"].dtype)
    # Donated inputs are matched to outputs in order; any other order is copied.
    return opt, params, state, step, ~good & sticky, numbers
