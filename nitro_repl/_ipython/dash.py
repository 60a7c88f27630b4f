"""The dashboard of a run in a terminal: drawn again and again, or once.

It only looks: the run never notices, and an interrupt ends the looking alone.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console
from rich.live import Live

from .._run.curves import Curves
from .._run.dashboard import Dashboard
from .._run.look import Look
from .._run.run import Run
from .._run.story import Story
from .._text import tell


class Dash:
    """Looks at one run again and again.

    Args:
        run: The run.
    """

    def __init__(self, run: Run):
        self._look = Look(run)
        self._story = Story(run.journal, run.log)
        self._curves = Curves(run.record.history)

    def now(self, room: int | None = None) -> Dashboard:
        """The dashboard of this moment.

        Args:
            room: Lines of the screen; as many as are needed, if not given.
        """
        self._curves.read()
        self._story.fresh(self._curves.results())
        sections, lines = self._look.sections(), list(self._story.lines)
        given = {} if room is None else {"room": room}
        return Dashboard(sections, self._curves.labelled(), lines, **given)

    def moved(self) -> None:
        """The user's code may have moved."""
        self._look.moved()


def watch(run: Run, refresh: float, stream: TextIO | None = None) -> bool:
    """Show the dashboard of a run until it ends or an interrupt comes.

    Args:
        run: The run.
        refresh: Seconds between two drawings.
        stream: Where to; standard output if not given.

    Returns:
        Whether the stream is a terminal; else nothing was shown.
    """
    stream = stream or sys.stdout
    if not stream or not stream.isatty():
        return False
    console = Console(
        file=stream, markup=False, emoji=False, highlight=False, force_jupyter=False
    )
    dash = Dash(run)
    _watched.add(dash)
    try:
        with (
            _interrupts() as interrupted,
            Live(
                dash.now(console.height - 1), console=console, auto_refresh=False
            ) as screen,
        ):
            live = True
            while live and not interrupted.wait(refresh):
                live = run.live  # asked first, so that the last values are shown
                screen.update(dash.now(console.height - 1), refresh=True)
    finally:
        _watched.discard(dash)
    if run.live:
        tell(f"run {run.id} goes on; %nitro dash shows it again, %nitro stop ends it")
    return True


def moved() -> None:
    """The user's code may have moved: tell what is being watched."""
    for dash in list(_watched):
        dash.moved()


_watched: set[Dash] = set()


@contextlib.contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An interrupt sets the event, and breaks nothing off in the middle."""
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: came.set())
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)
