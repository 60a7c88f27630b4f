"""Classes whose cells run again, under a live run."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cells import live, tiny

NET = """
import enum
class Layer(nnx.Module):
    def scaled(self, x): return 2.0 * x
class Net(Layer):
    def __init__(self, rngs):
        self.linear = nnx.Linear(3, 2, rngs=rngs)
        self.mode = Mode.A
    def __call__(self, x):
        return self.scaled(self.linear(x))
    def scaled(self, x):
        return super().scaled(x) if self.mode is Mode.A else 70.0 * x
class Mode(enum.Enum):
    A = 1
    B = 2
"""
EXPERIMENT = """
class Tiny(nitro.Experiment):
    mode: GraphConst[Mode] = Mode.A
    smoothing: Device[float] = 0.1

    def build_data(self):
        return {"train": ROWS, "val": ROWS[:2]}

    def build_model(self, rngs):
        return Net(rngs)

    def forward(self, model, *, x):
        known = 1.0 if isinstance(model, Net) else 100.0
        fast = 3.0 if self.mode is Mode.A else 50.0
        return known * fast * model(x)

    def loss(self, logits, *, y):
        return (logits * logits).mean()
"""


@pytest.fixture(autouse=True)
def _fresh(fresh_programs):
    """So that each new shape is traced."""


def right(run, rows, factor):
    """Whether predictions are what a fresh session computes."""
    x = np.ones((rows, 3), "float32")
    wanted = factor * np.asarray(run.model().linear(x))
    return np.allclose(run.handle.predict({"x": x}), wanted, rtol=1e-5)


@pytest.mark.parametrize("again", [NET, NET + EXPERIMENT])
def test_cells_of_classes_run_again_change_nothing(again):
    book = tiny(NET, EXPERIMENT)
    with live(book) as run:
        assert right(run, 4, 6.0)
        for rows in (5, 6):  # shapes that were not seen before
            book.cell(again)
            assert run.stale == ()
            assert right(run, rows, 6.0)
            run.advance(1)
            assert type(run.model()) is book["Net"]
            run.swap()
            assert right(run, 4, 6.0)


def test_a_class_that_was_edited_is_not_taken_before_a_swap():
    book = tiny(NET, EXPERIMENT.replace("if isinstance(model, Net) else 100.0", ""))
    with live(book) as run:
        book.cell(NET.replace("2.0 * x", "5.0 * x"))
        assert right(run, 7, 6.0)
        run.swap()
        assert right(run, 8, 15.0)


def test_an_edit_of_a_base_class_reaches_a_run_through_super():
    book = tiny(NET, EXPERIMENT)
    with live(book) as run:
        book.cell(NET.replace("2.0 * x", "5.0 * x"))
        assert "forward" in run.stale
        run.swap()
        assert right(run, 4, 15.0)
        assert right(run, 7, 15.0)
