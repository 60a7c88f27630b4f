"""What a change compiles in a new handle, kind by kind, each beside one that must."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cells import tiny

from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

BASE = """
ROWS = ROWS[:4]

class Tiny(Tiny):
    power: GraphConst[int] = 1
    weights: Device[jax.Array] = nitro.field(default_factory=lambda: np.ones(2, "f"))

    def loss(self, logits, *, y):
        return squared_error((logits * self.weights) ** self.power, y, self.smoothing)

    def metrics(self, logits, *, y):
        return {"right": Sum(logits.argmax(-1) == y)}

    def schedules(self):
        return {"learning_rate": lambda total: optax.linear_schedule(0.5, 0.1, total)}
"""
HOOK = "@Tiny.hook\ndef "
METRICS = (
    HOOK + "metrics(self, logits, *, y): return {'wrong': Sum(logits.argmax(-1) != y)}"
)
FINAL = HOOK + "finalize_metrics(self, totals, split): return {'all': 1.0, **totals}"
CURVE = (
    HOOK + "schedules(self): return {'smoothing': lambda total: lambda step: step / 8}"
)

# What is changed: a cell, fields, settings.
NOTHING = {
    "a Device number": ("", {"smoothing": 0.25}, {}),
    "a Device array": ("", {"weights": np.full(2, 0.5, "f")}, {}),
    "a Host field": ("", {"note": "another"}, {}),
    "the seed": ("", {}, {"seed": 7}),
    "run_dir": ("", {}, {"run_dir": "."}),
    "max_steps": ("", {}, {"max_steps": 6}),
    "max_epochs": ("", {}, {"max_steps": None, "max_epochs": 1}),
    "another schedule": (CURVE, {}, {}),
    "no schedule": (HOOK + "schedules(self): return {}", {}, {}),
    "a constant for a schedule": (
        HOOK + "schedules(self): return {'learning_rate': 0.1}", {}, {},
    ),
    "the learning rate": ("", {}, {"learning_rate": 0.125}),
    "weight decay": ("", {}, {"weight_decay": 0.125}),
    "a host metric": (METRICS, {}, {}),
    "finalize_metrics": (FINAL, {}, {}),
    "eval_every": ("", {}, {"eval_every": 1}),
    "log_every": ("", {}, {"log_every": 2}),
    "on_nonfinite": ("", {}, {"on_nonfinite": "skip"}),
}  # fmt: skip
SOMETHING = {
    "a GraphConst that the loss reads": ("", {"power": 2}, {}, {"loss"}),
    "a GraphConst of the model": (
        "", {"width": 5}, {}, {"forward", "backward", "optimizer", "eval"},
    ),
    "accum": ("", {}, {"accum": 2}, {"backward"}),
    "clip_norm": ("", {}, {"clip_norm": 1.0}, {"optimizer"}),
    "ema": ("", {}, {"ema": 0.5}, {"optimizer"}),
    "a Device array of another shape": (
        "", {"weights": np.ones((4, 2), "f")}, {}, {"loss", "forward", "backward",
        "optimizer", "eval"},
    ),
    "the residency of metrics": (
        "", {}, {"metrics_residency": "device"}, {"metrics"},
    ),
}  # fmt: skip
_powers = itertools.count(3)


def compiled(book, fields=None, **settings):
    """The programs that a new handle compiles to train and to validate."""
    with count_compiles() as count:
        run = book.train("Tiny", fields or {}, **settings)
        assert run.step >= 2
        run.handle.validate()
    return set(count.compiled)


def begun():
    """A notebook whose programs are all known."""
    book = tiny(BASE)
    compiled(book)
    assert compiled(book) == set()
    return book


@pytest.mark.parametrize("change", NOTHING)
def test_nothing_is_compiled_for(change, tmp_path):
    cell, fields, settings = NOTHING[change]
    if "run_dir" in settings:
        settings = {"run_dir": str(tmp_path)}
    book = begun()
    book.cell(cell)
    assert compiled(book, fields, **settings) == set()
    control = {**fields, "power": next(_powers)}
    assert compiled(book, control, **settings) == {"loss"}, "the control"


@pytest.mark.parametrize("change", SOMETHING)
def test_only_what_holds_it_is_compiled_for(change):
    cell, fields, settings, expected = SOMETHING[change]
    book = begun()
    book.cell(cell)
    found = compiled(book, fields, **settings)
    assert found <= expected, found
    assert found, "the control"
    assert compiled(book, fields, **settings) == set(), "known by now"


def test_an_edit_of_a_device_metric_compiles_that_metric():
    book = begun()
    device = {"metrics_residency": "device"}
    compiled(book, **device)
    book.cell(FINAL)
    assert compiled(book, **device) == set(), "it runs on the host"
    book.cell(METRICS)
    assert compiled(book, **device) == {"metrics"}
    assert compiled(book, **device) == set()
