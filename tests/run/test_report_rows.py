"""The report's rows of groups and schedules, and that it calls no schedule."""

from __future__ import annotations

import numpy as np
import optax
import pytest
from cells import going, tiny
from reported import (
    GROUPS,
    STEPS,
    book as book,
    group,
    rows,
    schedule,
    scheduled as scheduled,
)

from nitro_repl._experiment.hyper import rule_word
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")


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
            report = run.in_force()
        assert count.nothing
        assert kind == "by step" or len(calls) == before  # it goes on by itself
        assert schedule(report, "smoothing").last == known
        assert rows(report)["smoothing"] == (0.001, "schedule")
    assert len(book["asked"]) == 1
    steps = [step for step in calls if isinstance(step, int) and step]
    if kind == "by step":
        assert steps == sorted(set(steps)), "no step was asked twice"
    if kind == "traced":
        assert len(calls) == 1
