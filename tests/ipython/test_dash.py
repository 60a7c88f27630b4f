from __future__ import annotations

import io
import signal
import threading

import pytest

from nitro_repl._ipython import dash
from nitro_repl._ipython.dash import Dash, watch
from tests.cells import live, tiny


class Screen(io.StringIO):
    """A terminal, as far as it is asked."""

    def __init__(self):
        super().__init__()
        self.reached = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        self.reached.set()
        return super().write(text)


@pytest.fixture(scope="module")
def book():
    return tiny()


def test_a_stream_that_is_no_terminal_shows_nothing(book):
    with live(book) as run:
        stream = io.StringIO()
        assert not watch(run, 0.01, stream)
        assert stream.getvalue() == ""
        assert f"Tiny {run.id}" in repr(Dash(run).now())


def test_it_is_drawn_until_the_run_ends(book, monkeypatch):
    screen = Screen()
    with live(book) as run:
        stopping = threading.Thread(
            target=lambda: (screen.reached.wait(60), run.stop())
        )
        stopping.start()
        assert watch(run, 0.01, screen)
        stopping.join()
    text = screen.getvalue()
    assert -1 < text.rfind("paused") < text.rfind("stopped")
    assert "goes on" not in text


def test_an_interrupt_ends_the_looking_and_not_the_run(book, capsys):
    screen = Screen()
    before = signal.getsignal(signal.SIGINT)
    with live(book) as run:
        pressing = threading.Thread(
            target=lambda: (
                screen.reached.wait(60),
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT),
            )
        )
        pressing.start()
        assert watch(run, 0.01, screen)
        pressing.join()
        assert run.live
        assert "goes on" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_that_failed_shows_the_frames_of_the_user(book):
    run = book.train()
    try:
        raise ValueError("it broke")
    except ValueError as error:
        run._life.exception = error
    shown = repr(Dash(run).now())
    assert "in test_a_run_that_failed" in shown
    assert "ValueError: it broke" in shown


def test_an_edit_is_told_to_what_is_watched(book):
    with live(book) as run:
        looked = Dash(run)
        assert "stale" not in repr(looked.now())
        book.cell("@Tiny.hook\ndef loss(self, logits, *, y): return (logits**2).mean()")
        assert "stale" not in repr(looked.now())
        dash._watched.add(looked)
        dash.moved()
        dash._watched.discard(looked)
        assert "stale" in repr(looked.now())
