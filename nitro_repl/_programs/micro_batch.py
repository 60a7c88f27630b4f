"""What steps over several micro-batches are made of: each one's part, and the update.

The numbers of the micro-batches and the flags of adding up are placed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .._experiment.device import default_device
from .spec import Program
from .step import Arrays, Carry, Report, Wires, take, taken

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


class Update:
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


def turns(count: int, first: int = 1) -> list[Arrays]:
    """For each micro-batch whether it is number `first`, and whether the last."""
    flags = [
        (np.bool_(number == first), np.bool_(number == count - 1))
        for number in range(count)
    ]
    return jax.device_put(flags, default_device())


def distinct(programs: Sequence[Program]) -> tuple[Program, ...]:
    return tuple({program.key: program for program in programs}.values())
