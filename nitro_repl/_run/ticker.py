"""Shows the progress of a run on one line that is refreshed a few times a second.

A sink that fails is warned about once and dropped; the run never notices.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Protocol, TextIO

from .._text import said, warn, write
from . import companion

REFRESH_S = 0.25
_THREAD = "nitro-progress"


class Sink(Protocol):
    """Where the line goes."""

    def update(self, line: str) -> None:
        """Show the line of this moment."""
        ...

    def close(self, line: str) -> None:
        """Show the last line and leave."""
        ...


class Ticker:
    """One daemon thread that copies a run's progress to a sink until the run ends.

    Args:
        run: Anything with `id`, `live` and `progress()`.
        sink: Where the line goes.
        refresh: Seconds between two lines, at least.
    """

    def __init__(self, run: Any, sink: Sink, refresh: float = REFRESH_S):
        self.run = run
        self._sink = sink
        self._refresh = max(refresh, REFRESH_S)
        self._shown = ""
        self._thread = companion.Companion(self._copy, _THREAD)

    def start(self) -> Ticker:
        """Show the first line at once, the others from the thread."""
        if self._turn():
            self._thread.start()
        return self

    def stop(self) -> None:
        """Show the last line and end the thread, though the run may go on."""
        self._thread.stop()

    def _copy(self) -> None:
        going = True
        while going:
            self._thread.ending.wait(self._refresh)
            going = self._turn()

    def _turn(self) -> bool:
        """Show the line of this moment; false when it was the last."""
        try:
            # Asked before the line is made: a run that ends in between is live here
            # and gets a turn more, so that the last line has the last values.
            live = self.run.live and not self._thread.ending.is_set()
            line = str(self.run.progress())
            if not live:
                self._sink.close(line)
            elif line != self._shown:
                self._sink.update(line)
                self._shown = line
            return live
        except Exception as error:
            warn(
                f"the progress line of run `{self.run.id}` ended: {said(error)}; "
                "the run goes on"
            )
            return False


class TtyLine:
    """A line that overwrites itself at the bottom of a terminal."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._width = 0

    def update(self, line: str) -> None:
        """Overwrite the line."""
        write(self._stream, f"\r{line:<{self._width}}")
        self._width = len(line)

    def close(self, line: str) -> None:
        """Overwrite the line and go to the next."""
        self.update(line)
        write(self._stream, "\n")


@contextlib.contextmanager
def terminal_line(run: Any, stream: TextIO | None = None) -> Iterator[None]:
    """Show a run's progress in the terminal while the body waits for it.

    Nothing is shown where the stream, standard error if not given, is no terminal.
    """
    stream = stream or sys.stderr
    if not stream or not stream.isatty():
        yield
        return
    ticker = Ticker(run, TtyLine(stream)).start()
    try:
        yield
    finally:
        ticker.stop()


def stop_all() -> None:
    """End every progress line of this process."""
    companion.stop_all(_THREAD)
