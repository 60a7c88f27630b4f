"""The training loop: one step a turn, commands between steps, losses read late.

Only the worker thread touches a loop while it runs; the state between two turns is
always that of a whole number of steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax

from .._programs.explain import hook_error, hooks_explained
from .._programs.program_set import ProgramSet
from .._programs.step import Carry, TrainStep
from ..errors import NitroError, StaleError
from .advance import Advance
from .batches import check_batch, private_arrays
from .chosen import chosen
from .commands import LATER, Command, Mailbox
from .culprit import Culprit
from .evaluation import State
from .feed import Fed, Feed, Position
from .listeners import Listeners
from .live import Values
from .nonfinite import pass_over, take_back
from .pace import Pace
from .pending import Pending
from .record import Record
from .schedules import Schedules
from .settings import Every
from .unseen import tell_unseen

_BEGINNINGS = 8  # code that is edited all the time must not keep a run from its steps


class Validates(Protocol):
    """Evaluates between two steps."""

    def prepare(self, loop: Loop) -> None:
        """Make its programs."""
        ...

    def __call__(self, loop: Loop) -> None:
        """Evaluate at this boundary."""
        ...


@dataclass
class Loop:
    """Everything one run steps with.

    Attributes:
        carry: Parameters, state and optimizer state after `step` steps.
        first: Avals of the first batch, by the names that programs take.
        schedules: What some of the values follow.
        step: Optimizer steps begun; those of a non-finite step are taken back.
        listeners: Host code that goes along.
        accum: Micro-batches of a step.
        on_nonfinite: What a step does that is not finite: "pause", "stop" or "skip".
        culprit: The last such step, None so far.
        trouble: Why it paused by itself, None if it did not.
        attended: Whether somebody can resume it when it pauses by itself.
        begins: Whether the programs of the first step are yet to be made.
        owes: Whether the evaluation of this step has failed.
        paused: Whether to wait for commands before the next step.
        stopping: Whether to end at the next boundary.
        advance: The `advance` that it is doing, if any.
        pending: Steps whose numbers are still on the device.
    """

    carry: Carry
    programs: ProgramSet
    values: Values
    feed: Feed
    first: Mapping[str, Any]
    key: Any
    mailbox: Mailbox
    record: Record
    on_phase: Callable[[str], None]
    schedules: Schedules
    listeners: Listeners
    evaluate: Validates | None = None
    evaluate_every: Every | None = None
    max_steps: int | None = None
    step: int = 0
    epoch: int = 0
    accum: int = 1
    on_nonfinite: str = "stop"
    culprit: Culprit | None = None
    trouble: NitroError | None = None
    attended: bool = False
    begins: bool = True
    owes: bool = False
    paused: bool = False
    stopping: bool = False
    advance: Advance = field(default_factory=Advance)
    pace: Pace = field(default_factory=Pace)
    last_loss: float | None = None
    pending: deque[Pending] = field(default_factory=deque)

    def run(self) -> None:
        """Train until the end or a stop."""
        self.on_phase("starting")
        self.pace.start()
        self._begin()  # before the first command is heard
        self.record.variant(self.programs.variant)
        tell_unseen(self.programs.programs, self.record.log)
        try:
            while self.boundary():
                self.turn()
        finally:
            self.schedules.rest()
            self.read(0)  # the steps before a failure were made

    def turn(self) -> None:
        """One step; then, where an epoch or a period ends, an evaluation."""
        if self.owes:
            self._evaluate()
            return
        self.schedules.apply(self.values, self.step)
        loader = f"the loader of `train`, at step {self.step + 1}"
        with self.pace.waiting, hooks_explained(loader):
            fed = self.feed.take(self.accum)
        own = tuple(self.own(one.batch) for one in fed)
        batches = tuple(map(self.place, own))
        try:
            step = self.programs.train(*batches)
        except StaleError as error:
            self.hold(fed[0], error)
            return
        report = self._compute(step, batches)
        self.step += 1
        self.epoch = fed[0].epoch
        self.pending.append(
            Pending(
                self.step, fed[0].epoch, fed[0].index, report, step,
                self.values.numbers, own, self.values.leaves,
            )
        )  # fmt: skip
        if len(self.pending) > (most := self.pace.unread):
            self.read(most // 2)  # several at once: each wait changes threads
            if self.paused:  # by the guard
                return
        self.pace.measure(self.step)
        self._after(fed[-1])

    def _compute(self, step: TrainStep, batches: Sequence[Mapping[str, Any]]) -> Any:
        """Begin a step; what it reports is read later."""
        arrays = tuple(tuple(batch.values()) for batch in batches)
        try:
            self.carry, report = step(self.carry, arrays, self.key, self.values.leaves)
        except jax.errors.JaxRuntimeError as error:
            raise hook_error(f"step {self.step + 1}", error) from error
        return report

    def _after(self, last: Fed) -> None:
        """Tell who listens to steps; evaluate where it is time."""
        ended = last.index + 1 == self.feed.steps_per_epoch
        if ended:
            self.epoch += 1
        self.listeners.stepped(self)
        every = self.evaluate_every
        if every is not None and every.due(self.step, self.epoch, ended):
            self.read(0)
            if not self.paused:
                self._evaluate()

    def _evaluate(self) -> None:
        """Evaluate; what fails is owed to a run that goes on."""
        if self.evaluate is not None:
            self.owes = True
            self.evaluate(self)
            self.owes = False
            self.listeners.emit("eval")

    def boundary(self) -> bool:
        """Apply what was asked; wait while paused. False when the run is to end."""
        self._reach()
        if self.mailbox:
            self.read(0)
            while (command := self.mailbox.take()) is not None:
                self.obey(command)
        if self._finished():
            self.read(0)  # the guard may take the last steps back
        self.rest()
        if self.stopping or self._finished():
            return False
        self.on_phase("stepping")
        return True

    def rest(self) -> None:
        """While paused, wait for commands and obey them."""
        told = False
        while self.paused and not self.stopping:
            self.read(0)
            self.pace.rest(self.step)
            self.on_phase("paused")
            if not told:
                told = True
                self.listeners.emit("pause")
            command = self.mailbox.take(block=True)
            if command is not None:
                self.obey(command)

    def _begin(self) -> None:
        """Make the programs that the steps need; an edit meanwhile is taken in.

        Until a step is made all can be of the newer code. After that what the newer
        code would make waits for a swap: the first step or evaluation says so.
        """
        for _ in range(_BEGINNINGS):
            try:
                self.programs.train(*self.shapes)
                if self.evaluate is not None and self.evaluate_every is not None:
                    self.evaluate.prepare(self)
                if self.step or self.programs.is_current():
                    break
            except StaleError:
                if self.step:
                    break
            self.programs = self.programs.anew()
            run = f"run {self.record.id}"
            self.record.log.tell(
                f"nitro: code was edited while it was compiled; {run} begins with it"
            )
        self.begins = False

    def obey(self, command: Command) -> None:
        """Apply a command and answer it."""
        try:
            value = command.apply(self, command)
        except Exception as error:
            command.refuse(error)
            return
        if value is not LATER:
            command.answer(value)

    def hold(self, fed: Fed, error: StaleError) -> None:
        """Pause before a batch that needs code which is no longer there."""
        if not self.attended:
            raise error
        self.feed.restore(Position(fed.epoch, fed.index))
        self.paused, self.trouble = True, error
        self.on_phase("paused")
        self.advance.end(error)
        self.record.log.tell(f"paused before step {self.step + 1}: {error}", bad=True)

    @property
    def shapes(self) -> list[Mapping[str, Any]]:
        """Avals of the micro-batches of the first step."""
        return [self.first] * self.accum

    def own(self, batch: Any) -> dict[str, Any]:
        """The fields that programs name, copied, by sorted name."""
        check_batch(batch, "train")
        names = self.programs.batch_fields.train(batch)
        return private_arrays(batch, "train", names)

    def place(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Fields where a program takes them."""
        if self.values.device.platform == "cpu":
            return dict(own)  # programs take a private numpy array faster than a put
        return dict(
            zip(own, jax.device_put([*own.values()], self.values.device), strict=True)
        )

    def read(self, most: int) -> None:
        """Bring the numbers of all but the last `most` steps to the host."""
        if (several := len(self.pending) - most) > 1:
            self.pending[several - 1].wait()  # once: a wait for each slows the device
        while len(self.pending) > most:
            taken = self.pending.popleft()
            try:
                row, bad = taken.read()
            except jax.errors.JaxRuntimeError as error:
                raise hook_error(f"step {taken.step}", error) from error
            if bad is not None:
                if self.on_nonfinite != "skip":
                    self.pace.skip()
                    take_back(self, taken, bad)
                    return
                pass_over(self, taken, bad)
            self.record.row("train", row)
            self.last_loss = row["loss"]

    def state(self, params: str | None = None) -> State:
        """The numbers of this boundary, for an evaluation on the worker."""
        carry, values = self.carry, self.values
        own = chosen(self.programs.blueprint, carry, params)
        return State(
            own, carry.state, values.field_leaves, self.key, values.device, self.step
        )  # fmt: skip

    def _reach(self) -> None:
        """Pause where an `advance` is done, and answer it."""
        if self.advance.reached(self.step, finished=self._finished()):
            self.read(0)
            self.paused = not self._finished()
            if self.paused:
                self.on_phase("paused")
            self.advance.end()

    def _finished(self) -> bool:
        return self.max_steps is not None and self.step >= self.max_steps
