"""What can be seen of a run; nothing here changes it.

Numbers are copies of one step boundary, so that no reader sees half a step or holds a
live buffer. Any thread may look at any time.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
from flax import nnx

from .._code.arrays import light_look
from .._programs.model import copies
from .._programs.program_set import ProgramSet
from ..errors import RunError, suggest
from .binding import Binding, binding
from .boundary import evaluating
from .culprit import Culprit
from .evaluation import State
from .origins import Moment
from .outlook import Outlook
from .picture import Pictures
from .pictures import FIRST, Wish, render
from .record import Record
from .report import Report, report
from .status import ENDED, HistoryView, ProgramState, Progress, Status, ValueRow
from .surroundings import Surroundings
from .unseen import unseen
from .value_rows import value_rows

if TYPE_CHECKING:
    from .life import Life
    from .loop import Loop
    from .nitro import Nitro
    from .swap import Swapper
    from .worker import Worker


class Readings:
    """The half of a `Run` that looks."""

    id: str
    handle: Nitro
    record: Record
    note: str
    _life: Life
    _loop: Loop
    _worker: Worker
    _swapper: Swapper

    @property
    def phase(self) -> str:
        """What it does, or how it ended."""
        return self._life.phase

    @property
    def exception(self) -> BaseException | None:
        """What ended it, None while all is well."""
        return self._life.exception

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return self._loop.step

    @property
    def epoch(self) -> int:
        """Whole epochs done."""
        return self._loop.epoch

    @property
    def culprit(self) -> Culprit | None:
        """The last step whose loss or gradient was not finite: step, batch, tensor."""
        return self._loop.culprit

    @property
    def live(self) -> bool:
        """Whether a worker is there."""
        return self._worker.live

    @property
    def ended(self) -> bool:
        """Whether it is over, for now: `handle.train` may go on with it."""
        return not self.live and self.phase in ENDED

    @property
    def stale(self) -> tuple[str, ...]:
        """Programs whose code has moved on since they were made; looked up now."""
        return self._swapper.stale()

    def history(self, split: str = "train") -> HistoryView:
        """The recorded columns of a split: numpy arrays by name.

        The split "train" has a row per step: step, epoch, loss, train metrics,
        grad_norm, learning_rate and what is scheduled; any other a row per evaluation.
        """
        known = {"train", *self.handle.data, *self.record.history.splits()}
        if split not in known:
            raise RunError(
                f"there is no history of `{split}`",
                where=f"run {self.id}",
                fix=suggest(split, known),
            )
        return HistoryView(self.record.history.columns(split), split)

    def render(
        self,
        split: str = "val",
        *,
        predictions: bool = True,
        worst: int | None = None,
        first: int = FIRST,
    ) -> Pictures:
        """Draw samples of a split with the state of one boundary: `Nitro.render`."""
        wish, loader = Wish(split, predictions, worst, first), self.handle.loader(split)
        with evaluating(self, self.handle.padding) as (state, evaluation):
            return render(evaluation, state, loader, wish, self.figures)

    @property
    def params(self) -> dict[str, Any]:
        """The live parameters of one step boundary: nested dict of numpy copies."""
        structure = self._loop.programs.blueprint.structure
        return structure.nested(
            copies(self._worker.look(lambda loop: loop.carry.params))
        )

    def model(self, params: str | None = None) -> nnx.Module:
        """A fresh module in eval mode with copies of one step boundary's numbers.

        Args:
            params: "live" for the parameters being trained, "ema" for their average;
                by default the average where there is one.

        Raises:
            SettingError: There is no average.
        """
        structure = self._loop.programs.renewed().structure
        own, state = self._worker.look(
            lambda loop: (loop.state(params).params, loop.carry.state)
        )
        return structure.merge(
            jax.device_put(list(own)), jax.device_put(list(state)), training=False
        )

    def progress(self) -> Progress:
        """How far the run is; cheap, from any thread."""
        loop = self._loop
        total, epochs = loop.max_steps, self.handle.settings["max_epochs"]
        rate = loop.pace.rate
        left = None
        if total is not None and rate and rate > 0 and self.phase == "stepping":
            left = (total - loop.step) / rate
        loss = loop.last_loss
        return Progress(
            loop.step,
            total,
            loop.epoch,
            epochs,
            loss,
            rate,
            left,
            self.phase,
            self.note,
            loop.pace.data_wait if rate else None,
        )

    def values(self, *, arrays: bool = False) -> list[ValueRow]:
        """The live values, with what each follows and takes next.

        Args:
            arrays: Read arrays too; else their value is their shape and dtype.
        """
        loop = self._loop
        return value_rows(loop.values, loop.schedules, loop.step, arrays=arrays)

    @property
    def steps_per_epoch(self) -> float:
        """Optimizer steps of an epoch."""
        return self._loop.feed.steps_per_epoch / self._loop.accum

    @property
    def programs(self) -> ProgramSet:
        """The programs that it steps with, and what they were made from."""
        return self._loop.programs

    def program_names(self) -> tuple[str, ...]:
        """Names of its programs, in the order they run."""
        programs = self._loop.programs.programs
        return tuple(dict.fromkeys(program.name for program in programs))

    def status(self) -> Status:
        """The run at this moment: progress, values, programs, metrics, error."""
        with light_look():
            outlook = self._swapper.outlook()
        outcomes = {
            event.program: event.outcome
            for event in self.handle.cache.events()
            if event.run == self.id
        }
        unknown = unseen(self.programs.programs)
        return Status(
            run=self.id,
            experiment=type(self.handle.experiment).__name__,
            progress=self.progress(),
            values=self.values(arrays=True),
            programs=[
                ProgramState(
                    name,
                    outcomes.get(name, ""),
                    name in outlook.stale,
                    unknown.get(name, ""),
                )
                for name in self.program_names()
            ],
            moved=outlook.labels,
            misfit=outlook.refusal,
            metrics=self.record.history.last("val"),
            error=str(self.exception or self._loop.trouble or ""),
        )

    def report(self) -> Report:
        """The result so far: where it stands, metrics, live changes, its set-up."""
        return report(self)

    def in_force(self) -> Binding:
        """What is in force now, and where each value comes from; from any thread."""
        loop = self._loop
        moment = Moment(
            self.handle,
            self._swapper.plan,
            loop.schedules,
            loop.on_nonfinite,
            begun=self._swapper.begun,
            entries=self.record.journal.entries,
            said=f"run {self.id} at step {loop.step}",
        )
        with self.surroundings.config():
            return binding(moment)

    def __repr__(self) -> str:
        name = type(self.handle.experiment).__name__
        return f"<Run {self.id} of {name}: {self.progress()}>"

    def state(self, params: str | None = None) -> tuple[State, ProgramSet]:
        """Copies of one boundary's numbers, and the programs to evaluate with."""

        def read(loop: Loop) -> Any:
            now = loop.state(params)
            return now.params, now.state, now.fields, loop.programs, now

        own, state, fields, programs, now = self._worker.look(read)
        return replace(now, params=own, state=state, fields=fields), programs

    def methods(self) -> tuple[str, ...]:
        """Names of the `@nitro.program` methods that `call` can run."""
        return self._loop.programs.blueprint.hooks.programs()

    def inputs(self, method: str) -> list[str]:
        """Names of what a `@nitro.program` method takes."""
        if method not in self.methods():
            return []
        taken = self.programs.blueprint.route(method)
        return [*taken.required, *taken.optional]

    # ---- for what watches the user's code, and the handle

    def outlook(self) -> Outlook:
        """What the newest code means for the run."""
        with self.surroundings.config():
            return self._swapper.outlook()

    @property
    def figures(self) -> Path | None:
        """The folder of its pictures; None if it has no files."""
        return self.record.directory.file("figures")

    @property
    def swapping(self) -> bool:
        """Whether a swap is on its way."""
        return self._swapper.busy

    @property
    def surroundings(self) -> Surroundings:
        """The JAX settings that its worker steps under."""
        return self._worker.surroundings
