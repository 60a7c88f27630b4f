"""Programs that one step runs for each of its micro-batches, and what adds them up.

The gradient of a step is that of the mean of its micro-batches, each by the weight that
its loss gives: a `Mean` is exact whatever the sizes and masks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._experiment.view import Reads
from ..errors import HookError
from .blueprint import Batch, Blueprint
from .clock import train_clock
from .judge import Judge
from .key import struct
from .results import (
    is_differentiable,
    merged,
    precise,
    precise_aval,
    scalar,
    weight,
)
from .spec import Program, Spec
from .training import applied, backward, really, trained_of, whole_gradient

FLAG = jax.ShapeDtypeStruct((), jnp.bool_)


def sums(plan: Blueprint) -> tuple[Any, ...]:
    """Avals of what gradients add up in, whatever the dtype of a parameter."""
    return tuple(map(precise_aval, plan.recipe.trained(plan.structure.param_avals)))


def widens(plan: Blueprint) -> bool:
    """Whether gradients add up in more bits than a parameter has."""
    own = plan.recipe.trained(plan.structure.param_avals)
    pairs = zip(sums(plan), own, strict=True)
    return any(wide.dtype != aval.dtype for wide, aval in pairs)


def accumulate(plan: Blueprint, forward: Program, number: Any) -> Spec:
    """The gradients so far and those of one more micro-batch, by weight.

    Takes `sums`, the weighted sum of gradients; `before`, the totals (of the loss, of
    weights) so far; `weight`, those of this micro-batch; and two flags in `turn`:
    whether `sums` is still one gradient without its weight, and whether this is the
    last micro-batch, after which the sum is divided.

    Args:
        plan: What it is made from.
        forward: Whose residuals it takes.
        number: Aval of the loss.
    """
    pull = backward(forward)
    totals = (jax.ShapeDtypeStruct((), number.dtype),) * 2

    def backward_more(groups: Any, reads: Reads) -> Any:
        grads = pull.function(groups, reads)
        (begun, last), before, more = groups["turn"], groups["before"], groups["weight"]
        after = tuple(a + b for a, b in zip(before, more, strict=True))
        lead = jnp.where(begun, before[1], 1)
        divisor = jnp.where(last, after[1], 1)

        def add(held: Any, grad: Any) -> Any:
            total = held * lead.astype(held.dtype) + grad * more[1].astype(held.dtype)
            return total / divisor.astype(held.dtype)

        added = [add(s, g) for s, g in zip(groups["sums"], grads, strict=True)]
        return added, after, after[0] / after[1]

    arguments = {
        **pull.arguments,
        "sums": sums(plan),
        "before": totals,
        "weight": totals,
        "turn": (FLAG, FLAG),
    }
    return Spec(
        "backward",
        backward_more,
        arguments,
        "accumulate",
        extra=pull.extra,
        follows=forward,
        donate=frozenset({"sums"}),
    )


def joint_loss(
    plan: Blueprint, outputs: Sequence[Any], batches: Sequence[Batch]
) -> Spec:
    """One loss over the outputs of all micro-batches, and the cotangent of each."""
    judge = Judge.of(plan, training=True)
    tree = jax.tree.structure(outputs[0])
    given = [jax.tree.leaves(one) for one in outputs]
    checked_rows(plan, given)

    def loss(groups: Any, reads: Reads) -> Any:
        hooks = plan.view(groups, reads, "loss", training=True)
        batch = joined_batch(groups["batch"])

        def value(chosen: Any) -> Any:
            joined = [
                merged(leaves, parts)
                for leaves, parts in zip(groups["outputs"], chosen, strict=True)
            ]
            made = jax.tree.unflatten(tree, [_joined(c) for c in zip(*joined)])  # noqa: B905
            return judge(hooks, reads, {**groups, "batch": batch}, made)

        chosen = tuple(
            tuple(filter(is_differentiable, leaves)) for leaves in groups["outputs"]
        )
        (_, (total, metrics)), cotangents = jax.value_and_grad(value, has_aux=True)(
            chosen
        )
        return scalar(total, judge.wanted), cotangents, metrics, weight(total)

    arguments = {
        "outputs": tuple(tuple(map(struct, leaves)) for leaves in given),
        "batch": tuple({n: batch[n] for n in judge.names(batch)} for batch in batches),
        "fields": plan.fields,
        "clock": train_clock(),
    }
    return Spec("loss", loss, arguments, "joint", extra=tree)


def gradient(plan: Blueprint, batch: Batch) -> Spec:
    """Loss and gradients of one micro-batch, added to what is there: forward and all.

    Takes `sums`, `before` and `turn` as `accumulate` does; its first flag says that
    nothing is there yet.
    """
    wanted, judge = plan.route("forward"), Judge.of(plan, training=True)
    widest = jax.dtypes.canonicalize_dtype(jnp.float64)

    def grad(groups: Any, reads: Reads) -> Any:
        hooks = plan.view(groups, reads, "grad", training=True)
        (after, total, metrics), grads = whole_gradient(
            plan, hooks, reads, groups, judge
        )
        state = unwritten(plan, after)
        number = scalar(total, judge.wanted)
        more = weight(total) or (number, jnp.ones_like(number))
        first, last = groups["turn"]
        so_far = tuple(
            jnp.where(first, jnp.zeros_like(a), a) + b.astype(a.dtype)
            for a, b in zip(groups["before"], more, strict=True)
        )
        divisor = jnp.where(last, so_far[1], 1)

        def add(held: Any, new: Any) -> Any:
            kept = jnp.where(first, jnp.zeros_like(held), held)
            return (kept + new * more[1].astype(held.dtype)) / divisor.astype(
                held.dtype
            )

        added = [add(s, g) for s, g in zip(groups["sums"], grads, strict=True)]
        return added, state, so_far, so_far[0] / so_far[1], metrics

    arguments = {
        **plan.model_arguments(batch, wanted, train_clock()),
        "batch": {
            n: batch[n] for n in sorted({*wanted.names(batch), *judge.names(batch)})
        },
        "sums": sums(plan),
        "before": (jax.ShapeDtypeStruct((), widest),) * 2,
        "turn": (FLAG, FLAG),
    }
    return Spec(
        "grad", grad, arguments, "train", plan.train_content, extra=plan.structure.tree
    )


def joint_gradient(plan: Blueprint, batches: Sequence[Batch]) -> Spec:
    """Loss and gradients of one loss over all micro-batches, in one program.

    Each forward is computed again on the way back, so that the residuals of one
    micro-batch are held at a time.
    """
    wanted, judge = plan.route("forward"), Judge.of(plan, training=True)

    def grad(groups: Any, reads: Reads) -> Any:
        hooks = plan.view(groups, reads, "grad", training=True)
        own = trained_of(plan, reads, groups)

        def value(trained: Any) -> Any:
            state, found, tree = groups["state"], [], None
            for number, batch in enumerate(groups["batch"]):
                clock = {**groups["clock"], "micro": jnp.uint32(number)}

                def apply(
                    trained: Any, state: Any, batch: Any = batch, clock: Any = clock
                ) -> Any:
                    here = {**groups, "state": state, "batch": batch, "clock": clock}
                    # Cast here, so that gradients of micro-batches add up before it.
                    pairs = zip(trained, own, strict=True)
                    cast = tuple(leaf.astype(like.dtype) for leaf, like in pairs)
                    forward = applied(plan, hooks, here, wanted)
                    outputs, (state, written) = forward(cast)
                    written = really(plan, forward, cast, written)
                    return outputs, unwritten(plan, (state, written))

                outputs, state = jax.checkpoint(apply)(trained, state)
                found.append(jax.tree.leaves(outputs))
                tree = jax.tree.structure(outputs)
            assert tree is not None
            checked_rows(plan, found)
            made = jax.tree.unflatten(tree, [_joined(c) for c in zip(*found)])  # noqa: B905
            whole = {**groups, "batch": joined_batch(groups["batch"])}
            number, (total, metrics) = judge(hooks, reads, whole, made)
            return number, (state, total, metrics)

        (_, (state, total, metrics)), grads = jax.value_and_grad(value, has_aux=True)(
            tuple(map(precise, own))
        )
        return grads, state, scalar(total, judge.wanted), metrics

    names = sorted({*wanted.names(batches[0]), *judge.names(batches[0])})
    arguments = {
        **plan.model_arguments(batches[0], wanted, train_clock()),
        "batch": tuple({n: batch[n] for n in names} for batch in batches),
    }
    return Spec(
        "grad", grad, arguments, "joint", plan.train_content, extra=plan.structure.tree
    )


def unwritten(plan: Blueprint, after: tuple[Any, Mapping[int, Any]]) -> Any:
    """The state after `forward`, which must have written no parameter.

    Raises:
        HookError: It has: which micro-batch is to see what was written is not decided.
    """
    state, written = after
    if written:
        names = ", ".join(f"`{plan.structure.names[i]}`" for i in list(written)[:3])
        raise HookError(
            f"`forward` writes the parameter {names}, as SpectralNorm does",
            where=f"forward, {plan.route('forward').place}, with accum > 1",
            fix="accum=1; or compute the value where it is used, and write none",
        )
    return state


def checked_rows(plan: Blueprint, outputs: Sequence[Sequence[Any]]) -> None:
    """Refuse outputs that cannot be joined: their first axis must be that of samples.

    Raises:
        HookError: An output is a single number.
    """
    if any(not leaf.shape for leaves in outputs for leaf in leaves):
        raise HookError(
            "`forward` gives a single number, which no rows can be joined to",
            where=f"forward, {plan.route('forward').place}",
            fix='give one row for each sample, or accum_mode="mean"',
        )


def joined_batch(batches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The fields of all micro-batches one after the other; single numbers stacked."""
    return {name: _joined([one[name] for one in batches]) for name in batches[0]}


def _joined(parts: Sequence[Any]) -> Any:
    return jnp.concatenate([jnp.atleast_1d(part) for part in parts])
