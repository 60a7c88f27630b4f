"""Steps over several micro-batches: one update from all of them.

Model state goes through the micro-batches in order; parameters and optimizer state
change once, after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from .._experiment.device import default_device
from .micro_batch import Groups, Held, MicroBatch, Update, distinct, turns
from .spec import Program
from .step import Arrays, Automatic, Carry, Part, Report, Wires, arrays_of, numbered


class AccumulatedStep(Automatic):
    """One update from the mean over micro-batches.

    Args:
        micros: One for each micro-batch, in order.
        optimizer: The program.
        metrics: The tree of the train metrics.
        groups: For each micro-batch those of a step with it alone.
    """

    def __init__(
        self, micros: Sequence[MicroBatch], optimizer: Program, metrics: Any,
        groups: Sequence[Groups],
    ):  # fmt: skip
        self._micros = tuple(micros)
        self.metrics, self.outputs = metrics, micros[0].tree
        self.programs = distinct([*(p for m in micros for p in m.programs), optimizer])
        self._numbers = numbered(len(micros))
        self.turns = turns(len(micros))
        self._update = Update(optimizer, groups[0], micros[0].gradients)

    def __call__(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> tuple[Carry, Report]:
        """Do one step, as `TrainStep` says."""
        at, held, metrics = carry, None, []
        for micro, batch, number, turn in zip(
            self._micros, batches, self._numbers, self.turns, strict=True
        ):
            env = arrays_of(at, batch, key, number, inputs)
            env += micro.forward(env)
            env += micro.loss(env)
            at = at._replace(state=micro.state(env))
            metrics.append(micro.metrics(env))
            cotangent, weight = micro.cotangent(env), micro.weight(env)
            if held is None:
                held = Held(micro.pull(env, cotangent), weight, None)
            else:
                held = micro.add(env, cotangent, weight, held, turn)
        assert held is not None
        env = arrays_of(carry, batches[0], key, self._numbers[0], inputs)
        return self._update(
            carry, env, held.number, held.sums, at.state, tuple(metrics)
        )

    def examine(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> Iterator[Part]:
        """As `TrainStep` says."""
        micros = zip(self._micros, self._numbers, batches, strict=True)
        yield from _examined(micros, carry, key, inputs, _loss_and_gradient)


class JointStep(Automatic):
    """One update from one loss over the outputs of all micro-batches.

    Each forward runs a second time on the way back, so that the residuals of one
    micro-batch are held at a time.

    Args:
        micros: One for each micro-batch, in order.
        loss: The joint loss.
        optimizer: The program.
        groups: For each micro-batch those of a step with it alone.
        joint: Groups of what the joint loss takes.
    """

    def __init__(
        self, micros: Sequence[MicroBatch], loss: Program, optimizer: Program,
        groups: Sequence[Groups], joint: Groups,
    ):  # fmt: skip
        self._micros = tuple(micros)
        self.outputs = micros[0].tree
        forms = [p for micro in micros for p in micro.programs]
        self.programs = distinct([*forms, loss, optimizer])
        self._loss = Wires(joint).call(loss)
        _, cotangents, self.metrics, _ = loss.out
        ends = np.cumsum([1, *map(len, cotangents)]).tolist()
        self._cotangents = [slice(a, b) for a, b in pairwise(ends)]
        self._metrics = slice(ends[-1], ends[-1] + len(jax.tree.leaves(self.metrics)))
        self._numbers = numbered(len(micros))
        self._turn = turns(2)[0][1:] * 2  # neither begun without weight, nor divided
        self._equal = jax.device_put(
            (np.ones((), loss.out[0].dtype),) * 2, default_device()
        )
        self._update = Update(optimizer, groups[0], micros[0].gradients)

    def __call__(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> tuple[Carry, Report]:
        """Do one step, as `TrainStep` says."""
        at, starts, outputs = carry, [], []
        for micro, batch, number in zip(
            self._micros, batches, self._numbers, strict=True
        ):
            env = arrays_of(at, batch, key, number, inputs)
            starts.append(env)
            env += micro.forward(env)
            outputs += micro.outputs(env)
            at = at._replace(state=micro.state(env))
        first = starts[0]
        shared = first[len(batches[0]) : len(first) - _carried(carry)]
        told = self._loss((*(a for b in batches for a in b), *shared, *outputs))
        held = None
        for micro, env, place in zip(
            self._micros, starts, self._cotangents, strict=True
        ):
            again, cotangent = env + micro.forward(env), told[place]
            if held is None:
                held = Held(micro.pull(again, cotangent), self._equal, None)
            else:
                held = micro.add(again, cotangent, self._equal, held, self._turn)
        assert held is not None
        metrics = (told[self._metrics],)
        return self._update(carry, first, told[0], held.sums, at.state, metrics)

    def examine(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> Iterator[Part]:
        """As `TrainStep` says: what comes before the joint loss."""
        micros = zip(self._micros, self._numbers, batches, strict=True)
        yield from _examined(micros, carry, key, inputs)


After = Callable[[int, MicroBatch, Arrays], Iterable[Part]]


def _examined(
    micros: Iterable[tuple[MicroBatch, Any, Arrays]],
    carry: Carry,
    key: Any,
    inputs: Arrays,
    after: After = lambda index, micro, env: (),
) -> Iterator[Part]:
    """What each forward gives, and what comes after it, changing nothing."""
    at = carry
    for index, (micro, number, batch) in enumerate(micros):
        env = arrays_of(at, batch, key, number, inputs)
        env += micro.forward(env)
        yield index, "forward", "outputs", micro.outputs(env)
        at = at._replace(state=micro.state(env))
        yield index, "forward", "state", at.state
        yield from after(index, micro, env)


def _loss_and_gradient(index: int, micro: MicroBatch, env: Arrays) -> Iterator[Part]:
    """Those of a micro-batch with a loss of its own."""
    env += micro.loss(env)
    if (np.asarray(micro.weight(env)[1]) != 0).all():  # else it counts nothing
        yield index, "loss", "loss", micro.number(env)
    yield index, "backward", "gradient", micro.pull(env, micro.cotangent(env))


def _carried(carry: Carry) -> int:
    return len(carry.opt) + len(carry.params) + len(carry.state)
