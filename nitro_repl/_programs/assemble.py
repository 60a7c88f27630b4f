"""The train step for given shapes: its programs found or made, and wired together.

The same programs serve one micro-batch or many; only what adds gradients up is more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from . import accumulation, manual, training
from .accumulated_step import AccumulatedStep, JointStep
from .blueprint import Batch, Blueprint
from .clock import train_clock
from .columns import check_names
from .fused_accumulation import FusedAccumulatedStep, FusedJointStep
from .micro_batch import MicroBatch
from .results import is_differentiable
from .spec import Program, Spec
from .step import FusedStep, SplitStep, TrainStep
from .trace import rehearse

Find = Callable[[Spec], Program]


def train_step(
    plan: Blueprint, batches: Sequence[Batch], find: Find, *, fuse: bool, joint: bool
) -> TrainStep:
    """The step over these micro-batches.

    Args:
        plan: What it is made from.
        batches: Avals of each micro-batch.
        find: Finds or makes a program.
        fuse: Whether forward, loss and backward are one program.
        joint: Whether one loss is taken over the outputs of all micro-batches.

    Raises:
        HookError: A train metric has the name of another column.
    """
    if len(batches) == 1:
        made = _single(plan, batches[0], find, fuse)
    elif fuse:
        made = _fused(plan, batches, find, joint)
    else:
        made = (_joint if joint else _mean)(plan, batches, find)
    # A program that is known was traced beside other fields, perhaps.
    hook = "train_step" if plan.hooks.manual else "train_metrics"
    check_names(made.metrics, plan, plan.route(hook))
    return made


def _groups(plan: Blueprint, batch: Any) -> Mapping[str, Any]:
    return {
        "batch": batch,
        "clock": dict.fromkeys(train_clock(), 0),
        "fields": plan.fields,
        "hyper": plan.hyper,
        "opt": plan.opt_avals,
        "params": plan.structure.param_avals,
        "state": plan.structure.state_avals,
    }


def _single(plan: Blueprint, batch: Batch, find: Find, fuse: bool) -> TrainStep:
    groups = _groups(plan, batch)
    if plan.hooks.manual:
        optimizers = jax.tree.unflatten(plan.opt, plan.opt_avals)
        return FusedStep(find(manual.step(plan, batch)), groups, optimizers)
    if fuse:
        return FusedStep(find(training.step(plan, batch)), groups)
    forward = _forward(plan, batch, find)
    loss = find(training.loss(plan, forward.out[0], batch))
    backward = find(training.backward(forward))
    written = forward.out[1][1]
    optimizer = find(training.optimizer(plan, loss.out[0], written=written))
    return SplitStep(forward, loss, backward, optimizer, groups)


def _forward(plan: Blueprint, batch: Batch, find: Find, *, one: bool = True) -> Program:
    """The program; what `loss` refuses is said before XLA works on the model.

    Args:
        plan: What it is made from.
        batch: Avals of the micro-batch.
        find: Finds or makes a program.
        one: Whether the step has no other micro-batch.
    """

    def then(out: Any) -> None:
        if not one:
            accumulation.unwritten(plan, out[1])
        loss = training.loss(plan, out[0], batch)
        rehearse(loss.name, loss.function, loss.arguments)

    return _checked(plan, find(replace(training.forward(plan, batch), then=then)), one)


def _checked(plan: Blueprint, forward: Program, one: bool) -> Program:
    """A `forward`, perhaps known from a step of one micro-batch."""
    if not one:
        accumulation.unwritten(plan, forward.out[1])
    return forward


def _mean(plan: Blueprint, batches: Sequence[Batch], find: Find) -> TrainStep:
    made: dict[str, MicroBatch] = {}
    micros, metrics, number = [], None, None
    for batch in batches:
        shape = str(batch)
        if shape not in made:
            forward = _forward(plan, batch, find, one=False)
            loss = find(training.loss(plan, forward.out[0], batch))
            number, _, metrics, _ = loss.out
            made[shape] = _micro(plan, batch, find, forward, loss, number)
        micros.append(made[shape])
    optimizer = find(training.optimizer(plan, number, accumulation.sums(plan)))
    groups = [_groups(plan, batch) for batch in batches]
    return AccumulatedStep(micros, optimizer, metrics, groups)


def _joint(plan: Blueprint, batches: Sequence[Batch], find: Find) -> TrainStep:
    def then(out: Any) -> None:
        accumulation.unwritten(plan, out[1])

    specs = [replace(training.forward(plan, batch), then=then) for batch in batches]
    forwards = [_checked(plan, find(spec), one=False) for spec in specs]
    outputs = tuple(forward.out[0] for forward in forwards)
    loss = find(accumulation.joint_loss(plan, outputs, batches))
    number = loss.out[0]
    micros = []
    for batch, forward in zip(batches, forwards, strict=True):
        micros.append(_micro(plan, batch, find, forward, None, number))
    optimizer = find(training.optimizer(plan, number, accumulation.sums(plan)))
    whole = _groups(plan, tuple(batches))
    taken = {name: whole[name] for name in ("batch", "clock", "fields", "hyper")}
    taken["outputs"] = tuple(tuple(jax.tree.leaves(one)) for one in outputs)
    groups = [_groups(plan, batch) for batch in batches]
    return JointStep(micros, loss, optimizer, groups, taken)


def _micro(
    plan: Blueprint,
    batch: Batch,
    find: Find,
    forward: Program,
    loss: Program | None,
    number: Any,
) -> MicroBatch:
    outputs = jax.tree.leaves(forward.out[0])
    cotangent = sum(map(is_differentiable, outputs))
    backward = find(training.backward(forward, to_sum=accumulation.widens(plan)))
    accumulate = find(accumulation.accumulate(plan, forward, number))
    groups = _groups(plan, batch)
    return MicroBatch(forward, loss, backward, accumulate, cotangent, groups)


def _fused(
    plan: Blueprint, batches: Sequence[Batch], find: Find, joint: bool
) -> TrainStep:
    if joint:
        grad = find(accumulation.joint_gradient(plan, batches))
        sums = accumulation.sums(plan)
        optimizer = find(training.optimizer(plan, grad.out[2], sums))
        return FusedJointStep(grad, optimizer, _groups(plan, tuple(batches)))
    grads = [find(accumulation.gradient(plan, batch)) for batch in batches]
    sums = accumulation.sums(plan)
    optimizer = find(training.optimizer(plan, grads[0].out[3], sums))
    groups = [_groups(plan, batch) for batch in batches]
    trained = plan.recipe.trained(range(len(plan.recipe.frozen)))
    return FusedAccumulatedStep(grads, optimizer, groups, trained)
