"""Shows the progress of a run on one line that is refreshed a few times a second.

A sink that fails is warned about once and dropped; the run never notices.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import sys
import threading
from collections.abc import Iterator
from typing import Any, Protocol, TextIO

from .._text import said, warn, write

REFRESH_S = 0.25
_JOIN_S = 2.0


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

    The thread runs in a copy of the caller's context, so that what it shows belongs
    to the cell that made it.

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
        self._ending = threading.Event()
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._copy,),
            name="nitro-progress",
            daemon=True,
        )

    def start(self) -> Ticker:
        """Show the first line at once, the others from the thread."""
        if self._turn():
            _tickers.add(self)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Show the last line and end the thread, though the run may go on."""
        self._ending.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def _copy(self) -> None:
        going = True
        while going:
            self._ending.wait(self._refresh)
            going = self._turn()
        _tickers.discard(self)

    def _turn(self) -> bool:
        """Show the line of this moment; false when it was the last."""
        try:
            # Asked before the line is made: a run that ends in between is live here
            # and gets a turn more, so that the last line has the last values.
            live = self.run.live and not self._ending.is_set()
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


_tickers: set[Ticker] = set()


def stop_all() -> None:
    """End every progress line of this process."""
    for ticker in list(_tickers):
        ticker.stop()


# A thread that still writes while the interpreter ends can abort the process.
atexit.register(stop_all)
