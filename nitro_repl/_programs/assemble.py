"""The train step for given shapes: its programs found or made, and wired together.

The same programs serve one micro-batch or many; only what adds gradients up is more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from . import accumulation, manual, training
from .accumulated_step import AccumulatedStep, JointStep
from .blueprint import Batch, Blueprint
from .clock import train_clock
from .columns import check_names
from .fused_accumulation import FusedAccumulatedStep, FusedJointStep
from .key import signature
from .micro_batch import MicroBatch
from .results import is_differentiable
from .spec import Program, Spec
from .step import FusedStep, SplitStep, TrainStep


@dataclass(frozen=True)
class Find:
    """How the programs of a step are had.

    Args:
        program: Finds or makes one; `find(spec)` does the same.
        given: What one gives, avals for arrays; a trace, unless it is known.
    """

    program: Callable[[Spec], Program]
    given: Callable[[Spec], Any]
    _outs: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])

    def __call__(self, spec: Spec) -> Program:
        return self.program(spec)

    def out(self, spec: Spec) -> Any:
        """What a program gives, avals for arrays; it is traced for that once."""
        key = (spec.name, spec.form, signature(spec.fixed))
        if key not in self._outs:
            self._outs[key] = self.given(spec)
        return self._outs[key]


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
    written = forward.out[1][1]
    spec = training.loss(plan, forward.out[0], batch)
    loss = _before_update(plan, find, spec, written=written)
    backward = find(training.backward(forward))
    optimizer = find(training.optimizer(plan, loss.out[0], written=written))
    return SplitStep(forward, loss, backward, optimizer, groups)


def _forward(plan: Blueprint, batch: Batch, find: Find, *, one: bool = True) -> Program:
    """The program; what the rest of the step refuses is said before XLA works on it.

    Args:
        plan: What it is made from.
        batch: Avals of the micro-batch.
        find: Finds or makes a program.
        one: Whether the step has no other micro-batch.
    """

    def then(out: Any) -> None:
        outputs, (_, written), _ = out
        number = find.out(training.loss(plan, outputs, batch))[0]
        if one:
            find.out(training.optimizer(plan, number, written=written))
        else:
            _rehearse_update(plan, find, out, number)

    return _checked(plan, find(replace(training.forward(plan, batch), then=then)), one)


def _rehearse_update(plan: Blueprint, find: Find, forward: Any, number: Any) -> None:
    """Say what is refused after the gradients of all micro-batches."""
    accumulation.unwritten(plan, forward[1])
    find.out(training.optimizer(plan, number, accumulation.sums(plan)))


def _before_update(
    plan: Blueprint, find: Find, spec: Spec, place: int = 0, **update: Any
) -> Program:
    """A program that gives the loss; what `optimizer` refuses is said before XLA works.

    Args:
        plan: What it is made from.
        find: Finds or makes a program.
        spec: Of the program.
        place: Of the loss in what it gives.
        **update: As `training.optimizer` takes them.
    """

    def then(out: Any) -> None:
        find.out(training.optimizer(plan, out[place], **update))

    return find(replace(spec, then=then))


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
            spec = training.loss(plan, forward.out[0], batch)
            loss = _before_update(plan, find, spec, grads=accumulation.sums(plan))
            number, _, metrics, _ = loss.out
            made[shape] = _micro(plan, batch, find, forward, loss, number)
        micros.append(made[shape])
    optimizer = find(training.optimizer(plan, number, accumulation.sums(plan)))
    groups = [_groups(plan, batch) for batch in batches]
    return AccumulatedStep(micros, optimizer, metrics, groups)


def _joint(plan: Blueprint, batches: Sequence[Batch], find: Find) -> TrainStep:
    forwards = [_joint_forward(plan, batches, batch, find) for batch in batches]
    outputs = tuple(forward.out[0] for forward in forwards)
    spec = accumulation.joint_loss(plan, outputs, batches)
    loss = _before_update(plan, find, spec, grads=accumulation.sums(plan))
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


def _joint_forward(
    plan: Blueprint, batches: Sequence[Batch], batch: Batch, find: Find
) -> Program:
    """As `_forward`, where one loss is taken over the outputs of all."""

    def then(out: Any) -> None:
        outputs = tuple(
            (out if one == batch else find.out(training.forward(plan, one)))[0]
            for one in batches
        )
        number = find.out(accumulation.joint_loss(plan, outputs, batches))[0]
        _rehearse_update(plan, find, out, number)

    spec = replace(training.forward(plan, batch), then=then)
    return _checked(plan, find(spec), one=False)


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
    sums = accumulation.sums(plan)

    if joint:
        spec = accumulation.joint_gradient(plan, batches)
        grad = _before_update(plan, find, spec, 2, grads=sums)
        optimizer = find(training.optimizer(plan, grad.out[2], sums))
        return FusedJointStep(grad, optimizer, _groups(plan, tuple(batches)))
    specs = [accumulation.gradient(plan, batch) for batch in batches]
    grads = [_before_update(plan, find, spec, 3, grads=sums) for spec in specs]
    optimizer = find(training.optimizer(plan, grads[0].out[3], sums))
    groups = [_groups(plan, batch) for batch in batches]
    trained = plan.recipe.trained(range(len(plan.recipe.frozen)))
    return FusedAccumulatedStep(grads, optimizer, groups, trained)
