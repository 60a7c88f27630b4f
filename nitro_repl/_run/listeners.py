"""Host code that goes along with a run: called on its worker, between two steps.

One that raises is warned about and dropped; the run never notices.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._programs.frames import user_frames
from .._text import said, warn
from .._where import place
from ..errors import RunError, suggest

if TYPE_CHECKING:
    from .loop import Loop

EVENTS = ("step", "eval", "pause", "end", "phase")
"""What `run.on` listens to."""


class Listener:
    """A function that goes along with a run, until `cancel` is called.

    Attributes:
        event: What it waits for.
        live: Whether it is still called.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        event: str,
        steps: int | None = None,
        seconds: float | None = None,
    ):
        self.function = function
        self.event = event
        self.live = True
        self._steps = steps
        self._seconds = seconds
        self._last = time.monotonic()

    def cancel(self) -> None:
        """Never call it again; may be said twice, and by the function itself."""
        self.live = False

    def due(self, step: int) -> bool:
        """Whether it is time, after so many steps."""
        if self._steps is not None:
            return step % self._steps == 0
        if self._seconds is None:
            return True
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True

    def replaces(self, other: Listener) -> bool:
        """Whether this is the function of a cell that ran again."""
        mine, its = self.function, other.function
        name = getattr(mine, "__qualname__", "<")
        return self.event == other.event and (
            mine is its
            or (
                "<" not in name  # a lambda, or one of many that a function makes
                and name == getattr(its, "__qualname__", "")
                and getattr(mine, "__module__", 0) == getattr(its, "__module__", 1)
            )
        )

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        when = f"on {self.event}"
        if self._steps is not None:
            when = f"every {self._steps} steps"
        elif self._seconds is not None:
            when = f"every {self._seconds:g} s"
        return f"<Listener {name}: {when}{'' if self.live else ', cancelled'}>"


class Listeners:
    """All functions that go along with one run.

    Args:
        run: What they are given.
    """

    def __init__(self, run: Any):
        self._run = run
        self._held: tuple[Listener, ...] = ()
        self._changing = threading.Lock()
        self._busy = False

    def every(self, function: Any, steps: Any, seconds: Any) -> Listener:
        """Have a function called every so often."""
        if (steps is None) == (seconds is None):
            raise _refused(
                "every() needs either steps= or seconds=", "run.every(fn, steps=100)"
            )
        if steps is not None and (
            not isinstance(steps, int) or isinstance(steps, bool) or steps < 1
        ):
            raise _refused(
                f"steps={steps!r} is no number of steps", "run.every(fn, steps=100)"
            )
        if seconds is not None and (
            not isinstance(seconds, int | float) or not seconds > 0
        ):
            raise _refused(
                f"seconds={seconds!r} is no time", "run.every(fn, seconds=30)"
            )
        return self._add(Listener(function, "every", steps, seconds))

    def on(self, event: Any, function: Any) -> Listener:
        """Have a function called at each event of a kind."""
        if event not in EVENTS:
            raise _refused(f"there is no event {event!r}", suggest(str(event), EVENTS))
        return self._add(Listener(function, event))

    def stepped(self, loop: Loop) -> None:
        """A step was begun; its numbers are read only for who listens."""
        if not self._held or self._busy:
            return
        due = [
            one
            for one in self._held
            if one.live and one.event in ("every", "step") and one.due(loop.step)
        ]
        if not due:
            return
        step = loop.step
        loop.read(0)
        if loop.step == step:  # else it was not finite, and is taken back
            self._call(due)

    def emit(self, event: str) -> None:
        """Tell all that listen to an event."""
        if self._held and not self._busy:
            self._call([one for one in self._held if one.event == event])

    def _add(self, made: Listener) -> Listener:
        if not callable(made.function):
            raise _refused(
                f"{type(made.function).__name__} is no function",
                "give a function of one argument, the run",
            )
        with self._changing:
            kept = [one for one in self._held if one.live and not made.replaces(one)]
            for one in self._held:
                if one not in kept:
                    one.cancel()
            self._held = (*kept, made)
        return made

    def _call(self, due: list[Listener]) -> None:
        self._busy = True  # what it does itself is no event for others
        try:
            for one in due:
                if one.live:
                    self._call_one(one)
        finally:
            self._busy = False

    def _call_one(self, one: Listener) -> None:
        try:
            one.function(self._run)
        except BaseException as error:
            one.cancel()
            where = user_frames(error.__traceback__) or (f"  {place(one.function)}",)
            warn(
                f"{one!r} of run {self._run.id} raised {said(error)}; "
                "it is dropped, the run goes on\n" + "\n".join(where)
            )


def _refused(what: str, fix: str) -> RunError:
    return RunError(what, where="run.every, run.on", fix=fix)
