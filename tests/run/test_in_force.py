"""The report of a run: what is in force now, and where each value comes from."""

from __future__ import annotations

import json

import numpy as np
import optax
import pytest
from cells import Gate, in_thread, live, tiny
from reported import (
    GROUPS,
    STEPS,
    book as book,
    group,
    rows,
    schedule,
    scheduled as scheduled,
)

pytestmark = pytest.mark.usefixtures("nothing_known")


# ---- set, unset, override


def test_it_follows_what_is_set_and_given_back(book):
    with live(book) as run:
        at_start = rows(run.in_force())
        assert at_start == rows(run.handle.set_up)
        run.set(smoothing=0.25, learning_rate=0.25, table=np.array([2, 3], "f"))
        run.set(on_nonfinite="skip")
        report = run.handle.report()
        now = rows(report)
        assert now["smoothing"] == (0.25, "set at step 2")
        assert now["swing"] == (0.5, "default")
        assert now["learning_rate"] == (0.25, "set at step 2")
        assert now["head.learning_rate"] == (pytest.approx(0.025), "set at step 2")
        assert now["on_nonfinite"] == ("skip", "set at step 2")
        assert now["table"][0].tolist() == [2, 3]
        assert now["table"][1] == "set at step 2"
        assert group(report, "head").rate == pytest.approx(0.025)
        assert group(report, "head").ratio == pytest.approx(0.1)
        assert f"run {run.id} at step 2" in repr(report)
        run.advance(1)
        run.set({"head.learning_rate": 0.2, "head.weight_decay": 0.5})
        report = run.in_force()
        assert group(report, "head").ratio == pytest.approx(0.8)
        assert group(report, "head").decay == 0.5
        assert rows(report)["learning_rate"] == (0.25, "set at step 2")
        assert rows(report)["head.learning_rate"] == (0.2, "set at step 3")
        run.unset("learning_rate")  # the head was set: it has that again
        now = rows(run.in_force())
        assert now["learning_rate"] == (0.5, "method")
        assert now["head.learning_rate"] == (0.2, "set at step 3")
        assert now["neck.learning_rate"] == (1.0, "method")
        for name in ("smoothing", "head.learning_rate", "head.weight_decay", "table"):
            run.unset(name)
        now = rows(run.in_force())
        assert now["table"][0].tolist() == [1, 1]
        del now["on_nonfinite"], at_start["on_nonfinite"], now["table"]
        del at_start["table"]
        assert now == at_start


def test_an_override_shows_until_it_is_given_back(scheduled):
    with live(scheduled, max_steps=STEPS) as run:
        curve = optax.cosine_decay_schedule(0.5, STEPS)
        rate = pytest.approx(float(curve(1)), rel=1e-6)  # of the second step
        assert rows(run.in_force())["learning_rate"] == (rate, "schedule")
        tenth = pytest.approx(float(curve(1)) / 10, rel=1e-6)
        assert rows(run.in_force())["head.learning_rate"] == (tenth, "schedule")
        run.set(learning_rate=0.3, override=True)
        report = run.in_force()
        assert schedule(report, "learning_rate").overridden
        assert not schedule(report, "neck.learning_rate").overridden
        assert rows(report)["learning_rate"] == (0.3, "set at step 2")
        assert rows(report)["head.learning_rate"][0] == pytest.approx(0.03)
        assert rows(report)["neck.learning_rate"][1] == "schedule"
        assert "overridden by set" in repr(report)
        run.unset("learning_rate")
        report = run.in_force()
        rate = pytest.approx(float(curve(2)), rel=1e-6)  # of the step to come
        assert rows(report)["learning_rate"] == (rate, "schedule")
        assert not schedule(report, "learning_rate").overridden
        run.handle.train(background=True, paused=True, horizon=2 * STEPS)
        row = schedule(run.in_force(), "learning_rate")
        longer = optax.cosine_decay_schedule(0.5, 2 * STEPS)
        assert row.horizon == 2 * STEPS
        assert row.last == pytest.approx(float(longer(2 * STEPS - 1)), abs=5e-7)


# ---- swap


def test_it_follows_swaps_and_their_undoing():
    book = tiny(GROUPS)
    with live(book) as run:
        before = run.in_force()
        book.cell("""
@Tiny.hook
def weight_decay(self): return {"head": 0.03, "neck": 0.02}
@Tiny.hook
def clip_norm(self): return 2.0
@Tiny.hook
def decay_anchor(self): return {"head": "zero"}
@Tiny.hook
def optimizer(self, hp): return optax.radam(hp.learning_rate)
@Tiny.hook
def schedules(self): return {"swing": lambda total: lambda step: 0.01 * step}
""")
        assert rows(run.in_force()) == rows(before), "nothing is taken before a swap"
        run.swap()
        report = run.in_force()
        now = rows(report)
        assert now["clip_norm"] == (2.0, "swapped hook")
        assert now["head.weight_decay"] == (0.01, "method"), "live values stay"
        [kept] = [row for row in report.settings if row.name == "head.weight_decay"]
        assert kept.about == "0.03 after unset"
        assert now["learning_rate"] == (0.5, "method")
        assert group(report, "head").anchor == "zero"
        assert group(report, "head").rule == "radam"
        assert now["swing"][1] == "schedule"
        assert schedule(report, "swing").first == 0.0
        assert report.swapped.keys() >= {"weight_decay", "clip_norm", "optimizer"}
        assert "forward" not in report.swapped
        run.unset("head.weight_decay")
        now = rows(run.in_force())
        assert now["head.weight_decay"] == (0.03, "swapped hook")
        run.swap(undo=True)
        report = run.in_force()
        now = rows(report)
        assert report.swapped == {}
        assert report.schedules == ()
        assert now["clip_norm"] == (1.0, "method")
        assert now["head.weight_decay"] == (0.03, "earlier code")
        assert group(report, "head").anchor == "initial"
        assert group(report, "head").rule == "adam"
        run.unset("head.weight_decay")
        run.unset("swing")
        assert rows(run.in_force()) == rows(before)


def test_a_hook_bound_to_one_run_is_in_its_report_alone(book):
    with live(book) as run:
        run.swap(loss=lambda self, logits, *, y: (logits**2).mean())
        assert run.in_force().swapped.keys() == {"loss"}
        assert run.handle.set_up.swapped == {}


# ---- moments


def test_what_a_run_writes_down_when_it_begins_is_the_report_of_set_up(tmp_path):
    book = tiny(GROUPS)
    handle = book.handle(max_steps=2, run_dir=str(tmp_path), logger="json lines")
    written = []
    for _ in range(2):
        run = handle.train(background=True, paused=True, fresh=True)
        run.set(smoothing=0.75)
        run.stop()
        assert rows(handle.report())["smoothing"] == (0.75, "set at step 0")
        lines = (run.record.directory.path / "metrics.jsonl").read_text().splitlines()
        written += [line["text"] for line in map(json.loads, lines) if "text" in line]
    assert written == [repr(handle.set_up)] * 2
    assert "0.75" not in written[0]


def test_it_waits_for_no_step():
    book = tiny()
    gate = Gate(book["ROWS"], before=3)
    book.names["ROWS"] = gate
    book.cell("class Tiny(Tiny):\n    def build_data(self): return {'train': ROWS}")
    with live(book) as run:
        moving = in_thread(lambda: run.advance(2))
        assert gate.reached.wait(60)
        assert rows(run.in_force())["smoothing"] == (0.1, "default")
        gate.opened.set()
        moving()
