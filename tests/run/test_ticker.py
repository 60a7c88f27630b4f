from __future__ import annotations

import contextvars
import io
import threading
import time

import pytest

from nitro_repl._run.status import Progress
from nitro_repl._run.ticker import Ticker, TtyLine, stop_all, terminal_line

WAIT_S = 10.0


class FakeRun:
    """A run whose step moves on each time it is asked."""

    id = "fake-1"

    def __init__(self):
        self.ended = threading.Event()
        self.asked = 0

    @property
    def live(self):
        return not self.ended.is_set()

    def progress(self):
        self.asked += 1
        return Progress(step=self.asked, phase="stepping" if self.live else "done")


class Recorder:
    """A sink that keeps its lines and tells when enough have come."""

    def __init__(self, enough=1):
        self.lines, self.times, self.last = [], [], None
        self.enough, self.came, self.closed = (
            enough,
            threading.Event(),
            threading.Event(),
        )

    def update(self, line):
        self.lines.append(line)
        self.times.append(time.monotonic())
        if len(self.lines) >= self.enough:
            self.came.set()

    def close(self, line):
        self.last = line
        self.closed.set()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines_come_at_most_four_times_a_second_and_the_last_one_is_true():
    run, sink = FakeRun(), Recorder(enough=4)
    Ticker(run, sink).start()
    assert len(sink.lines) == 1, "the first line is shown before start returns"
    assert sink.came.wait(WAIT_S)
    run.ended.set()
    assert sink.closed.wait(WAIT_S)
    assert sink.last == f"step {run.asked}  epoch 0  done"
    assert sink.times[-1] - sink.times[0] >= 0.25 * (len(sink.times) - 1) * 0.95


def test_a_run_that_stands_still_sends_nothing():
    run, sink = FakeRun(), Recorder()
    asked = threading.Semaphore(0)

    def standing():
        asked.release()
        return Progress(step=7, phase="paused")

    run.progress = standing
    ticker = Ticker(run, sink).start()
    for _ in range(3):
        assert asked.acquire(timeout=WAIT_S)
    ticker.stop()
    assert len(sink.lines) == 1


def test_a_failing_sink_is_warned_about_once_and_the_run_goes_on():
    run = FakeRun()

    class Broken(Recorder):
        def update(self, line):
            raise OSError("no screen")

    with pytest.warns(RuntimeWarning, match=r"fake-1.*no screen.*the run goes on") as w:
        Ticker(run, Broken()).start()
    assert len(w) == 1
    assert run.live


def test_the_thread_runs_in_the_context_of_its_starter():
    cell = contextvars.ContextVar("cell", default="none")
    run, sink = FakeRun(), Recorder(enough=2)
    seen = []
    sink_update = sink.update
    sink.update = lambda line: (seen.append(cell.get()), sink_update(line))
    cell.set("starting cell")
    ticker = Ticker(run, sink).start()
    cell.set("another cell")
    assert sink.came.wait(WAIT_S)
    ticker.stop()
    assert seen[1:] == ["starting cell"] * (len(seen) - 1)


def test_stop_all_ends_the_lines_of_live_runs():
    run, sink = FakeRun(), Recorder()
    Ticker(run, sink).start()
    stop_all()
    assert sink.closed.is_set()
    assert run.live


def test_a_terminal_line_overwrites_itself_and_ends_with_a_newline():
    run, screen = FakeRun(), Terminal()
    with terminal_line(run, screen):
        run.ended.set()
    text = screen.getvalue()
    assert text.startswith("\rstep 1  epoch 0  stepping\rstep 2  epoch 0  done")
    assert text.endswith("\n")


def test_a_shorter_line_covers_the_longer_one_before():
    screen = Terminal()
    line = TtyLine(screen)
    line.update("longer line")
    line.close("short")
    assert screen.getvalue() == "\rlonger line\rshort      \n"


def test_no_terminal_no_output():
    run, stream = FakeRun(), io.StringIO()
    with terminal_line(run, stream):
        pass
    assert stream.getvalue() == ""
