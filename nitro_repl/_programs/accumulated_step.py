"""Steps over several micro-batches: one update from all of them.

Model state goes through the micro-batches in order; parameters and optimizer state
change once, after the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

from .._experiment.device import default_device
from .spec import Program
from .step import Arrays, Carry, Part, Report, Wires, arrays_of, numbered, take, taken

Groups = Mapping[str, Any]
"""Pytrees of avals per group of step inputs; fixes the order of arrays."""


class MicroBatch:
    """forward, loss and backward of one shape of micro-batch.

    Args:
        forward: Likewise `backward`, `accumulate`: the programs.
        loss: None where one loss is taken over all micro-batches.
        cotangent: How many arrays that loss hands back for this one.
        groups: Of a step with this micro-batch alone.
    """

    def __init__(
        self, forward: Program, loss: Program | None, backward: Program,
        accumulate: Program, cotangent: int, groups: Groups,
    ):  # fmt: skip
        programs = (forward, loss, backward, accumulate)
        self.programs = tuple(one for one in programs if one is not None)
        wires = Wires(groups)
        self.tree, state, _ = forward.out
        n, m = len(jax.tree.leaves(self.tree)), len(jax.tree.leaves(state))
        self.forward = wires.call(forward)
        places = wires.add("forward", forward)
        self.outputs, self.state = take(places[:n]), take(places[n : n + m])
        wires.name("outputs", places[:n])
        wires.name("residuals", places[n + m :])
        if loss is not None:
            self.loss = wires.call(loss)
            places = wires.add("loss", loss)
            ends = np.cumsum(
                [1, *(len(jax.tree.leaves(part)) for part in loss.out[1:])]
            )
            self.number = take(places[:1])
            self.cotangent = take(places[ends[0] : ends[1]])
            self.metrics = take(places[ends[1] : ends[2]])
            self._weight = take(places[ends[2] :] or places[:1])
            scalar = len(places) == ends[2]
            one = np.ones((), loss.out[0].dtype)
            self._one = (jax.device_put(one, default_device()),) if scalar else ()
        parameters = len(jax.tree.leaves(backward.out))
        for group, size in (
            ("cotangent", cotangent), ("sums", parameters), ("before", 2),
            ("weight", 2), ("turn", 2),
        ):  # fmt: skip
            wires.room(group, size)
        self.gradients = parameters
        self._pull, self._add = wires.call(backward), wires.call(accumulate)

    def weight(self, env: Arrays) -> Arrays:
        """The loss's total and count, those of a scalar loss being itself and 1."""
        return self._weight(env) + self._one

    def pull(self, env: Arrays, cotangent: Arrays) -> Arrays:
        """The gradients of this micro-batch alone."""
        return self._pull(env + cotangent)

    def add(
        self, env: Arrays, cotangent: Arrays, weight: Arrays, held: Held, turn: Arrays
    ) -> Held:
        """The gradients so far and those of this micro-batch."""
        out = self._add((*env, *cotangent, *held.sums, *held.totals, *weight, *turn))
        return Held(out[:-3], out[-3:-1], out[-1])


class Held(NamedTuple):
    """What has been added up: gradients, totals of loss and weight, the loss so far."""

    sums: Arrays
    totals: Arrays
    number: Any


class _Update:
    """The optimizer program after the gradients of a step are there."""

    def __init__(self, optimizer: Program, groups: Groups, parameters: int):
        wires = Wires(groups)
        start = wires.length
        wires.positions[("loss",)] = start
        wires.name("grads", range(start + 1, start + 1 + parameters))
        state = len(jax.tree.leaves(groups["state"]))
        start += 1 + parameters
        wires.name("new_state", range(start, start + state))
        self._call = wires.call(optimizer)
        self._sizes = tuple(len(jax.tree.leaves(part)) for part in optimizer.out[:3])

    def __call__(
        self, carry: Carry, env: Arrays, number: Any, grads: Arrays, state: Arrays,
        metrics: tuple[Arrays, ...],
    ) -> tuple[Carry, Report]:  # fmt: skip
        return taken(
            self._call((*env, number, *grads, *state)), self._sizes, carry, metrics
        )


class AccumulatedStep:
    """One update from the mean over micro-batches.

    Args:
        micros: One for each micro-batch, in order.
        optimizer: The program.
        metrics: The tree of the train metrics.
        groups: For each micro-batch those of a step with it alone.
    """

    manual = False

    def __init__(
        self, micros: Sequence[MicroBatch], optimizer: Program, metrics: Any,
        groups: Sequence[Groups],
    ):  # fmt: skip
        self._micros = tuple(micros)
        self.metrics, self.outputs = metrics, micros[0].tree
        self.programs = _distinct([*(p for m in micros for p in m.programs), optimizer])
        self._numbers = numbered(len(micros))
        self._turns = _turns(len(micros))
        self._update = _Update(optimizer, groups[0], micros[0].gradients)

    def __call__(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> tuple[Carry, Report]:
        """Do one step, as `TrainStep` says."""
        at, held, metrics = carry, None, []
        for micro, batch, number, turn in zip(
            self._micros, batches, self._numbers, self._turns, strict=True
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
        at = carry
        for index, (micro, batch) in enumerate(zip(self._micros, batches, strict=True)):
            env = arrays_of(at, batch, key, self._numbers[index], inputs)
            env += micro.forward(env)
            yield index, "forward", "outputs", micro.outputs(env)
            at = at._replace(state=micro.state(env))
            yield index, "forward", "state", at.state
            env += micro.loss(env)
            if (np.asarray(micro.weight(env)[1]) != 0).all():  # else it counts nothing
                yield index, "loss", "loss", micro.number(env)
            grads = micro.pull(env, micro.cotangent(env))
            yield index, "backward", "gradient", grads


class JointStep:
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

    manual = False

    def __init__(
        self, micros: Sequence[MicroBatch], loss: Program, optimizer: Program,
        groups: Sequence[Groups], joint: Groups,
    ):  # fmt: skip
        self._micros = tuple(micros)
        self.outputs = micros[0].tree
        forms = [p for micro in micros for p in micro.programs]
        self.programs = _distinct([*forms, loss, optimizer])
        self._loss = Wires(joint).call(loss)
        _, cotangents, self.metrics, _ = loss.out
        ends = np.cumsum([1, *map(len, cotangents)]).tolist()
        self._cotangents = [slice(a, b) for a, b in pairwise(ends)]
        self._metrics = slice(ends[-1], ends[-1] + len(jax.tree.leaves(self.metrics)))
        self._numbers = numbered(len(micros))
        self._turn = _turns(2)[0][1:] * 2  # neither begun without weight, nor divided
        self._equal = jax.device_put(
            (np.ones((), loss.out[0].dtype),) * 2, default_device()
        )
        self._update = _Update(optimizer, groups[0], micros[0].gradients)

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
        at = carry
        for index, (micro, batch) in enumerate(zip(self._micros, batches, strict=True)):
            env = arrays_of(at, batch, key, self._numbers[index], inputs)
            env += micro.forward(env)
            yield index, "forward", "outputs", micro.outputs(env)
            at = at._replace(state=micro.state(env))
            yield index, "forward", "state", at.state


class FusedAccumulatedStep:
    """One update from the mean over micro-batches, each by one program.

    Args:
        grads: The program for each micro-batch, in order.
        optimizer: The program.
        groups: For each micro-batch those of a step with it alone.
        trained: Which of the parameters get a gradient.
    """

    manual = False

    def __init__(
        self, grads: Sequence[Program], optimizer: Program, groups: Sequence[Groups],
        trained: Sequence[int],
    ):  # fmt: skip
        self.programs = _distinct([*grads, optimizer])
        self.metrics, self.outputs = grads[0].out[-1], None
        self._n, self._trained = len(trained), take(trained)
        self._m = self._n + len(jax.tree.leaves(groups[0]["state"]))
        self._grads = []
        for grad, group in zip(grads, groups, strict=True):
            wires = Wires(group)
            for name, size in (("sums", self._n), ("before", 2), ("turn", 2)):
                wires.room(name, size)
            self._grads.append(wires.call(grad))
        self._numbers, self._turns = numbered(len(grads)), _turns(len(grads), first=0)
        zero = np.zeros((), grads[0].out[2][0].dtype)
        self._nothing = jax.device_put((zero, zero), default_device())
        self._update = _Update(optimizer, groups[0], self._n)

    def __call__(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> tuple[Carry, Report]:
        """Do one step, as `TrainStep` says."""
        # Any arrays of these shapes do: the first micro-batch leaves them out.
        at, held, metrics = (
            carry,
            Held(self._trained(carry.params), self._nothing, None),
            [],
        )
        n, m = self._n, self._m
        for grad, batch, number, turn in zip(
            self._grads, batches, self._numbers, self._turns, strict=True
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

    def examine(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> Iterator[Part]:
        """As `TrainStep` says: nothing, its parts are no programs."""
        yield from ()


class FusedJointStep:
    """One update from one loss over all micro-batches, its gradient by one program.

    Args:
        grad: Likewise `optimizer`: the programs.
        groups: Those of a step whose batch is a tuple of micro-batches.
    """

    manual = False

    def __init__(self, grad: Program, optimizer: Program, groups: Groups):
        self.programs = (grad, optimizer)
        self.metrics, self.outputs = grad.out[-1], None
        self._n = len(jax.tree.leaves(grad.out[0]))
        self._m = self._n + len(jax.tree.leaves(groups["state"]))
        self._grad = Wires(groups).call(grad)
        self._number = numbered(1)[0]
        self._update = _Update(optimizer, groups, self._n)

    def __call__(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> tuple[Carry, Report]:
        """Do one step, as `TrainStep` says."""
        every = tuple(array for batch in batches for array in batch)
        env = arrays_of(carry, every, key, self._number, inputs)
        out, n, m = self._grad(env), self._n, self._m
        return self._update(carry, env, out[m], out[:n], out[n:m], (out[m + 1 :],))

    def examine(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> Iterator[Part]:
        """As `TrainStep` says: nothing, its parts are no programs."""
        yield from ()


def _carried(carry: Carry) -> int:
    return len(carry.opt) + len(carry.params) + len(carry.state)


def _turns(count: int, first: int = 1) -> list[Arrays]:
    """For each micro-batch whether it is number `first`, and whether the last."""
    flags = [
        (np.bool_(number == first), np.bool_(number == count - 1))
        for number in range(count)
    ]
    return jax.device_put(flags, default_device())


def _distinct(programs: Sequence[Program]) -> tuple[Program, ...]:
    return tuple({program.key: program for program in programs}.values())
