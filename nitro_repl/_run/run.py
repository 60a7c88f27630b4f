"""A live run: one worker thread, and the verbs that anyone may say to it.

Every verb is a command that the worker applies at a step boundary, so no reader sees half
a step and nothing a caller does can touch live buffers.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
from flax import nnx

from .._programs.model import copies
from .._programs.spec import Asker
from ..errors import NitroError, RunError
from . import registry
from .commands import LATER, Command, Mailbox
from .evaluation import State
from .failure import describe, tell
from .journal import Journal
from .loading import leaves_of
from .loop import Loop
from .status import HistoryView, ProgramState, Progress, Status, ValueRow
from .surroundings import Surroundings
from .swap import Swapper

if TYPE_CHECKING:
    from .nitro import Nitro

_JOIN_S = 3.0
ENDED = ("done", "stopped", "failed")


class Run:
    """One training run of a handle; made by `Nitro.train`.

    Attributes:
        id: Name of its directory.
        handle: The `Nitro` it came from.
        exception: What ended it, None while all is well.
        phase: "starting", "compiling <program>", "stepping", "evaluating", "paused",
            and at the end "done", "stopped" or "failed".
    """

    def __init__(self, handle: Nitro):
        self.handle = handle
        self.directory = handle.new_directory()
        self.id = self.directory.id
        self.journal = Journal(self.directory.file("journal.jsonl"))
        self.phase = "starting"
        self.exception: BaseException | None = None
        self.note = ""
        self._foreground = False
        self._mailbox = Mailbox()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._verbs = threading.RLock()
        self._loop = handle.new_loop(self)
        self._swapper = Swapper(self)
        registry.add(self)

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
            loop.end_advance()
            self._record(command, loop)

        self._ask("pause", apply, urgent=True)

    def resume(self) -> None:
        """Go on after a pause.

        Raises:
            RunError: The run is over.
        """

        def apply(loop: Loop, command: Command) -> None:
            loop.paused = False
            self._record(command, loop)

        self._ask("resume", apply)

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
            loop.end_advance()
            loop.until = loop.step + n
            loop.advance = command
            loop.paused = False
            self._record(command, loop, after=n)
            return LATER

        self._ask("advance", apply)

    def stop(self) -> None:
        """End the run at the next step boundary; its state and history stay readable."""

        def apply(loop: Loop, command: Command) -> None:
            loop.stopping = True
            loop.end_advance()
            self._record(command, loop)

        if self.live:
            self._ask("stop", apply, urgent=True)
            if threading.current_thread() is not self._thread:
                self._ended.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run ends; an interrupt ends the waiting, not the run.

        Returns:
            Whether the run has ended.

        Raises:
            NitroError: The run failed.
        """
        try:
            ended = self._ended.wait(timeout)
        except KeyboardInterrupt:
            tell(
                f"stopped waiting; run {self.id} goes on ({self.progress()}). run.stop() ends it."
            )
            return False
        if ended and self.exception is not None:
            raise self.exception
        return ended

    def set(self, changes: Mapping[str, Any] | None = None, /, **values: Any) -> None:
        """Change Device fields or hyperparameters from the next step on, without compiling.

        Args:
            changes: Names and values, for names that are no identifiers.
            **values: The same as keywords.

        Raises:
            FieldError: A name or value is refused; then nothing changes.
            RunError: The run is over.

        Example:
            >>> run.set(smoothing=0.1, learning_rate=3e-4)
        """
        wanted = {**(changes or {}), **values}
        if not wanted:
            raise RunError(
                "set() needs at least one value",
                where=f"run {self.id}",
                fix="run.set(name=value)",
            )

        def apply(loop: Loop, command: Command) -> None:
            before, after = loop.values.set(wanted)
            self._record(command, loop, before=before, after=after)

        self._ask("set", apply)

    def unset(self, name: str) -> None:
        """Give a value back to what the experiment says.

        Raises:
            FieldError: There is no such value.
            RunError: The run is over.
        """

        def apply(loop: Loop, command: Command) -> None:
            initial = loop.values.initial.get(name)
            before, after = loop.values.set({name: initial})
            self._record(command, loop, before=before, after=after)

        self._ask("unset", apply)

    def swap(
        self,
        *programs: str,
        wait: bool = True,
        undo: bool = False,
        **hooks: Callable[..., Any],
    ) -> None:
        """Take edited code: compile it while the old programs step, then switch at a boundary.

        Args:
            *programs: Take the hooks of these programs only; all if none is named.
            wait: Return after the switch; else at once, and the switch is reported.
            undo: Go back to the programs before the last swap.
            **hooks: Functions bound to this run alone, by hook name.

        Raises:
            SwapError: The edit does not fit the run; the old programs go on.
            HookError: The new code does not trace; the old programs go on.

        Example:
            >>> run.swap()
            >>> run.swap("loss", wait=False)
        """
        self._swapper.request(programs, hooks, undo=undo, wait=wait)

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

        self._ask("load", apply)

    # ---- looking

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return self._loop.step

    @property
    def epoch(self) -> int:
        """Whole epochs done."""
        return self._loop.epoch

    @property
    def live(self) -> bool:
        """Whether a worker is there."""
        return self._thread is not None and not self._ended.is_set()

    @property
    def stale(self) -> tuple[str, ...]:
        """Programs whose code has moved on since they were made; looked up now."""
        return self._swapper.stale()

    def history(self, split: str = "train") -> HistoryView:
        """The recorded columns of a split: numpy arrays by name.

        The split "train" has a row per step: step, epoch, loss, train metrics,
        grad_norm, learning_rate; any other a row per evaluation.
        """
        return HistoryView(self._loop.history.columns(split), split)

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of one step boundary: nested dict of numpy copies."""
        structure = self._loop.programs.blueprint.structure
        return structure.nested(copies(self._look(lambda loop: loop.carry.params)))

    def model(self) -> nnx.Module:
        """A fresh module in eval mode with copies of one step boundary's numbers."""
        structure = self._loop.programs.blueprint.structure
        params, state = self._look(lambda loop: (loop.carry.params, loop.carry.state))
        return structure.merge(
            jax.device_put(list(params)), jax.device_put(list(state)), training=False
        )

    def progress(self) -> Progress:
        """How far the run is; cheap, from any thread."""
        loop = self._loop
        total, epochs = loop.max_steps, self.handle.settings["max_epochs"]
        rate = loop.rate
        left = (total - loop.step) / rate if total is not None and rate else None
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
        )

    def status(self) -> Status:
        """The run at this moment: progress, values, programs, metrics, error."""
        values = self._loop.values
        initial, now = values.initial, values.plain()
        rows = [
            ValueRow(
                name,
                now[name],
                initial.get(name),
                _differs(now[name], initial.get(name)),
            )
            for name in now
        ]
        stale = self.stale
        names = dict.fromkeys(program.name for program in self._loop.programs.programs)
        outcomes = {
            event.program: event.outcome
            for event in self.handle.cache.events()
            if event.run == self.id
        }
        return Status(
            run=self.id, experiment=type(self.handle.experiment).__name__, progress=self.progress(),
            values=rows, programs=[ProgramState(n, outcomes.get(n, ""), n in stale) for n in names],
            metrics=self._loop.history.last("val"),
            error=str(self.exception) if self.exception else "",
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<Run {self.id} of {type(self.handle.experiment).__name__}: {self.progress()}>"

    def state(self) -> tuple[State, Any]:
        """Copies of one boundary's numbers for an evaluation, and the programs to use."""

        params, state, fields = self._look(
            lambda loop: (loop.carry.params, loop.carry.state, loop.values.field_leaves)
        )
        return State(
            params, state, fields, self._loop.key, self._loop.values.device
        ), self._loop.programs

    # ---- the worker

    def begin(self, *, paused: bool, foreground: bool) -> None:
        """Start the worker, or go on if there is one."""
        with self._verbs:
            if self.live:
                if not paused:
                    self.resume()
                return
            loop = self._loop
            loop.paused, loop.stopping = paused, False
            self.exception = None
            self.phase = "starting"
            self._foreground = foreground
            self._ended.clear()
            self._mailbox.open()
            self._thread = threading.Thread(
                target=Surroundings().run,
                args=(self._work,),
                name=f"nitro-run-{self.id}",
                daemon=True,
            )
            _live.add(self)
            self._thread.start()

    def in_foreground(self) -> None:
        """Wait as a plain script does: an interrupt stops gracefully, a second one aborts."""
        try:
            self._ended.wait()
        except KeyboardInterrupt:
            tell(f"stopping run {self.id} at the next step; interrupt again to abort")
            self.stop()
        if self.exception is not None:
            raise self.exception

    def halt(self) -> None:
        """Stop without waiting for an answer, then wait a little for the worker."""
        self._loop.stopping = True
        self._mailbox.put(
            Command(
                "stop",
                lambda loop, command: setattr(loop, "stopping", True),
                urgent=True,
            )
        )
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def asker(self) -> Asker:
        """Who looks a program up, for the events."""
        return Asker(
            type(self.handle.experiment).__name__,
            self.id,
            self._loop.step,
            self._set_phase,
        )

    def _work(self) -> None:
        loop = self._loop
        try:
            loop.run()
            self.phase = "stopped" if loop.stopping else "done"
        except BaseException as error:
            self._fail(error)
        finally:
            self._close()

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, NitroError):
            error.__traceback__ = None
        self.exception = error
        self.phase = "failed"
        if self._loop.advance is not None:
            self._loop.advance.refuse(error)
        self._loop.advance = self._loop.until = None
        if not self._foreground:
            tell(
                f"run {self.id} stopped at step {self._loop.step}; its state is kept.\n{describe(error)}",
                bad=True,
            )

    def _close(self) -> None:
        self._loop.end_advance()
        with contextlib.suppress(Exception):
            self.handle.flush_logger()
        self.directory.finish(self.phase, step=self._loop.step)
        self._mailbox.close(
            f"run {self.id} is over ({self.phase} at step {self._loop.step})"
        )
        _live.discard(self)
        self._ended.set()

    def _set_phase(self, phase: str) -> None:
        if self.phase not in ENDED:  # an evaluation may compile after the end
            self.phase = phase

    # ---- asking

    def _ask(
        self, name: str, apply: Callable[[Loop, Command], Any], *, urgent: bool = False
    ) -> Any:
        """Have the worker do something at a boundary, and wait for the answer."""
        command = Command(name, apply, _by(), urgent)
        if not self._mailbox.put(command):
            raise RunError(
                f"run {self.id} is over ({self.phase} at step {self._loop.step})",
                where=name,
                fix="run.handle.train() goes on from its last state",
            )
        if threading.current_thread() is self._thread:
            return None  # a hook asks: the answer would never come while it waits
        return command.reply.result()

    def _look(self, read: Callable[[Loop], Any]) -> Any:
        """Copies of what `read` gives at a boundary, on the device."""

        def apply(loop: Loop, command: Command) -> Any:
            return _device_copies(read(loop))

        if threading.current_thread() is self._thread:
            return apply(self._loop, Command("look", apply))
        command = Command("look", apply, urgent=True)
        if self._mailbox.put(command):
            try:
                return command.reply.result()
            except RunError:
                pass  # it ended before it came to this; nothing moves any more
        self._ended.wait()
        return apply(self._loop, command)

    def _record(self, command: Command, loop: Loop, **values: Any) -> None:
        self.journal.record(command.name, step=loop.step, by=command.by, **values)


_live: set[Run] = set()


@atexit.register
def _stop_all() -> None:
    """A thread that is inside XLA while the interpreter ends would abort the process."""
    for run in list(_live):
        run.halt()


def live_runs() -> tuple[Run, ...]:
    """Runs that have a worker."""
    return tuple(_live)


def _device_copies(value: Any) -> Any:
    return jax.tree.map(_copy, value)


def _copy(leaf: Any) -> Any:
    return jax.device_put(
        leaf, may_alias=False
    )  # `.copy()` would compile, once per shape


def _differs(now: Any, initial: Any) -> bool:
    try:
        return bool(now != initial)
    except ValueError:
        return False  # arrays: nothing short to say


def _by() -> str:
    """Who asks, as the journal says it."""
    return (
        "cell"
        if getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        else "python"
    )
