from __future__ import annotations

import json
import os
import signal
import sys
import threading
import types

import numpy as np
import pytest
from cells import (
    SPLITS,
    STATEFUL,
    Gate,
    check_error,
    in_thread,
    live,
    losses,
    same,
    tiny,
    until,
)

import nitro_repl as nitro
from nitro_repl import RunError


@pytest.fixture(scope="module")
def book():
    return tiny(SPLITS)


@pytest.fixture(scope="module")
def stateful():
    return tiny(STATEFUL)


def steps(run):
    return run.history()["step"].tolist()


# ---- pause, advance, stop, wait


def test_advance_returns_when_its_steps_are_in_the_history_and_pauses(book):
    with live(book, steps=0) as run:
        for done in (1, 4, 5):
            run.advance(done - run.step)
            assert steps(run) == list(range(1, done + 1))
            assert (run.phase, run.step) == ("paused", done)


def test_a_paused_run_stands_still_and_resumes(book):
    with live(book) as run:
        before = run.params
        assert same(before, run.params)
        run.resume()
        until(lambda: run.step > 2)
        run.pause()
        assert run.phase == "paused"
        assert len(steps(run)) == run.step
        assert not same(before, run.params)


@pytest.mark.parametrize("verb", ["pause", "stop", "advance"])
def test_a_later_verb_ends_an_advance(book, verb):
    with live(book) as run:
        waiting = in_thread(lambda: run.advance(10**9))
        until(lambda: run.step > 3)
        getattr(run, verb)()
        assert waiting() is None
        assert run.phase == ("stopped" if verb == "stop" else "paused")
        assert run.step < 10**6


def test_an_advance_across_the_last_step_ends_the_run(book):
    run = book.handle(max_steps=4).train(background=True, paused=True)
    run.advance(10)
    assert run.wait(60)
    assert (run.phase, run.step, run.live) == ("done", 4, False)
    assert steps(run) == [1, 2, 3, 4]


def test_an_advance_that_fails_raises_what_ended_the_run(book):
    gate = FailsAtTheGate(book["ROWS"])
    gate.opened.set()
    fields = {"splits": {"train": gate}}
    run = book.handle(fields=fields).train(background=True, paused=True)
    with pytest.raises(nitro.HookError, match="disk"):
        run.advance(5)
    with pytest.raises(nitro.HookError, match="disk"):
        run.wait()
    assert (run.phase, run.step) == ("failed", 1)


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "3", None])
def test_advance_takes_a_number_of_steps(book, n):
    with live(book, steps=0) as run:
        with pytest.raises(RunError) as error:
            run.advance(n)
        check_error(error.value, "advance", repr(n))


def test_stop_ends_a_paused_and_a_stepping_run(book):
    for paused in (True, False):
        run = book.handle(max_steps=None).train(background=True, paused=paused)
        run.stop()
        assert (run.phase, run.live) == ("stopped", False)
        assert run.wait() is True
        run.stop()  # once more does no harm


class FailsAtTheGate(Gate):
    def __iter__(self):
        yield self.rows[0]
        self.reached.set()
        assert self.opened.wait(60)
        raise OSError("disk")


def test_stopping_a_run_that_fails_meanwhile_just_returns(book):
    gate = FailsAtTheGate(book["ROWS"])
    run = book.handle(fields={"splits": {"train": gate}}).train(background=True)
    assert gate.reached.wait(60)
    stopping = in_thread(run.stop)
    pausing = in_thread(run.pause)
    until(lambda: len(run.mailbox._commands) == 2)
    gate.opened.set()
    assert stopping() is None
    with pytest.raises(RunError) as error:
        pausing()
    check_error(error.value, run.id, "pause", "at step 1", "disk")
    assert run.phase == "failed"
    with pytest.raises(RunError, match="disk"):
        run.set(smoothing=0.5)


def test_stop_ends_an_evaluation(book):
    gate = Gate(book["ROWS"])
    handle = book.handle(fields={"splits": {"val": gate}}, eval_every=1)
    run = handle.train(background=True)
    assert gate.reached.wait(60)
    assert run.phase == "evaluating"
    stopping = in_thread(run.stop)
    until(lambda: run.mailbox)
    gate.opened.set()
    stopping()
    assert (run.phase, run.step) == ("stopped", 1)
    assert len(run.history("val")) == 0, "half an evaluation is no result"


def test_a_pause_in_an_evaluation_holds_at_a_batch_and_the_rest_comes_after_it(book):
    gate = Gate(book["ROWS"])
    handle = book.handle(fields={"splits": {"val": gate}}, eval_every=2)
    run = handle.train(background=True)
    assert gate.reached.wait(60)
    pausing = in_thread(run.pause)
    until(lambda: run.mailbox)
    setting = in_thread(lambda: run.set(learning_rate=0.25))
    gate.opened.set()
    pausing()
    assert run.phase == "paused"
    assert len(run.history("val")) == 0
    assert run.params.keys() == {"layers"}, "readable while it evaluates"
    resuming = in_thread(run.resume)
    setting()
    resuming()
    commands = [entry["command"] for entry in run.journal.entries]
    assert commands.index("pause") < commands.index("set")
    until(lambda: run.step > 2)
    run.stop()
    assert run.history("val")["step"][0] == 2
    rates = run.history()["learning_rate"]
    assert rates[:3].tolist() == [0.5, 0.5, 0.25]


def test_wait_gives_up_after_its_time(book):
    with live(book) as run:
        assert run.wait(0.01) is False
        assert run.live


def main_thread_waits_in(place):
    """Whether the main thread waits, called from a function of ours."""
    frame = sys._current_frames()[threading.main_thread().ident]
    names = []
    while frame is not None:
        code = frame.f_code
        names.append(f"{os.path.basename(code.co_filename)}:{code.co_name}")
        frame = frame.f_back
    return names[0].startswith("threading.py") and place in names


def interrupt(place):
    """Press the stop button once the main thread waits there."""
    until(lambda: main_thread_waits_in(place))
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def test_an_interrupt_of_wait_leaves_the_run_alone_and_says_so(book, capsys):
    with live(book) as run:
        run.resume()
        pressed = in_thread(lambda: interrupt("worker.py:wait"))
        assert run.wait() is False
        pressed()
        assert run.live
        seen = run.step
        until(lambda: run.step > seen)
    said = capsys.readouterr().out
    assert "goes on" in said
    assert "run.stop()" in said


def test_an_interrupt_of_a_foreground_run_stops_it(book):
    handle = book.handle(max_steps=10**9)

    def press():
        until(lambda: handle.run is not None and handle.run.step)
        interrupt("worker.py:wait")

    pressed = in_thread(press)
    run = handle.train(background=False)
    pressed()
    assert (run.phase, run.live) == ("stopped", False)
    assert run.step == len(steps(run)) > 0


def test_a_second_interrupt_of_a_foreground_run_aborts(book):
    gate = Gate(book["ROWS"])
    handle = book.handle(fields={"splits": {"train": gate}}, max_steps=100)

    def press_twice():
        assert gate.reached.wait(60)
        interrupt("worker.py:wait")
        until(lambda: handle.run.mailbox)  # it was asked to stop
        interrupt("worker.py:wait")

    pressed = in_thread(press_twice)
    with pytest.raises(KeyboardInterrupt):
        handle.train(background=False)
    pressed()
    gate.opened.set()
    assert handle.run.wait()


# ---- training again


def test_training_ten_steps_twice_is_training_twenty(stateful):
    twice = stateful.handle(max_steps=7)
    twice.train(background=False)
    run = twice.train(background=False)
    once = stateful.handle(max_steps=14).train(background=False)
    assert run is twice.run
    assert run.step == 14
    assert losses(run) == losses(once)
    assert same(run.params, once.params)
    assert same(state_of(run), state_of(once))


def state_of(run):
    import jax
    from flax import nnx

    _, state = nnx.split(run.model())

    def numbers(leaf):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.key_data(leaf)
        return leaf

    return [np.asarray(numbers(leaf)) for leaf in jax.tree.leaves(state)]


def test_a_stopped_run_goes_on_where_it_was(stateful):
    run = stateful.handle(max_steps=6).train(background=True, paused=True)
    run.advance(3)
    run.stop()
    again = run.handle.train(background=False)
    assert again is run
    assert steps(run) == [1, 2, 3, 4, 5, 6]
    assert losses(run) == losses(stateful.train(max_steps=6))


def test_fresh_begins_again_bit_for_bit(stateful):
    handle = stateful.handle(max_steps=4)
    first = handle.train(background=False)
    second = handle.train(background=False, fresh=True)
    assert second is not first
    assert second.id != first.id
    assert losses(second) == losses(first)
    assert same(second.params, first.params)
    assert nitro.current() is second


def test_fresh_is_refused_while_the_run_is_live(book):
    with live(book) as run:
        with pytest.raises(RunError) as error:
            run.handle.train(background=True, fresh=True)
        check_error(error.value, run.id, "stop")


def test_training_a_live_run_resumes_it(book):
    with live(book) as run:
        assert run.handle.train(background=True) is run
        until(lambda: run.step > 2)


def test_two_runs_live_side_by_side(book):
    with live(book) as one, live(book, seed=3) as two:
        assert nitro.current() is two
        assert {one.id, two.id} <= set(nitro.runs)
        one.resume()
        two.resume()
        until(lambda: min(one.step, two.step) > 20)
        one.set(learning_rate=0.0)
        one.advance(1)
        kept = one.params
        one.advance(3)
        assert same(one.params, kept)
        rates = {row.name: row.value for row in two.status().values}
        assert rates["learning_rate"] != 0.0
        alone = two.step
        until(lambda: two.step > alone)
    expected = losses(book.train(max_steps=5, seed=3))
    assert losses(two)[:5] == expected


def test_a_run_that_is_over_says_how_to_go_on(book):
    run = book.train()
    for ask in (
        run.pause,
        run.resume,
        run.advance,
        lambda: run.set(smoothing=1.0),
        lambda: run.unset("smoothing"),
        lambda: run.load(run.params),
    ):
        with pytest.raises(RunError) as error:
            ask()
        check_error(error.value, run.id)


def test_a_foreground_run_needs_an_end_and_does_not_begin_paused(book):
    with pytest.raises(nitro.SettingError) as error:
        book.handle(max_steps=None).train(background=False)
    check_error(error.value, "max_steps", "background=True")
    with pytest.raises(nitro.SettingError) as error:
        book.handle(max_steps=2).train(background=False, paused=True)
    check_error(error.value, "paused")


# ---- looking


def test_copies_of_parameters_stay_as_they_were(book):
    with live(book) as run:
        kept = run.params
        numbers = [np.array(leaf) for leaf in flat(kept)]
        model = run.model()
        run.advance(5)
        assert all(map(np.array_equal, flat(kept), numbers))
        batch = book["ROWS"][0]["x"]
        before = np.asarray(model(batch))
        assert not np.array_equal(before, np.asarray(run.model()(batch)))
        flat(kept)[0][...] = 7.0  # a copy, and the user's to write in
        assert not any((leaf == 7.0).any() for leaf in flat(run.params))
        assert {type(leaf) for leaf in flat(kept)} == {np.ndarray}
    assert np.array_equal(np.asarray(model(batch)), before)
    assert len(flat(run.params)) == 4, "readable after the end"


def flat(tree):
    import jax

    return jax.tree.leaves(tree)


def test_the_model_is_in_eval_mode_with_the_statistics_of_the_run(stateful):
    with live(stateful, steps=4) as run:
        model = run.model()
        assert model.norm.use_running_average
        assert model.drop.deterministic
        assert not np.array_equal(np.asarray(model.norm.mean[...]), np.zeros(4))
        x = stateful["ROWS"][0]["x"]
        assert np.array_equal(np.asarray(model(x)), np.asarray(model(x)))
        np.testing.assert_allclose(
            run.handle.predict({"x": x}), np.asarray(model(x)), 1e-5, 1e-6
        )


def test_progress_and_status_tell_the_moment(book):
    run = book.handle(max_steps=10).train(background=True, paused=True)
    run.advance(6)
    progress = run.progress()
    assert (progress.step, progress.total_steps, progress.epoch) == (6, 10, 1)
    assert progress.loss == losses(run)[-1]
    assert progress.phase == "paused"
    status = run.status()
    assert status.run == run.id
    assert status.experiment == "Tiny"
    values = {row.name: (row.value, row.changed) for row in status.values}
    assert values["learning_rate"] == (0.5, False)
    run.set(smoothing=0.5)
    rows = {row.name: row for row in run.status().values}
    assert (rows["smoothing"].value, rows["smoothing"].changed) == (0.5, True)
    assert [program.name for program in status.programs][:4] == [
        "forward", "loss", "backward", "optimizer",
    ]  # fmt: skip
    run.unset("smoothing")
    rows = {row.name: row for row in run.status().values}
    assert rows["smoothing"].value == pytest.approx(0.1)
    run.stop()
    assert "stopped" in repr(run)


# ---- hooks that speak to their own run


def test_commands_from_a_hook_on_the_worker_do_not_deadlock(book):
    seen = {}

    class Speaks(list):
        def __iter__(self):
            run = seen.get("run")
            if run is None or not run.step:
                yield from list.__iter__(self)
                return
            seen["params"] = run.params
            seen["model"] = run.model()
            seen["progress"] = run.progress()
            seen["status"] = run.status()
            seen["history"] = len(run.history()["step"])
            seen["evaluated"] = run.handle.evaluate("val")
            seen["predicted"] = run.handle.predict(self[0])
            run.pause()
            run.set(learning_rate=0.125)
            run.load(seen["params"])
            run.swap()
            run.advance(2)
            try:
                run.wait()
            except RunError as error:
                seen["wait"] = error
            yield from list.__iter__(self)

    loader = Speaks(book["ROWS"])
    handle = book.handle(fields={"splits": {"train": loader}}, max_steps=None)
    seen["run"] = run = handle.train(background=True, paused=True)
    run.resume()
    until(lambda: run.phase == "paused" and run.step >= 8)
    assert run.exception is None
    assert steps(run) == list(range(1, run.step + 1))
    assert run.history()["learning_rate"][-1] == pytest.approx(0.125)
    check_error(seen["wait"], "wait")
    run.stop()


def test_a_hook_may_stop_its_own_run(book):
    seen = {}

    class Stops(list):
        def __iter__(self):
            for index, row in enumerate(list.__iter__(self)):
                if index == 3 and seen:
                    seen["run"].stop()
                yield row

    loader = Stops(book["ROWS"])
    handle = book.handle(fields={"splits": {"train": loader}}, max_steps=None)
    seen["run"] = run = handle.train(background=True, paused=True)
    run.resume()
    assert run.wait(60)
    assert (run.phase, run.step) == ("stopped", 4)


# ---- what is written down


@pytest.mark.parametrize(("shell", "asker"), [(None, "python"), (object(), "cell")])
def test_each_applied_command_is_one_line_of_the_journal(
    book, tmp_path, monkeypatch, shell, asker
):
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    with live(book, run_dir=tmp_path) as run:
        run.set(smoothing=0.25, learning_rate=0.125)
        run.unset("smoothing")
        with pytest.raises(nitro.FieldError):
            run.set(smoothing="much")
        run.resume()
        run.pause()
        run.load(run.params)
        run.swap(loss=lambda self, logits, *, y: (logits**2).mean())
        run.swap(undo=True)
    path = run.record.directory.path
    lines = [
        json.loads(line) for line in (path / "journal.jsonl").read_text().splitlines()
    ]
    commands = [line["command"] for line in lines]
    assert commands == [
        "advance", "set", "unset", "resume", "pause", "load", "swap", "undo", "stop",
    ]  # fmt: skip
    assert lines == list(run.journal.entries)
    assert {"step", "before", "after", "by", "time"} <= lines[0].keys()
    assert {line["by"] for line in lines} == {asker}
    assert [line["step"] for line in lines[:3]] == [0, 2, 2]
    assert lines[1]["before"] == pytest.approx({"smoothing": 0.1, "learning_rate": 0.5})
    assert lines[1]["after"] == pytest.approx(
        {"smoothing": 0.25, "learning_rate": 0.125}
    )
    assert lines[2]["after"] == pytest.approx({"smoothing": 0.1})
    swap = lines[6]
    changed = {n for n, h in swap["after"].items() if swap["before"][n] != h}
    assert changed == {"loss train"}


def test_the_files_of_a_run_can_be_read(book, tmp_path):
    run = book.train(
        fields={"note": "hello"}, run_dir=tmp_path, logger="json lines", max_steps=6,
        eval_every=3, seed=5,
    )  # fmt: skip
    path = tmp_path / "Tiny" / run.id
    record = json.loads((path / "run.json").read_text())
    assert record["id"] == run.id
    assert record["experiment"] == "Tiny"
    assert record["fields"]["note"] == "hello"
    assert record["fields"]["width"] == 4
    assert record["settings"]["max_steps"] == 6
    assert record["settings"]["learning_rate"] == 0.5
    assert record["seed"] == 5
    assert (record["outcome"], record["step"]) == ("done", 6)
    assert {"jax", "flax", "optax", "python"} <= record["versions"].keys()
    lines = [
        json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()
    ]
    rows = [line for line in lines if line.get("split") == "train"]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row["loss"] for row in rows] == pytest.approx(losses(run))
    assert [r["step"] for r in lines if r.get("split") == "val"] == [3, 6]


def test_log_every_thins_the_log_and_not_the_history(book, tmp_path):
    run = book.train(run_dir=tmp_path, logger="json lines", max_steps=5, log_every=2)
    path = tmp_path / "Tiny" / run.id / "metrics.jsonl"
    lines = map(json.loads, path.read_text().splitlines())
    assert [line["step"] for line in lines if "split" in line] == [2, 4]
    assert len(steps(run)) == 5


def test_threads_that_train_one_handle_at_once_get_one_run(book):
    handle, callers = book.handle(max_steps=None), 6
    together = threading.Barrier(callers)

    def train():
        together.wait()
        return handle.train(background=True, paused=True)

    waiting = [in_thread(train) for _ in range(callers)]
    runs = [result() for result in waiting]
    handle.run.stop()
    assert {id(run) for run in runs} == {id(handle.run)}
