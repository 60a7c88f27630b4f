"""What cannot be shown hurts no run, and keeps nobody waiting."""

from __future__ import annotations

import io
import json
import sys

import pytest
from cells import in_thread, live, tiny, until

import nitro_repl as nitro
from nitro_repl._text import said, tell, warn

FAILS = """
@Tiny.hook
def finalize_metrics(self, totals, split):
    raise Unspeakable
class Unspeakable(Exception):
    def __str__(self):
        raise TypeError("no text")
"""
COMPUTED = """
FACTOR = 2.0
@Tiny.hook
def loss(self, logits, *, y):
    return logits.mean() * eval("FACTOR")
"""
NOT_FINITE = """
@Tiny.hook
def loss(self, logits, *, y):
    return logits.mean() * float("nan")
"""


class Broken(io.TextIOBase):
    """A stream that refuses all that is written."""

    def __init__(self, error):
        self.error = error

    def write(self, text):
        raise self.error


def ascii_stream():
    return io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True)


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS = {
    "closed": closed,
    "broken pipe": lambda: Broken(BrokenPipeError(32, "Broken pipe")),
    "front end": lambda: Broken(RuntimeError("no front end")),
    "none": lambda: None,
    "ascii": ascii_stream,
}


@pytest.fixture(params=STREAMS)
def streams(request, monkeypatch):
    made = STREAMS[request.param]()
    monkeypatch.setattr(sys, "stdout", made)
    monkeypatch.setattr(sys, "stderr", made)
    return made


def test_nothing_that_is_said_raises(streams):
    tell("loss: é → 0.2")
    tell("loss: é → 0.2", bad=True)
    warn("it goes on…")


def test_what_a_stream_cannot_show_is_spelled_out(monkeypatch):
    stream = ascii_stream()
    monkeypatch.setattr(sys, "stdout", stream)
    tell("loss: é\udcff")
    assert stream.buffer.getvalue() == b"loss: \\xe9\\udcff\n"


def test_who_waits_for_a_swap_is_answered(streams):
    book = tiny()
    with live(book) as run:
        book.cell(COMPUTED)
        lines = in_thread(run.swap)()
        assert lines[0].startswith("switched at step 2")
        assert any("without tracing" in line.text for line in run.log.since(0)[0])
        book.cell("@Tiny.hook\ndef loss(self, logits, *, y):\n    return nowhere")
        with pytest.raises(nitro.NitroError, match="nowhere"):
            in_thread(run.swap)()


def test_a_swap_that_nobody_waits_for_comes_to_its_end(streams):
    book = tiny()
    with live(book) as run:
        for cell in (COMPUTED, "@Tiny.hook\ndef loss(self, logits, *, y):\n    oh"):
            book.cell(cell)
            before = run.log.since(0)[1]
            run.swap(wait=False)
            run.swap(wait=False)  # a newer one replaces it
            until(lambda: not run.swapping)
            until(lambda b=before: run.log.since(b)[0])
        run.advance(1)


def test_a_failure_is_written_down_whatever_cannot_be_said_of_it(streams, tmp_path):
    book = tiny(FAILS)
    run = book.handle(
        run_dir=tmp_path,
        max_steps=5,
        eval_every="1 step",
    ).train(background=True)
    with pytest.raises(nitro.HookError, match="Unspeakable"):
        run.wait(60)
    assert run.phase == "failed"
    (record,) = tmp_path.glob("*/*/run.json")
    assert json.loads(record.read_text())["outcome"] == "failed"


def test_the_guard_pauses_where_nothing_can_be_shown(streams):
    with live(tiny(NOT_FINITE), steps=0, on_nonfinite="pause") as run:
        with pytest.raises(nitro.NonFiniteError):
            run.advance(1)
        until(lambda: run.phase == "paused")
        run.set(smoothing=0.2)


def test_warnings_that_are_errors_end_no_run():
    class Refuses:
        def __getattr__(self, verb):
            return self.refuse

        def refuse(self, *arguments, **keywords):
            raise OSError("the disk is full")

    # The filters of the tests make an error of each warning.
    with pytest.raises(RuntimeWarning):
        __import__("warnings").warn("a control", RuntimeWarning, 1)
    run = tiny().train(logger=Refuses())
    assert run.step == 2


def test_an_exception_that_cannot_say_itself_is_named():
    class MuteError(Exception):
        def __str__(self):
            raise TypeError

    assert said(MuteError()).startswith("MuteError: (its text cannot be made")
    assert said(ValueError("why")) == "ValueError: why"
