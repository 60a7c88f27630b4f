"""Hooks come and go on a live run while constants of others are inputs."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from cells import LOSS, Outcomes, live, losses, tiny

from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")


def loss(factor):
    return LOSS.replace("(wrong * wrong)", f"({factor} * wrong * wrong)")


def told(factor):
    return f"""
@Tiny.hook
def train_metrics(self, logits, *, y):
    return {{"size": {factor} * abs(logits).mean()}}
"""


def rule(factor):
    return f"""
@Tiny.hook
def optimizer(self, hp):
    return optax.chain(optax.scale({factor}), optax.sgd(hp.learning_rate))
"""


def expected(book, params, step):
    """The loss of the next step, and the mean size of the logits, eagerly."""
    one, two = params["layers"][0], params["layers"][2]
    batch = book["ROWS"][step % 5]
    hidden = np.maximum(batch["x"] @ one["kernel"] + one["bias"], 0)
    logits = hidden @ two["kernel"] + two["bias"]
    with jax.disable_jit():
        number = book["squared_error"](logits, batch["y"], 0.1)
    return float(number), float(np.abs(logits).mean())


def swapped(book, run, cell):
    """What a swap and a step compiled, and the row of the step, which is checked."""
    book.cell(cell)
    number, size = expected(book, run.params, run.step)
    with count_compiles() as count:
        run.swap()
        run.advance(1)
    assert losses(run)[-1] == pytest.approx(number, rel=1e-5), cell
    return dict(count.compiled), {n: v[-1] for n, v in run.history().items()}, size


def test_train_metrics_come_and_go_beside_a_loss_whose_constants_are_inputs():
    book = tiny()
    with live(book, steps=1) as run:
        for factor in (1.5, 2.5):
            swapped(book, run, loss(factor))
        compiled, _, _ = swapped(book, run, loss(3.5))
        assert compiled == {}, "the constant is an input by now"

        compiled, row, size = swapped(book, run, told(0.5))
        assert compiled == {"loss": 1}
        assert row["size"] == pytest.approx(0.5 * size, rel=1e-5)
        swapped(book, run, loss(4.5))
        compiled, row, size = swapped(book, run, loss(5.5))
        assert compiled == {}
        assert row["size"] == pytest.approx(0.5 * size, rel=1e-5)
        compiled, row, size = swapped(book, run, told(0.7))
        assert compiled == {"loss": 1}, "a constant that is no input yet"
        assert row["size"] == pytest.approx(0.7 * size, rel=1e-5)

        outcomes = Outcomes()
        compiled, row, _ = swapped(book, run, "del Tiny.train_metrics")
        assert compiled == {}
        assert outcomes.not_hits == {"loss": "rebound"}, "the one without them"
        assert np.isnan(row["size"])
        with count_compiles() as count:
            run.swap(undo=True)
            run.advance(1)
        assert not count.compiled
        assert np.isfinite(run.history()["size"][-1])


def moved(book, run, cell):
    """What a swap and a step compiled, and how far the step went along the gradient."""
    book.cell(cell)
    with count_compiles() as count:
        run.swap()
        before = run.params
        run.advance(1)
    steps = jax.tree.map(np.subtract, run.params, before)
    norm = np.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(steps)))
    return dict(count.compiled), float(norm / run.history()["grad_norm"][-1])


def test_settings_of_the_update_come_and_go_beside_an_optimizer_with_inputs():
    book = tiny()
    with live(book, steps=1, learning_rate=0.5) as run:
        for factor in (0.5, 0.6):
            moved(book, run, rule(factor))
        for cell, compiled, rate in (
            (rule(0.7), {}, 0.35),
            ("@Tiny.hook\ndef ema(self): return 0.5", {"optimizer": 1}, 0.35),
            (rule(0.8), {}, 0.4),
            (rule(0.9), {}, 0.45),
            ("del Tiny.ema", {}, 0.45),
            ("@Tiny.hook\ndef clip_norm(self): return 1e-3", {"optimizer": 1}, None),
            ("del Tiny.clip_norm", {}, 0.45),
            ("@Tiny.hook\ndef metrics(self, logits, *, y): return {}", {}, 0.45),
            ("del Tiny.metrics", {}, 0.45),
        ):
            told, gone = moved(book, run, cell)
            assert told == compiled, cell
            if rate is not None:
                assert gone == pytest.approx(rate, rel=1e-4), cell


SIZED = """
class Tiny(Tiny):
    scales: GraphConst[list] = [1.0, 2.0]

    def loss(self, logits, *, y):
        return squared_error(logits, y, self.smoothing) * sum(self.scales)
"""


def test_a_default_that_is_changed_in_place_is_noticed_by_its_own_run_alone():
    book = tiny(SIZED)
    with live(book) as run, live(book) as other:
        assert run.stale == other.stale == ()
        run.handle.experiment.scales.append(3.0)
        assert run.stale == ("loss",)
        assert other.stale == ()
        assert not any(book.handle().experiment.scales[2:])
        run.swap()
        assert run.stale == ()
