"""Compiled programs wired together: one train step, one evaluation batch.

Wiring is done once; a step only gathers arrays and calls executables. Parameters and
optimizer state are donated, so a carry may be used for one step only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from .._experiment.device import default_device
from .nnx_optimizers import norm_names
from .spec import Program
from .trace import Slot, slot_of

Arrays = tuple[Any, ...]


class Carry(NamedTuple):
    """What one step hands to the next: tuples of leaves on the device.

    Attributes:
        step: Optimizer steps done, uint32.
        bad: Whether a step was not finite; then every later step changes nothing.
        sticky: Whether a step that is not finite becomes `bad`; else it is skipped.
    """

    params: Arrays
    state: Arrays
    opt: Arrays
    step: Any
    bad: Any
    sticky: Any


class Report(NamedTuple):
    """What a step tells, still on the device.

    Attributes:
        numbers: The loss and the gradient norm, then those of `TrainStep.norms`: one
            array, one transfer.
        metrics: Leaves of the train metrics, for each time that the loss was taken;
            `TrainStep.metrics` is their tree.
    """

    numbers: Any
    metrics: tuple[Arrays, ...]


Part = tuple[int, str, str, Arrays]
"""Number of the micro-batch, program, "outputs", "state", "loss" or "gradient"."""


class TrainStep(Protocol):
    """One train step for one batch shape.

    Attributes:
        programs: In the order they run.
        metrics: The tree of the train metrics.
        manual: Whether it is the user's own; then its second number is no gradient
            norm, but 0 where all that it told and made is finite.
        norms: Columns of the gradient norms that follow, for each optimizer of its own.
        outputs: The tree of what `forward` gives, where it is a program of its own.
    """

    programs: tuple[Program, ...]
    metrics: Any
    manual: bool
    norms: tuple[str, ...]
    outputs: Any

    def __call__(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> tuple[Carry, Report]:
        """Do one step.

        Args:
            carry: Of the step before; its parameters and optimizer state are consumed.
            batches: Arrays of each micro-batch, by sorted field name.
            key: The run's random key.
            inputs: Leaves of the Device fields, then the hyperparameters.
        """
        ...

    def examine(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> Iterator[Part]:
        """What its programs give on the way to the gradients, changing nothing."""
        ...


class Automatic:
    """A step whose gradient is taken for the user; its norm is the second number."""

    manual = False
    norms: tuple[str, ...] = ()


class Whole:
    """A step of which `examine` sees nothing: its parts are no programs."""

    def examine(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> Iterator[Part]:
        """As `TrainStep` says."""
        yield from ()


class SplitStep(Automatic):
    """forward, loss, backward and optimizer.

    Args:
        forward: Likewise `loss`, `backward`, `optimizer`: the programs.
        groups: Pytrees of avals per group of step inputs; fixes the order of arrays.
    """

    def __init__(
        self, forward: Program, loss: Program, backward: Program, optimizer: Program,
        groups: Mapping[str, Any],
    ):  # fmt: skip
        self.programs = (forward, loss, backward, optimizer)
        self._micro = numbered(1)[0]
        wires = Wires(groups)
        self.outputs, (state, written), _ = forward.out
        n_outputs = len(jax.tree.leaves(self.outputs))
        n_state = len(jax.tree.leaves(state))
        self._forward = wires.call(forward)
        places = wires.add("forward", forward)
        wires.name("outputs", places[:n_outputs])
        wires.name("new_state", places[n_outputs : n_outputs + n_state])
        self._made = take(places[:n_outputs])
        self._state = take(places[n_outputs : n_outputs + n_state])
        rest = places[n_outputs + n_state :]
        for index, place in zip(sorted(written), rest, strict=False):
            wires.positions[("written", index)] = place
        wires.name("residuals", rest[len(written) :])
        self._loss = wires.call(loss)
        places = wires.add("loss", loss)
        _, cotangent, self.metrics, _ = loss.out
        wires.positions[("loss",)] = places[0]
        end = 1 + len(cotangent)
        wires.name("cotangent", places[1:end])
        self._metrics = take(places[end : end + len(jax.tree.leaves(self.metrics))])
        self._backward = wires.call(backward)
        places = wires.add("backward", backward)
        wires.name("grads", places)
        self._grads = take(places)
        self._number = take([wires.positions[("loss",)]])
        self._optimizer = wires.call(optimizer)
        self._sizes = tuple(len(jax.tree.leaves(part)) for part in optimizer.out[:3])

    def __call__(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> tuple[Carry, Report]:
        """Do one step, as `TrainStep` says."""
        (batch,) = batches
        env = arrays_of(carry, batch, key, self._micro, inputs)
        env += self._forward(env)
        env += self._loss(env)
        env += self._backward(env)
        out = self._optimizer(env)
        return taken(out, self._sizes, carry, (self._metrics(env),))

    def examine(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> Iterator[Part]:
        """As `TrainStep` says."""
        env = arrays_of(carry, batches[0], key, self._micro, inputs)
        env += self._forward(env)
        yield 0, "forward", "outputs", self._made(env)
        yield 0, "forward", "state", self._state(env)
        env += self._loss(env)
        yield 0, "loss", "loss", self._number(env)
        env += self._backward(env)
        yield 0, "backward", "gradient", self._grads(env)


class FusedStep(Whole):
    """The whole step in one program.

    Args:
        program: The program.
        groups: Pytrees of avals per group of step inputs; fixes the order of arrays.
        optimizers: Their names, where it is the user's `train_step`.
    """

    def __init__(
        self, program: Program, groups: Mapping[str, Any],
        optimizers: Iterable[str] | None = None,
    ):  # fmt: skip
        self.programs = (program,)
        self.manual = optimizers is not None
        self.norms = norm_names(optimizers or ())
        self._micro = numbered(1)[0]
        self._step = Wires(groups).call(program)
        self.outputs = None
        self.metrics = program.out[-1]
        self._sizes = tuple(len(jax.tree.leaves(part)) for part in program.out[:3])

    def __call__(
        self, carry: Carry, batches: tuple[Arrays, ...], key: Any, inputs: Arrays
    ) -> tuple[Carry, Report]:
        """Do one step, as `TrainStep` says."""
        (batch,) = batches
        out = self._step(arrays_of(carry, batch, key, self._micro, inputs))
        done = sum(self._sizes) + 3
        return taken(out, self._sizes, carry, (out[done:],))


def arrays_of(
    carry: Carry, batch: Arrays, key: Any, micro: Any, inputs: Arrays
) -> Arrays:
    """All arrays that go into a step, in the order of their groups' names."""
    return (
        *batch,
        carry.bad,
        key,
        micro,
        carry.step,
        carry.sticky,
        *inputs,
        *carry.opt,
        *carry.params,
        *carry.state,
    )


def taken(
    out: Arrays, sizes: tuple[int, ...], before: Carry, metrics: tuple[Arrays, ...]
) -> tuple[Carry, Report]:
    """What a step hands on and tells, from its outputs."""
    n, m, k = sizes
    step, bad, numbers = out[n + m + k : n + m + k + 3]
    after = Carry(
        params=out[n : n + m],
        state=out[n + m : n + m + k],
        opt=out[:n],
        step=step,
        bad=bad,
        sticky=before.sticky,
    )
    return after, Report(numbers, metrics)


class EvalStep:
    """The eval program and the value-only loss for one batch shape.

    Args:
        evaluation: The eval program.
        groups: Pytrees of avals per group of inputs.
    """

    def __init__(self, evaluation: Program, groups: Mapping[str, Any]):
        self.programs = (evaluation,)
        self.out = evaluation.out
        self._call = Wires(groups).call(evaluation)

    def __call__(self, arrays: Arrays) -> Arrays:
        """Output leaves, from the arrays of all groups in order of group name."""
        return self._call(arrays)


class Wires:
    """Where each slot is found in the growing tuple of one step's arrays."""

    def __init__(self, groups: Mapping[str, Any]):
        paths = jax.tree_util.tree_flatten_with_path(dict(groups))[0]
        self.positions: dict[Slot, int] = {}
        for position, (path, _) in enumerate(paths):
            self.positions[slot_of(path)] = position
        self.length = len(paths)

    def call(self, program: Program) -> Callable[[Arrays], Arrays]:
        """A function from all arrays so far to the program's outputs."""
        pick = take([self.positions[slot] for slot in program.inputs])
        executable, constants = program.executable, program.constants
        if constants:
            return lambda env: tuple(executable(*pick(env), *constants))
        return lambda env: tuple(executable(*pick(env)))

    def add(self, name: str, program: Program) -> list[int]:
        """Append the program's outputs; the position of each leaf of `program.out`."""
        start = self.length
        given = [slot[1] for slot in program.outputs if slot[0] == "out"]
        self.length += max(given, default=-1) + 1
        return [
            start + slot[1] if slot[0] == "out" else self.positions[slot]
            for slot in program.outputs
        ]

    def room(self, group: str, size: int) -> None:
        """Append arrays of a group that the caller puts there."""
        self.name(group, range(self.length, self.length + size))
        self.length += size

    def name(self, group: str, positions: Sequence[int]) -> None:
        """Give a group of arrays a name for the programs that follow."""
        for index, position in enumerate(positions):
            self.positions[(group, index)] = position


def numbered(count: int) -> list[Any]:
    """The numbers of so many micro-batches, on the device."""
    numbers = [np.uint32(number) for number in range(count)]
    return jax.device_put(numbers, default_device())


def take(positions: Sequence[int]) -> Callable[[Arrays], Arrays]:
    """A function that picks arrays by their positions."""
    if not positions:
        return lambda arrays: ()
    if len(positions) == 1:
        only = positions[0]
        return lambda arrays: (arrays[only],)
    return itemgetter(*positions)
