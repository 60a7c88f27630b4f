"""`fuse=True`: the whole train step is one program, equal to the split one."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
from cells import Outcomes, live, losses, tiny
from counting import count_compiles

import nitro_repl as nitro

RICH = """
class Net(nnx.Module):
    def __init__(self, rngs):
        # A bias before BatchNorm has no gradient but rounding, which adam magnifies.
        self.inner = nnx.Linear(3, 8, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.drop = nnx.Dropout(0.2, rngs=rngs)
        self.outer = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x):
        return self.outer(self.drop(nnx.relu(self.norm(self.inner(x)))))

class Tiny(Tiny):
    def build_model(self, rngs):
        return Net(rngs)

    def loss(self, logits, *, y, key):
        noise = 0.01 * jax.random.normal(key, logits.shape)
        return Mean(squared_error(logits + noise, y, self.smoothing) * 4, 4)

    def train_metrics(self, logits, *, y):
        return {"acc": Mean((logits.argmax(-1) == y).sum(), len(y))}

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)

    def learning_rate(self):
        return 0.01
"""


def close(one, two):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_it_is_the_split_step_to_rounding():
    book = tiny(RICH)
    fused = book.train(max_steps=7, fuse=True)
    split = book.train(max_steps=7)
    assert losses(fused) == pytest.approx(losses(split), rel=1e-5)
    close(fused.params, split.params)
    for name in ("acc", "grad_norm", "learning_rate"):
        got, want = fused.history("train")[name], split.history("train")[name]
        assert got == pytest.approx(want, rel=1e-5)
    one, two = fused.handle.validate(), split.handle.validate()
    assert one == pytest.approx(two, rel=1e-5)


def test_one_program_is_compiled_and_events_name_it(fresh_programs):
    book = tiny()
    with count_compiles() as count:
        book.train(fuse=True)
    assert dict(count.compiled) == {"step": 1}
    with count_compiles() as count:
        book.train(fuse=True)
    assert count.nothing_of_ours
    assert [event.program for event in nitro.programs.events()] == ["step", "step"]


def test_what_is_edited_is_compiled_whole_and_what_is_not_is_a_hit(fresh_programs):
    cell = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return X * squared_error(logits, y, self.smoothing)
"""
    book = tiny(cell.replace("X", "0.5"))
    book.train(fuse=True)
    book.cell(cell.replace("X", "0.5") + "# a comment\n")
    outcomes = Outcomes()
    book.train(fuse=True)
    assert outcomes.not_hits == {}
    for number, compiled in (("0.75", {"step": 1}), ("0.875", {})):
        book.cell(cell.replace("X", number))
        with count_compiles() as count:
            fused = losses(book.train(fuse=True))
        assert dict(count.compiled) == compiled
        assert fused == pytest.approx(losses(book.train()), rel=1e-5)


def test_a_live_value_compiles_nothing_and_reaches_the_step():
    book = tiny()
    with live(book, steps=1, fuse=True) as run:
        with count_compiles() as count:
            run.set(smoothing=0.4, learning_rate=0.0)
            run.advance(2)
        assert count.nothing_of_ours
        params = run.params
        run.advance(1)
        assert run.history("train")["learning_rate"].tolist() == [0.5, 0, 0, 0]
    close(params, run.params)


def test_a_swap_takes_the_edit_and_the_record_says_what_ran(tmp_path):
    book = tiny()
    with live(book, steps=1, fuse=True, run_dir=tmp_path) as run:
        book.cell("""
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return (logits ** 2).sum() + 7
""")
        assert run.stale == ("step",)
        run.swap()
        assert run.stale == ()
        run.advance(1)
        run.swap(undo=True)
    assert losses(run)[1] > 7
    (path,) = tmp_path.glob("*/*/run.json")
    recorded = json.loads(path.read_text())["programs"]
    assert recorded["variant"] == "fused"
    assert "step train" in recorded


def test_a_step_that_is_not_finite_changes_nothing():
    book = tiny("""
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return squared_error(logits, y, self.smoothing)
""")
    handle = book.handle(max_steps=4, fuse=True)
    run = handle.train(background=True, paused=True)
    run.advance(2)
    good = run.params
    run.set(smoothing=float("nan"))
    with pytest.raises(nitro.NonFiniteError):
        run.advance(1)
    close(good, run.params)
    assert run.step == 2


def test_a_new_batch_shape_compiles_the_step_once_more():
    book = tiny("ROWS.append({k: v[:3] for k, v in ROWS[0].items()})")
    with count_compiles() as count:
        book.train(max_steps=12, fuse=True)
    assert dict(count.compiled)["step"] <= 2
    shapes = [e for e in nitro.programs.events() if e.program == "step"]
    assert any("shapes" in event.reason for event in shapes)
