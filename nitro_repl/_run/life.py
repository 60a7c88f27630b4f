"""The life of a run: its starts, its phases, and how it ended."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from .._text import tell
from ..errors import NitroError, RunError
from . import registry
from .failure import describe
from .loop import Loop
from .status import ENDED
from .worker import Worker

if TYPE_CHECKING:
    from .run import Run

_STANDS_S = 1.0  # if it compiles for longer, it goes on doing so behind the prompt


class Life:
    """From the first start of a run to its end; it may start again after that.

    Args:
        run: The run.
        loop: What it steps; touched while no worker does, or on it.

    Attributes:
        phase: "starting", "compiling <program>", "stepping", "evaluating", "paused",
            and at the end "done", "stopped" or "failed".
        exception: What ended it, None while all is well.
    """

    def __init__(self, run: Run, loop: Loop):
        self.phase = "starting"
        self.exception: BaseException | None = None
        self._run = run
        self._loop = loop
        self._foreground = False
        self._published = ""
        self._starting = threading.Lock()

    def begin(self, worker: Worker, *, paused: bool, foreground: bool) -> None:
        """Start the worker, or go on if there is one."""
        with self._starting:
            if worker.live:
                if not paused:
                    self._run.resume()
                return
            self._loop.paused, self._loop.stopping = paused, False
            self._loop.trouble = None
            self._foreground, self._loop.attended = foreground, not foreground
            self.exception = None
            self.phase = "starting"
            registry.add(self._run)
            worker.start()
        if paused and not foreground:
            _stand(worker)

    def set_phase(self, phase: str) -> None:
        """Say what the run does; its end is the last word."""
        if self.phase not in ENDED:
            self.phase = phase
            self._publish()

    def wait_in_foreground(self, worker: Worker) -> None:
        """Wait as a script does: an interrupt stops gracefully, a second one aborts."""
        try:
            worker.wait()
        except KeyboardInterrupt:
            run = self._run.id
            tell(f"stopping run {run} at the next step; interrupt again to abort")
            self._run.stop()
        if self.exception is not None:
            raise self.exception

    def end(self, error: BaseException | None) -> None:
        """Take note of how it ended, on the worker, and tell who listens."""
        if error is None:
            self.phase = "stopped" if self._loop.stopping else "done"
            self._loop.advance.end()
        else:
            self._fail(error)
        self._publish()
        self._run.listeners.emit("end")

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, NitroError):
            error.__traceback__ = None  # our frames; the user's are in its cause
        self.exception, self.phase = error, "failed"
        self._loop.advance.end(error)
        if not self._foreground:
            step = self._loop.step
            self._run.log.tell(
                f"run {self._run.id} failed at step {step}; its state is kept.\n"
                f"{describe(error)}",
                bad=True,
            )

    def _publish(self) -> None:
        """Tell who listens to phases of a new one, on the worker."""
        if self.phase != self._published:
            self._published = self.phase
            self._run.listeners.emit("phase")


def _stand(worker: Worker) -> None:
    """Wait a moment for a paused start: what comes next then finds it standing."""
    with contextlib.suppress(RunError, TimeoutError):
        reply = worker.post("train", lambda loop, command: None)
        reply.result(_STANDS_S)
