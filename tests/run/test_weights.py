"""`weights=`: a new run begins where another is, with an optimizer of its own."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from cells import QUIET, check_error, live, same, tiny
from counting import count_compiles

import nitro_repl as nitro
from nitro_repl import ModelError, SettingError

pytestmark = pytest.mark.usefixtures("nothing_known")

ADAM = """
class Net(nnx.Module):
    def __init__(self, rngs):
        self.inner = nnx.Linear(3, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)

    def __call__(self, x):
        return self.norm(self.inner(x))[:, :2]

class Tiny(Tiny):
    def build_model(self, rngs):
        return Net(rngs)

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)

    def decay_anchor(self):
        return "initial"
"""


def initial(handle):
    return handle.built.structure.nested([np.asarray(p) for p in handle.built.params])


def test_every_source_of_weights_starts_a_run_with_a_fresh_optimizer():
    book = tiny(ADAM)
    with live(book, steps=3) as run:
        params, model = run.params, run.model()
        mean = np.asarray(model.norm.mean[...])
        assert abs(mean).max() > 0
        for source in (run, run.handle, model, params):
            with count_compiles() as count:
                handle = book.handle(weights=source, seed=5)
                with_state = handle.train(background=True, paused=True)
            try:
                assert same(with_state.params, params)
                got = np.asarray(with_state.model().norm.mean[...])
                assert np.array_equal(got, mean) == (source is not params)
                adam = jax.tree.leaves(with_state._loop.carry.opt)
                assert all(not np.any(leaf) for leaf in adam)
                assert same(initial(handle), params)
                anchor = handle.plan.settled.anchors["inner.kernel"]
                assert np.array_equal(anchor, params["inner"]["kernel"])
                with_state.advance(1)
                assert not same(with_state.params, params)
            finally:
                with_state.stop()
            assert count.nothing_of_ours
        assert same(run.params, params)
        untrained = book.handle(seed=7)
        assert same(initial(book.handle(weights=untrained)), initial(untrained))


def test_where_a_run_started_is_in_its_record_without_the_arrays(tmp_path):
    book = tiny(ADAM)
    with live(book, steps=1) as run:
        handle = book.handle(weights=run)
        assert handle.settings["weights"] == f"run {run.id} at step 1"
        assert book.handle(weights=run.params).settings["weights"] == "dict"


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (3, ("`weights` got int",)),
        ({"inner": {"kernel": np.ones((3, 4), "f")}}, ("`inner.bias`", "missing")),
    ],
)
def test_weights_that_do_not_fit_are_refused_before_any_compile(weights, words):
    book = tiny(ADAM)
    with count_compiles() as count, pytest.raises(ModelError) as error:
        book.handle(weights=weights)
    check_error(error.value, *words, "weights")
    assert count.nothing_of_ours


def test_a_field_of_that_name_is_no_setting():
    book = tiny("class Tiny(Tiny):\n    weights: Device[float] = 1.0")
    assert "weights" not in book.handle().settings
    with pytest.raises(SettingError):
        nitro.Nitro(book["Tiny"](), **QUIET, weight=3)
