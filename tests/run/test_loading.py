from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import check_error, live, losses, same, tiny
from flax import nnx

from nitro_repl import ModelError

STATEFUL = """
class Net(nnx.Module):
    def __init__(self, rngs, width=4):
        self.one = nnx.Linear(3, width, rngs=rngs)
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        self.two = nnx.Linear(width, 2, rngs=rngs)

    def __call__(self, x):
        return self.two(nnx.relu(self.norm(self.one(x))))

class Tiny(Tiny):
    def build_model(self, rngs):
        return Net(rngs)
"""


@pytest.fixture(scope="module")
def book():
    return tiny(STATEFUL)


@pytest.mark.parametrize("what", ["params", "model"])
def test_a_round_trip_goes_on_as_if_nothing_had_been(book, what):
    expected = losses(book.train(max_steps=5))
    with live(book, steps=2) as run:
        kept = run.params if what == "params" else run.model()
        run.load(kept)
        run.advance(3)
        assert losses(run) == expected


LARGE = """
class Net(nnx.Module):
    def __init__(self, rngs):
        self.one = nnx.Linear(3, 2, rngs=rngs)
        self.large = nnx.Param(np.zeros((2000, 1000), "f"))

    def __call__(self, x):
        return self.one(x) + self.large[0, 0]

class Tiny(Tiny):
    def build_model(self, rngs):
        return Net(rngs)
"""


def test_loaded_parameters_are_a_copy(book):
    with live(tiny(LARGE), steps=0) as run:
        for _ in range(5):  # a transfer reads its source after the call has returned
            kept = run.params
            run.load(kept)
            kept["large"][...] = 100
            assert run.params["large"].max() < 50
    with live(book) as run:
        model = run.model()
        run.load(model)
        run.advance(2)
        assert np.isfinite(np.asarray(model(book["ROWS"][0]["x"]))).all()


def test_going_back_to_kept_parameters_and_statistics(book):
    with live(book) as run:
        kept, model = run.params, run.model()
        run.advance(3)
        assert not same(run.params, kept)
        run.load(kept)
        assert same(run.params, kept)
        assert not same(run.model().norm.mean[...], model.norm.mean[...])
        run.load(model)
        assert same(run.model().norm.mean[...], model.norm.mean[...])
        assert run.step == 5, "steps go on counting"


def test_a_model_of_another_seed_can_be_loaded(book):
    with live(book) as run, live(book, seed=5) as other:
        run.load(other.params)
        assert same(run.params, other.params)
        other.load(jax.tree.map(jnp.asarray, run.params))
        run.load({k: dict(v) for k, v in run.params.items()})


REFUSED = {
    "another shape": (
        lambda p: {**p, "one": {**p["one"], "kernel": np.zeros((3, 5), "f")}},
        ("one.kernel", "[3, 5]", "[3, 4]"),
    ),
    "another dtype": (
        lambda p: {**p, "one": {**p["one"], "kernel": np.zeros((3, 4), "i")}},
        ("one.kernel", "int32", "float32"),
    ),
    "a missing parameter": (
        lambda p: {k: v for k, v in p.items() if k != "two"}, ("two.bias", "missing"),
    ),
    "one too many": (
        lambda p: {**p, "three": {"kernel": np.zeros(2, "f")}},
        ("three.kernel", "no such parameter"),
    ),
    "a text": (lambda p: "params.npz", ("str", "load")),
    "a list": (lambda p: [1, 2], ("list", "load")),
    "texts for arrays": (
        lambda p: {**p, "one": {"kernel": "a", "bias": "b"}}, ("one.bias",),
    ),
    "another model": (
        lambda p: nnx.Linear(3, 4, rngs=nnx.Rngs(0)), ("bias",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_loading_refuses(book, name):
    change, words = REFUSED[name]
    with live(book) as run:
        before = run.params
        with pytest.raises(ModelError) as error:
            run.load(change(run.params))
        check_error(error.value, *words)
        assert same(run.params, before)
        run.advance(1)
        assert run.exception is None
        assert [e["command"] for e in run.journal.entries] == ["advance", "advance"]


def test_a_model_of_another_width_is_refused(book):
    with live(book) as run:
        with pytest.raises(ModelError) as error:
            run.load(book["Net"](nnx.Rngs(0), width=5))
        check_error(error.value, "norm.bias", "[5]", "[4]")
