"""A live run: one worker thread, and the verbs that anyone may say to it.

Every verb is a command that the worker applies at a step boundary, so no reader sees
half a step and nothing a caller does can touch live buffers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from flax import nnx

from .._code.texts import remember
from .._experiment.base import preset_of
from .._programs.report import Reasons
from .._programs.spec import Asker
from .._text import tell
from ..errors import RunError
from .asking import asker
from .binding import metadata
from .boundary import evaluating
from .call import call
from .changes import Change, reschedule, set_values, unset_value, wishes
from .commands import LATER, Command, Mailbox
from .life import Life
from .listeners import Listener, Listeners
from .loading import leaves_of
from .loop import Loop
from .readings import Readings
from .record import Record
from .schedules import Schedules
from .start import new_loop
from .status import ENDED
from .swap import Swapper
from .ticker import terminal_line
from .unseen_edits import UnseenEdits
from .worker import Worker

if TYPE_CHECKING:
    from .nitro import Nitro


_SHOWN = (
    "advance", "call", "culprit", "ended", "epoch", "every", "exception", "handle",
    "history", "id", "live", "load", "model", "on", "params", "pause", "phase",
    "progress", "render", "report", "resume", "set", "stale", "status", "step",
    "stop", "swap", "unset", "wait",
)  # fmt: skip


class Run(Readings):
    """One training run of a handle; made by `Nitro.train`.

    Attributes:
        id: Name of its directory.
        handle: The `Nitro` it came from.
        exception: What ended it, None while all is well.
        phase: "starting", "compiling <program>", "stepping", "evaluating", "paused",
            and at the end "done", "stopped" or "failed".
    """

    def __dir__(self) -> list[str]:
        """What Tab shows; the rest is for our own threads and views."""
        return list(_SHOWN)

    def __init__(self, handle: Nitro, followed: Schedules):
        self.handle = handle
        experiment = handle.experiment
        fields = {
            name: getattr(experiment, name) for name in type(experiment).__fields__
        }
        name, values = type(experiment).__name__, handle.plan.values.numbers
        self.record = Record(name, handle.settings, fields, values)
        self.record.describe(
            repr(handle.set_up),
            preset=preset_of(experiment) or None,
            metadata=metadata(type(experiment)),
        )
        remember(handle.hooks.functions.values())
        self.id = self.record.id
        self.journal, self.log = self.record.journal, self.record.log
        self.note = ""
        self.listeners = Listeners(self)
        self.mailbox = Mailbox()
        self._loop = new_loop(handle, self, self.record, followed)
        self._life = Life(self, self._loop)
        self._worker = Worker(self.id, self._loop, self.mailbox, self._end)
        self._swapper = Swapper(self, self._loop, self._worker)
        self._unseen = UnseenEdits(self, self._loop, self._swapper)

    # ---- verbs

    def pause(self) -> None:
        """Pause at the next step boundary, during an evaluation at its next batch.

        Raises:
            RunError: The run is over.
        """

        def apply(loop: Loop, command: Command) -> None:
            loop.paused = True
            loop.read(0)
            loop.on_phase("paused")
            loop.advance.end()
            self._record(command, loop)

        self._worker.ask("pause", apply, urgent=True)

    def resume(self) -> None:
        """Go on after a pause.

        Raises:
            RunError: The run is over.
        """

        def apply(loop: Loop, command: Command) -> None:
            loop.paused, loop.trouble = False, None
            self._record(command, loop)

        self._worker.ask("resume", apply)

    def advance(self, n: int = 1) -> None:
        """Do `n` more steps, then pause; returns when they are in the history.

        A later pause, stop or advance ends it early, as does the end of the run.

        Raises:
            RunError: `n` is not a positive whole number, or the run is over.
        """
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise RunError(
                f"advance({n!r}): not a number of steps",
                where=f"run {self.id}",
                fix="advance(1)",
            )

        def apply(loop: Loop, command: Command) -> Any:
            loop.advance.begin(command, loop.step + n)
            loop.paused, loop.trouble = False, None
            self._record(command, loop, after=n)
            return LATER

        self._worker.ask("advance", apply)

    def stop(self) -> None:
        """End the run at the next step boundary; its state stays readable."""

        def apply(loop: Loop, command: Command) -> None:
            loop.stopping = True
            loop.advance.end()
            self._record(command, loop)

        if self.live:
            with contextlib.suppress(RunError):  # it has just ended
                self._worker.post("stop", apply, urgent=True)
            if self._worker.waits:
                self._worker.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run ends; an interrupt ends the waiting, not the run.

        Returns:
            Whether the run has ended.

        Raises:
            NitroError: The run failed.
        """
        try:
            ended = self._worker.wait(timeout)
        except KeyboardInterrupt:
            tell(
                f"stopped waiting; run {self.id} goes on ({self.progress()}). "
                "run.stop() ends it."
            )
            return False
        if ended and self.exception is not None:
            raise self.exception
        return ended

    def set(
        self,
        changes: Mapping[str, Any] | None = None,
        /,
        *,
        override: bool = False,
        **values: Any,
    ) -> None:
        """Change Device fields or hyperparameters from the next step on.

        The setting `on_nonfinite`, too: what a step does that is not finite.

        Args:
            changes: Names and values, for names that are no identifiers.
            override: Set a value that follows a schedule, too; it stays as set until
                `unset` gives it back to the schedule.
            **values: The same as keywords.

        Raises:
            FieldError: A name or value is refused; then nothing changes.
            RunError: The run is over.

        Example:
            >>> run.set(smoothing=0.1, learning_rate=3e-4)
        """
        wanted = wishes(changes, values, f"run {self.id}")

        change = partial(set_values, wanted=wanted, override=override)
        self._worker.ask("set", self._journaled(change))

    def unset(self, name: str) -> None:
        """Give a value back to its schedule, or to what the experiment says.

        Raises:
            FieldError: There is no such value.
            RunError: The run is over.
        """
        self._worker.ask("unset", self._journaled(partial(unset_value, name=name)))

    def swap(
        self,
        *programs: str,
        wait: bool = True,
        undo: bool = False,
        **hooks: Callable[..., Any],
    ) -> Reasons | None:
        """Compile edited code while the old programs step, then switch at a boundary.

        A run that has ended switches before this returns; `handle.train()` then goes
        on with the new code.

        Args:
            *programs: Take the hooks of these programs only; all if none is named.
            wait: Return after the switch; else at once, and the switch is reported.
            undo: Go back to the programs before the last swap.
            **hooks: Functions bound to this run alone, by hook name.

        Raises:
            SwapError: The edit does not fit the run; the old programs go on.
            HookError: The new code does not trace; the old programs go on.
            RunError: The run has ended, and its handle goes on with another.

        Example:
            >>> run.swap()
            >>> run.swap("loss", wait=False)
        """
        if not self._worker.waits:
            wait = False  # a hook would wait for itself
        elif self.phase in ENDED:
            self._worker.wait()  # its last words are said a moment before its end
            wait = True
        return self._swapper.request(programs, hooks, undo=undo, wait=wait)

    def load(self, weights: nnx.Module | Mapping[str, Any]) -> None:
        """Write parameters into the run: a module, or nested dicts like `run.params`.

        A module's other state (BatchNorm statistics) is taken too, if it has the same.

        Raises:
            ModelError: Paths, shapes or dtypes differ.
            RunError: The run is over.
        """

        def apply(loop: Loop, command: Command) -> None:
            structure = loop.programs.blueprint.structure
            loop.carry = leaves_of(weights, structure, loop.carry, loop.values.device)
            self._record(command, loop, after=type(weights).__name__)

        self._worker.ask("load", apply)

    def call(self, name: str, /, **inputs: Any) -> Any:
        """`Nitro.call` on the live state of one step boundary.

        Example:
            >>> run.call("sample", prompt=x, temperature=0.8)
        """
        with evaluating(self, None) as (state, evaluation):
            return call(state, evaluation.programs, name, inputs)

    def every(
        self,
        function: Callable[[Run], Any],
        *,
        steps: int | None = None,
        seconds: float | None = None,
    ) -> Listener:
        """Call a function with the run, every so many steps or seconds.

        It is called between two steps, by the run itself: it may look at the run, and
        what it asks of it is done after it. While it works the run waits. Adding a
        function of the same name again replaces the first. One that raises is warned
        about and dropped.

        Args:
            function: Takes the run.
            steps: Call it after each step whose number this divides.
            seconds: Call it when so much time has passed, while the run steps.

        Returns:
            A `Listener`, whose `cancel()` ends it.

        Raises:
            RunError: Neither or both of `steps` and `seconds` are given, or one is not
                positive.

        Example:
            >>> run.every(lambda run: print(run.call("sample")), steps=500)
        """
        return self.listeners.every(function, steps, seconds)

    def on(self, event: str, function: Callable[[Run], Any]) -> Listener:
        """Call a function with the run at each event of a kind.

        Args:
            event: "step" (after a step), "eval" (after an evaluation of the run),
                "pause", "end", or "phase" (when `run.phase` has changed).
            function: Takes the run; called as one of `every` is.

        Returns:
            A `Listener`, whose `cancel()` ends it.

        Raises:
            RunError: There is no such event.

        Example:
            >>> run.on("eval", lambda run: print(run.history("val")["val_loss"][-1]))
        """
        return self.listeners.on(event, function)

    # ---- for what watches the user's code

    def follow(self) -> None:
        """Start a swap to the newest code, which reports what came of it.

        Raises:
            RunError: The run is over.
        """
        self._swapper.request(by="auto")

    def follow_unseen(self) -> None:
        """Have traced anew what only a trace can compare; a swap takes what differs."""
        self._unseen.follow()

    # ---- for the handle

    def begin(self, *, paused: bool, foreground: bool) -> None:
        """Start the worker, or go on if there is one."""
        self._life.begin(self._worker, paused=paused, foreground=foreground)

    def in_foreground(self) -> None:
        """Wait as a script does, with a line of progress in a terminal."""
        with terminal_line(self):
            self._life.wait_in_foreground(self._worker)

    def reschedule(self, horizon: int) -> None:
        """Make the schedules anew, for another number of optimizer steps.

        Raises:
            ScheduleError: A schedule refuses it; the old ones go on.
        """
        change = partial(reschedule, horizon=horizon)
        command = Command("horizon", self._journaled(change), asker())
        self._worker.hand_over(command)
        command.reply.result()

    def extend(self, steps: int | None) -> None:
        """Let a run that has done all its steps do as many again."""
        self._loop.max_steps = None if steps is None else self._loop.step + steps

    def asker(self) -> Asker:
        """Who looks a program up, for the events."""
        name = type(self.handle.experiment).__name__
        asker = Asker(name, self.id, self._loop.step)
        if not self._worker.is_here:  # what others look up is no phase of the run
            return asker
        return replace(asker, on_phase=self.set_phase)

    def set_phase(self, phase: str) -> None:
        """Say what the run does; its end is the last word."""
        self._life.set_phase(phase)

    def _end(self, error: BaseException | None) -> None:
        """Write down how it ended, on the worker."""
        self._life.end(error)
        self._swapper.end()
        self.record.end(self.phase, self._loop.step)

    def _journaled(
        self, change: Callable[[Loop], Change]
    ) -> Callable[[Loop, Command], None]:
        """A change of values as a command: done, then written down."""

        def apply(loop: Loop, command: Command) -> None:
            before, after = change(loop)
            self._record(command, loop, before=before, after=after)

        return apply

    def _record(self, command: Command, loop: Loop, **values: Any) -> None:
        self.journal.record(command.name, step=loop.step, by=command.by, **values)
