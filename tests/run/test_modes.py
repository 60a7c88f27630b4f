"""A live run goes over to `train_step` and back, or is told why it cannot."""

from __future__ import annotations

import jax
import numpy as np
import optax
import pytest
from cells import check_error, live, losses, same, tiny

from nitro_repl import HookError, NitroError
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

MANUAL = """
@Tiny.hook
def setup_optimizers(self, model):
    made = optax.inject_hyperparams(optax.sgd)(learning_rate=0.25, momentum=0.5)
    return nnx.Optimizer(model, made, wrt=nnx.Param)

@Tiny.hook
def train_step(self, model, optimizer, *, x, y):
    def value(model):
        return self.loss(self.forward(model, x=x), y=y)

    loss, grads = nnx.value_and_grad(value)(model)
    optimizer.update(model, grads)
    return {"loss": loss}
"""
BACK = """
del Tiny.train_step
del Tiny.setup_optimizers
"""


def by_hand(book, params, first, steps, tx):
    """Losses and parameters of some steps by optax alone."""

    def value(params, batch):
        one, two = (params["layers"][n] for n in (0, 2))
        hidden = jax.nn.relu(batch["x"] @ one["kernel"] + one["bias"])
        logits = hidden @ two["kernel"] + two["bias"]
        return book["squared_error"](logits, batch["y"], 0.1)

    @jax.jit
    def step(params, state, batch):
        loss, grads = jax.value_and_grad(value)(params, batch)
        updates, state = tx.update(grads, state, params)
        return loss, optax.apply_updates(params, updates), state

    state, found = tx.init(params), []
    for number in range(first, first + steps):
        loss, params, state = step(params, state, book["ROWS"][number % 5])
        found.append(float(loss))
    return found, params


def close(got, want):
    for one, two in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


def test_a_run_goes_over_to_train_step_and_back_and_computes_as_by_hand():
    book = tiny()
    with live(book, steps=2) as run:
        began = run.params
        book.cell(MANUAL)
        with count_compiles() as count:
            said = str(run.swap())
        assert dict(count.compiled) == {"step": 1}, count
        assert same(run.params, began), "a swap moves nothing"
        assert "optimizer state" in said
        assert "learning_rate" in said, "it keeps 0.5, and setup_optimizers says 0.25"
        run.unset("learning_rate")
        run.advance(3)
        told, params = by_hand(book, began, 2, 3, optax.sgd(0.25, momentum=0.5))
        np.testing.assert_allclose(losses(run)[2:], told, rtol=1e-5)
        close(run.params, params)
        assert run.handle.validate()["val_loss"] > 0

        began = run.params
        book.cell(BACK)
        with count_compiles() as count:
            run.swap()
        assert not count.compiled, "the programs from before"
        run.unset("learning_rate")
        run.advance(2)
        told, params = by_hand(book, began, 5, 2, optax.sgd(0.5))
        np.testing.assert_allclose(losses(run)[5:], told, rtol=1e-5)
        close(run.params, params)

        with count_compiles() as count:
            run.swap(undo=True)
            run.advance(1)
            run.swap(undo=True)
            run.advance(1)
        assert not count.compiled, "both are known"
        assert run.step == 9


def test_how_parameters_are_updated_is_asked_when_the_automatic_step_comes():
    book = tiny(MANUAL)
    with live(book, steps=1) as run:
        book.cell(f"""{BACK}
@Tiny.hook
def frozen(self, path, leaf): return "0" in map(str, path)

@Tiny.hook
def clip_norm(self): return 1e-3
""")
        run.swap()
        before = run.params
        run.set(learning_rate=1.0, weight_decay=0.0)
        run.advance(1)
        after = run.params
    assert same(after["layers"][0], before["layers"][0]), "frozen"
    moved = jax.tree.map(np.subtract, after, before)
    norm = np.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(moved)))
    assert norm == pytest.approx(1e-3, rel=1e-3), "clipped"


def test_decay_leaves_vectors_alone_on_the_way_back_from_train_step():
    book = tiny(MANUAL)
    with live(book, steps=1) as run:
        book.cell(
            f"{BACK}\n@Tiny.hook\ndef loss(self, logits): return 0 * logits.sum()"
        )
        run.swap()
        before = run.params["layers"][0]
        run.set(learning_rate=0.5, weight_decay=0.5)
        run.advance(1)
        after = run.params["layers"][0]
    assert same(after["bias"], before["bias"])
    np.testing.assert_allclose(after["kernel"], 0.75 * before["kernel"], rtol=1e-6)


ONE_HOOK = MANUAL[MANUAL.index("@Tiny.hook\ndef train_step") :]
AUTOMATIC = "@Tiny.hook\ndef param_group(self, path, leaf): return 'all'"
DECAY = "@Tiny.hook\ndef schedules(self): return {'weight_decay': 0.1}"
REFUSED = {
    "accum": ({"accum": 2}, MANUAL, ("no `accum`", "train_step")),
    "clip_norm": ({"clip_norm": 1.0}, MANUAL, ("no `clip_norm`", "train_step")),
    "ema": ({"ema": 0.5}, MANUAL, ("no `ema`", "train_step")),
    "half": ({}, ONE_HOOK, ("`setup_optimizers` is not", "manual mode needs both")),
    "a hook without effect": ({}, MANUAL + AUTOMATIC, ("`param_group` has no effect",)),
    "a schedule": ({}, MANUAL + DECAY, ("`weight_decay`", "inject_hyperparams")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_way_to_train_step_that_would_lose_something_is_refused(name):
    settings, cell, words = REFUSED[name]
    book = tiny("ROWS = ROWS[:4]")
    with live(book, steps=1, **settings) as run:
        book.cell(cell)
        with count_compiles() as count, pytest.raises(NitroError) as refused:
            run.swap()
        check_error(refused.value, *words)
        assert not count.compiled
        run.advance(1)
        assert "grad_norm" in run.history(), "the automatic step goes on"
        assert np.isfinite(losses(run)).all()


def test_a_way_back_without_a_loss_is_refused_and_names_it():
    book = tiny(MANUAL.replace("self.loss(", "squared("), "Tiny.loss = None")
    book.cell("""
del Tiny.loss
def squared(logits, y): return squared_error(logits, y, 0.0)

@Tiny.hook
def metrics(self, logits, *, y): return {"n": Sum(len(y))}
""")
    with live(book, steps=1) as run:
        book.cell(BACK)
        with pytest.raises(HookError) as refused:
            run.swap()
        check_error(refused.value, "`loss`")
        run.advance(1)
        assert np.isfinite(losses(run)).all()
