"""Frozen parameters stay as they are; an average over steps is kept and used."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from cells import check_error, live, tiny
from counting import count_compiles

from nitro_repl import HookError, SettingError

pytestmark = pytest.mark.usefixtures("nothing_known")

RICH = """
class Net(nnx.Module):
    def __init__(self, rngs):
        self.body = nnx.Sequential(
            nnx.Linear(3, 4, rngs=rngs), nnx.BatchNorm(4, rngs=rngs),
            nnx.Dropout(0.5, rngs=rngs),
        )
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.head = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        return self.head(self.norm(self.body(x)))

class Tiny(Tiny):
    def build_model(self, rngs):
        return Net(rngs)

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)

    def learning_rate(self):
        return 0.05
"""
FROZEN = """
@Tiny.hook
def frozen(self, path, leaf):
    return path[0] == "body"
"""
EMA = """
@Tiny.hook
def ema(self):
    return 0.75
"""


def state_of(run):
    return jax.tree.unflatten(run._loop.programs.blueprint.opt, run._loop.carry.opt)


def statistics(run, part):
    from flax import nnx

    module = getattr(run.model("live"), part)
    found = nnx.to_pure_dict(nnx.state(module, nnx.BatchStat))
    return [np.asarray(leaf) for leaf in jax.tree.leaves(found)]


def equal(one, two):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


# ---- frozen


@pytest.mark.parametrize("fuse", [False, True])
def test_frozen_parameters_keep_their_bits_have_no_state_and_run_in_eval_mode(fuse):
    book = tiny(RICH, FROZEN)
    with live(book, steps=0, fuse=fuse) as run:
        first = run.params
        body, norm = statistics(run, "body"), statistics(run, "norm")
        run.advance(3)
        after = run.params
        assert equal(after["body"], first["body"])
        assert not equal(after["head"], first["head"])
        assert equal(statistics(run, "body"), body)
        assert not equal(statistics(run, "norm"), norm)
        adam = state_of(run).groups["default"][0]
        trained = len(jax.tree.leaves({k: first[k] for k in ("head", "norm")}))
        assert len(jax.tree.leaves(adam.mu)) == trained
        assert "body" not in str(jax.tree_util.tree_flatten_with_path(adam.mu)[0])
        # A Dropout that trains would make two forwards of one batch differ.
        forward = run.handle.plan.blueprint.structure.train
        dropout = [a for a in forward.attributes if a[0] == "deterministic"]
        assert [a[1].value for a in dropout] == [True]


def test_freezing_and_thawing_a_live_run_keeps_what_adam_knows():
    book = tiny(RICH)
    with live(book, steps=3) as run:
        before = state_of(run).groups["default"][0]
        book.cell(FROZEN)
        assert run.stale == ("forward", "backward", "optimizer")
        run.swap()
        frozen = state_of(run).groups["default"][0]
        assert equal(frozen.mu["head"], before.mu["head"])
        assert int(frozen.count) == 3
        held = run.params["body"]
        run.advance(2)
        assert equal(run.params["body"], held)
        book.cell("@Tiny.hook\ndef frozen(self, path, leaf): return False")
        with count_compiles() as count:
            run.swap()
        assert count.nothing_of_ours  # the programs from before
        run.advance(1)
        assert not equal(run.params["body"], held)
        thawed = state_of(run).groups["default"][0]
        assert len(jax.tree.leaves(thawed.mu)) == len(jax.tree.leaves(before.mu))
        assert int(thawed.count) == 6


def test_a_model_that_is_frozen_as_a_whole_is_refused():
    book = tiny(RICH, "@Tiny.hook\ndef frozen(self, path, leaf): return True")
    with pytest.raises(HookError) as error:
        book.handle()
    check_error(error.value, "nothing to train", "frozen")


# ---- an average over steps


@pytest.mark.parametrize("fuse", [False, True])
def test_the_average_is_the_closed_form_and_what_is_evaluated(fuse):
    book = tiny(RICH, EMA, FROZEN)
    x = book["ROWS"][0]["x"]
    with live(book, steps=0, fuse=fuse, eval_every=3) as run:
        average = run.params["head"]["kernel"]
        first = run.handle.predict({"x": x})
        np.testing.assert_array_equal(first, run.handle.predict({"x": x}, "live"))
        for _ in range(3):
            run.advance(1)
            average = 0.75 * average + 0.25 * run.params["head"]["kernel"]
        got = head(run.model())
        np.testing.assert_allclose(got, average, rtol=1e-5)
        np.testing.assert_array_equal(head(run.model("ema")), got)
        one, params = run.model("live"), run.params
        np.testing.assert_array_equal(head(one), params["head"]["kernel"])
        frozen = run.model().body.layers[0].kernel[...]
        np.testing.assert_array_equal(frozen, params["body"]["layers"][0]["kernel"])
        handle = run.handle
        for model, which in ((run.model(), None), (one, "live")):
            close(handle.predict({"x": x}, which), model(x))
        losses = [handle.validate()["val_loss"], handle.validate("live")["val_loss"]]
        assert losses[0] != losses[1]
        assert run.history("val")["val_loss"][-1] == pytest.approx(losses[0], rel=1e-6)


def head(model):
    return np.asarray(model.head.kernel[...])


def close(one, two):
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


def test_an_average_is_begun_kept_and_dropped_on_a_live_run():
    book = tiny(RICH)
    with live(book, steps=2) as run:
        for params, words in (("ema", 'params="ema"'), ("mean", "'mean'")):
            with pytest.raises(SettingError) as error:
                run.model(params)
            check_error(error.value, words, "live")
        book.cell(EMA)
        run.swap()
        np.testing.assert_array_equal(head(run.model()), run.params["head"]["kernel"])
        run.advance(2)
        kept = head(run.model())
        assert not np.array_equal(kept, run.params["head"]["kernel"])
        book.cell("@Tiny.hook\ndef ema(self): return 0.5")
        assert run.stale == ("optimizer",)
        run.swap()
        np.testing.assert_array_equal(head(run.model()), kept)
        run.swap(undo=True)
        book.cell("del Tiny.ema")
        run.swap()
        run.advance(1)
        np.testing.assert_array_equal(head(run.model()), run.params["head"]["kernel"])


HALF = RICH.replace("Linear(4, 2,", "Linear(4, 2, param_dtype=jnp.bfloat16,")


def test_a_bfloat16_model_averages_in_float32():
    plan = tiny(HALF).handle(ema=0.999).plan.blueprint
    kept = jax.tree.unflatten(plan.opt, plan.opt_avals).ema["head.kernel"]
    params = dict(zip(plan.structure.names, plan.structure.param_avals, strict=True))
    assert kept.dtype == np.float32
    assert params["head.kernel"].dtype == jax.numpy.bfloat16
