"""Fused steps over several micro-batches: loss and gradients are one program.

As the split ones: one update, after the last micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .._experiment.device import default_device
from .micro_batch import Groups, Held, Update, distinct, turns
from .spec import Program
from .step import (
    Arrays,
    Automatic,
    Carry,
    Report,
    Whole,
    Wires,
    arrays_of,
    numbered,
    take,
)


class FusedAccumulatedStep(Whole, Automatic):
    """One update from the mean over micro-batches, each by one program.

    Args:
        grads: The program for each micro-batch, in order.
        optimizer: The program.
        groups: For each micro-batch those of a step with it alone.
        trained: Which of the parameters get a gradient.
    """

    def __init__(
        self, grads: Sequence[Program], optimizer: Program, groups: Sequence[Groups],
        trained: Sequence[int],
    ):  # fmt: skip
        self.programs = distinct([*grads, optimizer])
        self.metrics, self.outputs = grads[0].out[-1], None
        self._n, self._trained = len(trained), take(trained)
        params = self._trained(groups[0]["params"])
        self._zeros = {
            index: jax.device_put(np.zeros(wide.shape, wide.dtype), default_device())
            for index, (wide, own) in enumerate(
                zip(grads[0].out[0], params, strict=True)
            )
            if wide.dtype != own.dtype
        }
        self._m = self._n + len(jax.tree.leaves(groups[0]["state"]))
        self._grads = []
        for grad, group in zip(grads, groups, strict=True):
            wires = Wires(group)
            for name, size in (("sums", self._n), ("before", 2), ("turn", 2)):
                wires.room(name, size)
            self._grads.append(wires.call(grad))
        self._numbers, self.turns = numbered(len(grads)), turns(len(grads), first=0)
        zero = np.zeros((), grads[0].out[2][0].dtype)
        self._nothing = jax.device_put((zero, zero), default_device())
        self._update = Update(optimizer, groups[0], self._n)

    def __call__(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> tuple[Carry, Report]:
        """Do one step, as `TrainStep` says."""
        # Any arrays of these shapes do: the first micro-batch leaves them out.
        first = self._trained(carry.params)
        if self._zeros:
            first = tuple(self._zeros.get(i, leaf) for i, leaf in enumerate(first))
        at, held, metrics = carry, Held(first, self._nothing, None), []
        n, m = self._n, self._m
        for grad, batch, number, turn in zip(
            self._grads, batches, self._numbers, self.turns, strict=True
        ):
            env = arrays_of(at, batch, key, number, inputs)
            out = grad((*env, *held.sums, *held.totals, *turn))
            held = Held(out[:n], out[m : m + 2], out[m + 2])
            at = at._replace(state=out[n:m])
            metrics.append(out[m + 3 :])
        env = arrays_of(carry, batches[0], key, self._numbers[0], inputs)
        return self._update(
            carry, env, held.number, held.sums, at.state, tuple(metrics)
        )


class FusedJointStep(Whole, Automatic):
    """One update from one loss over all micro-batches, its gradient by one program.

    Args:
        grad: Likewise `optimizer`: the programs.
        groups: Those of a step whose batch is a tuple of micro-batches.
    """

    def __init__(self, grad: Program, optimizer: Program, groups: Groups):
        self.programs = (grad, optimizer)
        self.metrics, self.outputs = grad.out[-1], None
        self._n = len(jax.tree.leaves(grad.out[0]))
        self._m = self._n + len(jax.tree.leaves(groups["state"]))
        self._grad = Wires(groups).call(grad)
        self._number = numbered(1)[0]
        self._update = Update(optimizer, groups, self._n)

    def __call__(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> tuple[Carry, Report]:
        """Do one step, as `TrainStep` says."""
        every = tuple(array for batch in batches for array in batch)
        env = arrays_of(carry, every, key, self._number, inputs)
        out, n, m = self._grad(env), self._n, self._m
        return self._update(carry, env, out[m], out[:n], out[n:m], (out[m + 1 :],))
