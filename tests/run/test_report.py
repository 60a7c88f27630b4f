"""The report of a run: what is in force now, and where each value comes from."""

from __future__ import annotations

import json

import numpy as np
import optax
import pytest
from cells import Gate, going, in_thread, live, tiny

from nitro_repl._experiment.hyper import rule_word
from nitro_repl._run.schedules import BLOCK
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

GROUPS = """
class Tiny(Tiny):
    swing: Device[float] = 0.5
    count: Device[int] = 1
    table: Device[jax.Array] = nitro.field(default_factory=lambda: np.ones(2, "f"))
    on: Device[bool] = True
    clip_norm = 1.0

    def build_model(self, rngs):
        one, two, three = (nnx.Linear(3, 3, rngs=rngs) for _ in range(3))
        tail = nnx.Linear(3, 2, rngs=rngs)
        return nnx.Dict(body=one, head=two, neck=three, tail=tail)

    def forward(self, model, *, x):
        for name in ("body", "neck", "head", "tail"):
            x = nnx.tanh(model[name](x))
        return x

    def param_group(self, path, leaf):
        return path[0]

    def frozen(self, path, leaf):
        return path[0] == "tail" or path == ("body", "bias")

    def learning_rate(self):
        return {"body": 0.5, "head": 0.05, "neck": 1.0}

    def weight_decay(self):
        return {"head": 0.01, "neck": 0.02}

    def decay_anchor(self):
        tree = {"neck": {"kernel": np.ones((3, 3), "f")}}
        return {"body": "zero", "head": "initial", "neck": tree}

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)
"""
FOLLOWED = """
class Tiny(Tiny):
    def schedules(self):
        neck = {"learning_rate": lambda total: optax.linear_schedule(1, 2, total)}
        return {
            "learning_rate": lambda total: optax.cosine_decay_schedule(0.5, total),
            "optimizer": {"neck": neck},
        }
"""
STEPS = 3 * BLOCK + 40  # the last one is in no block that was evaluated


@pytest.fixture(scope="module")
def book():
    return tiny(GROUPS)


@pytest.fixture(scope="module")
def scheduled():
    return tiny(GROUPS, FOLLOWED)


def rows(report):
    """Value and source of every field and setting, by name."""
    return {
        row.name: (row.value, row.source) for row in (*report.fields, *report.settings)
    }


def group(report, name):
    [row] = [row for row in report.groups if row.name == name]
    return row


def schedule(report, name):
    [row] = [row for row in report.schedules if row.name == name]
    return row


# ---- groups


def test_each_group_has_its_counts_rate_ratio_decay_anchor_and_rule(book):
    report = book.handle().report()
    found = [
        (g.name, g.parameters, g.numbers, g.frozen, g.rate, g.ratio, g.decay)
        for g in report.groups
    ]
    assert found == [
        ("body", 2, 12, 1, 0.5, 1.0, 0.0),
        ("head", 2, 12, 0, 0.05, 0.1, 0.01),
        ("neck", 2, 12, 0, 1.0, 2.0, 0.02),
        ("tail", 2, 8, 2, None, None, None),
    ]
    anchors = [(g.anchor, g.decayed) for g in report.groups]
    assert anchors == [("zero", 1), ("initial", 1), ("given tree", 1), ("", 0)]
    assert [g.rule for g in report.groups] == ["adam", "adam", "adam", ""]
    assert rows(report)["head.learning_rate"] == (0.05, "method")
    assert rows(report)["clip_norm"] == (1.0, "method")
    for words in ("given tree (1 of 2)", "initial (1 of 2)", "adam"):
        assert words in repr(report)


def test_a_decay_of_the_optimizer_s_own_is_said_to_be_so():
    book = tiny("""
class Tiny(Tiny):
    def optimizer(self, hp):
        return optax.adamw(hp.learning_rate, weight_decay=hp.weight_decay)
""")
    [row] = book.handle(weight_decay=0.1).report().groups
    assert (row.decay, row.decayed, row.anchor) == (0.1, 4, "by the optimizer")
    assert row.rule == "adam + add_decayed_weights"


def test_manual_mode_has_no_groups_and_its_rates_are_from_the_method():
    book = tiny("""
class Tiny(Tiny):
    def setup_optimizers(self, model):
        rule = optax.inject_hyperparams(optax.sgd)(learning_rate=0.25)
        return nnx.Optimizer(model, rule, wrt=nnx.Param)
    def train_step(self, model, optimizers, *, x, y):
        value, grads = nnx.value_and_grad(
            lambda model: self.loss(self.forward(model, x=x), y=y))(model)
        optimizers.update(model, grads)
        return {"loss": value}
""")
    report = book.handle().report()
    assert report.groups == ()
    assert rows(report)["learning_rate"] == (0.25, "method")


def halved(rate):
    def update(updates, state, params=None):
        return [0.5 * update for update in updates], state

    return optax.GradientTransformation(lambda params: (), update)


RULES = {
    "sgd": lambda: optax.sgd(0.1),
    "trace": lambda: optax.sgd(0.1, momentum=0.9),
    "radam": lambda: optax.radam(0.1),
    "lion + add_decayed_weights": lambda: optax.lion(0.1),
    "clip + adam": lambda: optax.chain(optax.clip(1.0), optax.adam(0.1)),
    "halved": lambda: halved(0.1),
    "": optax.identity,
}


@pytest.mark.parametrize("word", RULES)
def test_a_rule_is_said_by_its_factories(word):
    assert rule_word(RULES[word]()) == word


# ---- schedules


def test_the_ends_of_a_schedule_are_those_of_optax(scheduled):
    report = scheduled.handle(max_steps=STEPS).report()
    base = schedule(report, "learning_rate")
    curve = optax.cosine_decay_schedule(0.5, STEPS)
    ends = float(curve(0)), float(curve(STEPS - 1))
    np.testing.assert_allclose((base.first, base.last), ends, rtol=1e-3, atol=5e-7)
    assert (base.horizon, base.overridden) == (STEPS, False)
    neck = schedule(report, "neck.learning_rate")
    curve = optax.linear_schedule(1, 2, STEPS)
    ends = float(curve(0)), float(curve(STEPS - 1))
    np.testing.assert_allclose((neck.first, neck.last), ends, rtol=1e-6)
    assert rows(report)["learning_rate"] == (0.5, "method")  # of set-up
    assert group(report, "neck").ratio is None
    assert group(report, "head").ratio == 0.1


def test_the_ends_are_what_a_step_takes_and_a_number_needs_no_horizon():
    book = tiny(GROUPS, """
class Tiny(Tiny):
    def schedules(self):
        return {"count": lambda total: lambda step: 1 + step / 100, "swing": 0.25}
""")  # fmt: skip
    report = book.handle().report()
    whole, number = schedule(report, "count"), schedule(report, "swing")
    assert (whole.first, whole.last, whole.horizon) == (1, None, None)
    assert (number.first, number.last) == (0.25, None)
    assert "no end" in repr(report)
    report = book.handle(max_steps=STEPS).report()
    assert schedule(report, "count").last == round(1 + (STEPS - 1) / 100)
    assert schedule(report, "swing").last == 0.25


CALLED = {
    "traced": lambda step: 0.001 * step,
    "by array": lambda step: 0.001 * np.asarray(step, float),
    "by step": lambda step: 0.001 * int(step),
}


@pytest.mark.parametrize("kind", CALLED)
def test_a_report_calls_no_schedule(kind):
    calls = []

    def counting(step):
        calls.append(step)
        return CALLED[kind](step)

    book = tiny("""
class Tiny(Tiny):
    def schedules(self):
        asked.append(self)
        return {"smoothing": lambda total: counting}
""")
    book.names |= {"counting": counting, "asked": []}
    handle = book.handle(max_steps=STEPS)
    report = handle.report()
    at_set_up = len(calls)
    assert at_set_up
    assert len(book["asked"]) == 1
    known = None if kind != "traced" else pytest.approx(0.001 * (STEPS - 1), rel=1e-6)
    assert schedule(report, "smoothing").first == 0.0
    assert schedule(report, "smoothing").last == known
    handle.report()
    assert len(calls) == at_set_up
    short = book.handle(max_steps=20)  # all in the first block
    last = schedule(short.report(), "smoothing").last
    assert last == (None if kind == "by step" else pytest.approx(0.019))
    del calls[:], book["asked"][:]
    with going(handle, 2) as run:
        before = len(calls)
        with count_compiles() as count:
            report = run.report()
        assert count.nothing
        assert kind == "by step" or len(calls) == before  # it goes on by itself
        assert schedule(report, "smoothing").last == known
        assert rows(report)["smoothing"] == (0.001, "schedule")
    assert len(book["asked"]) == 1
    steps = [step for step in calls if isinstance(step, int) and step]
    assert steps == sorted(set(steps)), "no step was asked twice"
    if kind == "traced":
        assert len(calls) == 1


# ---- set, unset, override


def test_it_follows_what_is_set_and_given_back(book):
    with live(book) as run:
        at_start = rows(run.report())
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
        report = run.report()
        assert group(report, "head").ratio == pytest.approx(0.8)
        assert group(report, "head").decay == 0.5
        assert rows(report)["learning_rate"] == (0.25, "set at step 2")
        assert rows(report)["head.learning_rate"] == (0.2, "set at step 3")
        run.unset("learning_rate")  # the head goes with it, at its ratio of now
        now = rows(run.report())
        assert now["learning_rate"] == (0.5, "method")
        assert now["head.learning_rate"] == (pytest.approx(0.4), "set at step 3")
        assert now["neck.learning_rate"] == (1.0, "method")
        for name in ("smoothing", "head.learning_rate", "head.weight_decay", "table"):
            run.unset(name)
        now = rows(run.report())
        assert now["table"][0].tolist() == [1, 1]
        del now["on_nonfinite"], at_start["on_nonfinite"], now["table"]
        del at_start["table"]
        assert now == at_start


def test_an_override_shows_until_it_is_given_back(scheduled):
    with live(scheduled, max_steps=STEPS) as run:
        curve = optax.cosine_decay_schedule(0.5, STEPS)
        rate = pytest.approx(float(curve(1)), rel=1e-6)  # of the second step
        assert rows(run.report())["learning_rate"] == (rate, "schedule")
        tenth = pytest.approx(float(curve(1)) / 10, rel=1e-6)
        assert rows(run.report())["head.learning_rate"] == (tenth, "schedule")
        run.set(learning_rate=0.3, override=True)
        report = run.report()
        assert schedule(report, "learning_rate").overridden
        assert not schedule(report, "neck.learning_rate").overridden
        assert rows(report)["learning_rate"] == (0.3, "set at step 2")
        assert rows(report)["head.learning_rate"][0] == pytest.approx(0.03)
        assert rows(report)["neck.learning_rate"][1] == "schedule"
        assert "overridden by set" in repr(report)
        run.unset("learning_rate")
        report = run.report()
        rate = pytest.approx(float(curve(2)), rel=1e-6)  # of the step to come
        assert rows(report)["learning_rate"] == (rate, "schedule")
        assert not schedule(report, "learning_rate").overridden
        run.handle.train(background=True, paused=True, horizon=2 * STEPS)
        row = schedule(run.report(), "learning_rate")
        longer = optax.cosine_decay_schedule(0.5, 2 * STEPS)
        assert row.horizon == 2 * STEPS
        assert row.last == pytest.approx(float(longer(2 * STEPS - 1)), abs=5e-7)


# ---- swap


def test_it_follows_swaps_and_their_undoing():
    book = tiny(GROUPS)
    with live(book) as run:
        before = run.report()
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
        assert rows(run.report()) == rows(before), "nothing is taken before a swap"
        run.swap()
        report = run.report()
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
        now = rows(run.report())
        assert now["head.weight_decay"] == (0.03, "swapped hook")
        run.swap(undo=True)
        report = run.report()
        now = rows(report)
        assert report.swapped == {}
        assert report.schedules == ()
        assert now["clip_norm"] == (1.0, "method")
        assert now["head.weight_decay"] == (0.03, "earlier code")
        assert group(report, "head").anchor == "initial"
        assert group(report, "head").rule == "adam"
        run.unset("head.weight_decay")
        run.unset("swing")
        assert rows(run.report()) == rows(before)


def test_a_hook_bound_to_one_run_is_in_its_report_alone(book):
    with live(book) as run:
        run.swap(loss=lambda self, logits, *, y: (logits**2).mean())
        assert run.report().swapped.keys() == {"loss"}
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
        assert rows(run.report())["smoothing"] == (0.1, "default")
        gate.opened.set()
        moving()
