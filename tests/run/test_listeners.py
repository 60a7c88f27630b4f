"""Host code that goes along with a run: called between steps, dropped if it raises."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from cells import check_error, live, same, tiny

from nitro_repl import RunError


@pytest.fixture(scope="module")
def book():
    return tiny(
        "class Tiny(Tiny):\n    @nitro.program\n    def twice(self, model, *, x):\n"
        "        return 2 * model(x)\n"
    )


def test_a_function_is_called_every_so_many_steps_with_the_history_read(book):
    seen = []
    with live(book, steps=0) as run:
        run.every(
            lambda run: seen.append((run.step, len(run.history("train")["loss"]))),
            steps=3,
        )
        run.advance(7)
    assert seen == [(3, 3), (6, 6)]


def test_a_function_is_called_every_so_many_seconds(book):
    called = threading.Event()
    handle = book.handle(max_steps=None)
    run = handle.train(background=True)
    run.every(lambda run: called.set(), seconds=1e-3)
    assert called.wait(60)
    run.stop()


def test_events_come_in_order_with_the_numbers_of_their_boundary(book):
    said = []
    run = book.handle(max_steps=4, eval_every=2).train(background=True, paused=True)
    run.on("step", lambda run: said.append(("step", run.step)))
    run.on("eval", lambda run: said.append(("eval", len(run.history("val")["step"]))))
    run.on("pause", lambda run: said.append(("pause", run.step)))
    run.on("end", lambda run: said.append(("end", run.phase)))
    run.advance(3)
    run.pause()
    run.resume()
    run.wait()
    assert [one for one in said if one[0] != "pause"] == [
        ("step", 1), ("step", 2), ("eval", 1), ("step", 3), ("step", 4), ("eval", 2),
        ("end", "done"),
    ]  # fmt: skip
    assert said.index(("pause", 3)) == said.index(("step", 3)) + 1


def test_phases_are_published(book):
    phases = []
    run = book.handle(max_steps=3, eval_every=2).train(background=True, paused=True)
    run.on("phase", lambda run: phases.append(run.phase))
    run.resume()
    run.wait()
    assert phases[-4:] == ["stepping", "evaluating", "stepping", "done"]


def test_one_that_raises_is_warned_about_and_dropped_and_the_run_goes_on(book):
    calls = []

    def monitor(run):
        calls.append(run.step)
        raise ValueError("no chart")

    with live(book, steps=0) as run:
        kept = run.on("step", lambda run: calls.append("kept"))
        bad = run.on("step", monitor)
        with pytest.warns(RuntimeWarning, match="monitor.*no chart.*dropped"):
            run.advance(3)
        assert (kept.live, bad.live) == (True, False)
    assert calls == ["kept", 1, "kept", "kept"]
    assert run.phase == "stopped"


def test_one_that_would_leave_the_process_is_dropped_too(book):
    def leave(run):
        raise SystemExit

    with live(book, steps=0) as run:
        run.on("step", leave)
        with pytest.warns(RuntimeWarning, match="SystemExit"):
            run.advance(2)
        assert run.step == 2


def test_a_cancelled_one_is_called_no_more(book):
    steps = []
    with live(book, steps=0) as run:
        listener = run.every(lambda run: steps.append(run.step), steps=1)
        run.advance(2)
        listener.cancel()
        listener.cancel()
        run.advance(2)
        itself = run.on("step", lambda run: itself.cancel())
        run.advance(2)
    assert steps == [1, 2]
    assert "cancelled" in repr(itself)


def test_a_cell_that_runs_again_replaces_its_function(book):
    book.cell("seen = []\ndef watch(run): seen.append(run.step)")
    with live(book, steps=0) as run:
        first = run.every(book["watch"], steps=1)
        book.cell("def watch(run): seen.append(-run.step)")
        run.every(book["watch"], steps=1)
        run.advance(2)
        assert not first.live
    assert book["seen"] == [-1, -2]


def test_a_function_may_look_at_the_run_and_steer_it(book):
    row, seen = book["ROWS"][0], {}

    def steer(run):
        seen["twice"] = run.call("twice", x=row["x"])
        seen["outputs"] = run.handle.predict(row)
        seen["params"], seen["step"] = run.params, run.step
        run.set(smoothing=0.3)
        run.pause()

    with live(book, steps=0) as run:
        paused = threading.Event()
        run.every(steer, steps=4)
        run.on("pause", lambda run: paused.set())
        paused.clear()
        run.resume()
        assert paused.wait(60)
        assert run.step == seen["step"] == 4
        assert same(run.params, seen["params"])
        np.testing.assert_allclose(seen["twice"], 2 * seen["outputs"], rtol=1e-6)
        assert {row.name: row.value for row in run.status().values}["smoothing"] == 0.3


def test_a_run_with_listeners_computes_the_same(book):
    plain = book.train(max_steps=6)
    run = book.handle(max_steps=6).train(background=True, paused=True)
    run.every(lambda run: run.call("twice", x=book["ROWS"][0]["x"]), steps=1)
    run.resume()
    run.wait()
    assert same(run.params, plain.params)
    assert same(run.history()["loss"], plain.history()["loss"])


def test_listeners_stay_when_a_run_goes_on(book):
    ends = []
    handle = book.handle(max_steps=2)
    run = handle.train(background=True, paused=True)
    run.on("end", lambda run: ends.append(run.step))
    run.resume()
    run.wait()
    handle.train(background=True).wait()
    assert ends == [2, 4]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda run: run.every(print), ("steps=", "seconds=")),
        (lambda run: run.every(print, steps=1, seconds=1), ("steps=", "seconds=")),
        (lambda run: run.every(print, steps=0), ("steps=0",)),
        (lambda run: run.every(print, steps=True), ("steps=True",)),
        (lambda run: run.every(print, seconds=-1), ("seconds=-1",)),
        (lambda run: run.every(3, steps=1), ("int", "function")),
        (lambda run: run.on("steps", print), ("'steps'", "`step`")),
    ],
)
def test_what_cannot_listen_is_refused(book, ask, words):
    run = book.handle(max_steps=1).train(background=False)
    with pytest.raises(RunError) as refused:
        ask(run)
    check_error(refused.value, *words)


def test_one_that_raises_is_told_with_its_own_lines(book):
    book.cell(
        "def inner(run):\n    return 1 / 0\ndef outer(run):\n    return inner(run)"
    )
    with live(book, steps=0) as run:
        run.every(book["outer"], steps=1)
        with pytest.warns(RuntimeWarning, match="ZeroDivisionError") as warned:
            run.advance(1)
    assert warned[0].filename == "nitro_repl"  # no line of ours is shown
    said = str(warned[0].message)
    assert "line 4, in outer" in said
    assert "line 2, in inner" in said
    assert "listeners.py" not in said
