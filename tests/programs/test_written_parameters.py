"""A parameter that `forward` writes: the update is on top of that, as with flax."""

from __future__ import annotations

import jax
import numpy as np
import optax
import pytest
from cells import check_error, live, losses, same, tiny
from flax import nnx

from nitro_repl import HookError
from nitro_repl.testing import count_compiles

NORMED = """
class Normed(nnx.Module):
    def __init__(self, rngs):
        self.one = nnx.Linear(3, 4, rngs=rngs)
        self.two = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        kernel = self.one.kernel
        kernel[...] = kernel[...] / jnp.linalg.norm(kernel[...])
        return self.two(nnx.relu(self.one(x)))

class Tiny(Tiny):
    def build_model(self, rngs):
        return Normed(rngs)
"""
LAYERS = """
class Tiny(Tiny):
    def build_model(self, rngs):
        return nnx.Sequential(
            nnx.{}(nnx.Linear(3, 4, rngs=rngs), rngs=rngs), nnx.relu,
            nnx.Linear(4, 2, rngs=rngs),
        )
"""
MODELS = {
    "by hand": NORMED,
    "SpectralNorm": LAYERS.format("SpectralNorm"),
    "WeightNorm": LAYERS.format("WeightNorm"),
}


def with_flax(book, steps):
    """Losses and parameters of the loop that flax shows."""
    experiment = book["Tiny"]()
    model = experiment.build_model(nnx.Rngs(0))
    model.train()
    optimizer = nnx.Optimizer(model, optax.sgd(0.5), wrt=nnx.Param)

    def value(model, batch):
        return experiment.loss(experiment.forward(model, x=batch["x"]), y=batch["y"])

    found = []
    for batch in book["ROWS"][:steps]:
        number, grads = nnx.value_and_grad(value)(model, batch)
        optimizer.update(model, grads)
        found.append(float(number))
    return found, nnx.to_pure_dict(nnx.state(model, nnx.Param))


@pytest.mark.parametrize("fuse", [False, True], ids=["split", "fused"])
@pytest.mark.parametrize("model", MODELS)
def test_it_is_updated_as_flax_does(model, fuse):
    book = tiny(MODELS[model])
    run = book.train(max_steps=4, fuse=fuse)
    expected, params = with_flax(book, 4)
    assert losses(run) == pytest.approx(expected, rel=1e-5)
    for mine, its in zip(
        jax.tree.leaves(run.params), jax.tree.leaves(params), strict=True
    ):
        np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("fuse", [False, True], ids=["split", "fused"])
@pytest.mark.parametrize("mode", ["mean", "joint"])
def test_over_micro_batches_it_is_refused_before_any_compile(mode, fuse):
    handle = tiny(NORMED).handle(accum=5, accum_mode=mode, fuse=fuse, max_steps=1)
    with count_compiles() as count, pytest.raises(HookError) as error:
        handle.train(background=False)
    check_error(error.value, "`one.kernel`", "SpectralNorm", "accum=1")
    assert count.compiled == {}


def test_a_forward_that_is_known_is_refused_over_micro_batches_too():
    book = tiny(NORMED)
    book.train(max_steps=1)
    with pytest.raises(HookError) as error:
        book.train(max_steps=1, accum=5)
    check_error(error.value, "`one.kernel`", "accum=1")


def test_a_step_that_is_not_finite_writes_nothing():
    edited = NORMED.replace("jnp.linalg.norm(kernel[...])", "(x.sum() * jnp.nan)")
    book = tiny(NORMED)
    with live(book) as run:
        before = run.params
        book.cell(edited)
        run.swap()
        run.set(on_nonfinite="skip")
        run.advance(1)
        assert same(run.params, before)


def test_what_a_frozen_module_writes_is_dropped_as_in_eval_mode():
    frozen = '    def frozen(self, path, leaf):\n        return path[0] == "one"\n'
    book = tiny(NORMED + frozen)
    run = book.train(max_steps=2)
    fresh = nnx.to_pure_dict(nnx.state(book["Tiny"]().build_model(nnx.Rngs(0))))
    assert same(run.params["one"], fresh["one"])


def test_a_write_of_another_dtype_is_refused_before_any_compile():
    other = NORMED.replace(
        "kernel[...] = kernel[...] /",
        "kernel.set_value(kernel[...].astype('bfloat16')); kernel.get_value() /",
    )
    with count_compiles() as count, pytest.raises(HookError) as error:
        tiny(other).train(max_steps=1)
    check_error(error.value, "`one.kernel`", "bfloat16[3, 4]", "float32[3, 4]")
    assert count.compiled == {}


def test_an_edit_that_begins_to_write_compiles_the_optimizer_too(fresh_programs):
    plain = NORMED.replace("kernel[...] = ", "scaled = ")
    book = tiny(plain)
    with live(book) as run:
        with count_compiles() as count:
            book.cell(NORMED)
            run.swap()
            run.advance(1)
        assert "optimizer" in count.compiled
        with count_compiles() as count:
            book.cell(plain)
            run.swap()
        assert count.nothing


HELD = """
def twice(variable, value):
    return 2 * value

class Doubled(nnx.Param):
    def get_value(self, **given):
        return 2 * super().get_value(**given)

class Held(nnx.Module):
    def __init__(self, rngs):
        self.kernel = {}

    def __call__(self, x):
        return x @ self.kernel[...]

class Tiny(Tiny):
    def build_model(self, rngs):
        return Held(rngs)
"""
HOOKED = {
    "on_get_value": "nnx.Param(jnp.ones((3, 2)), on_get_value=twice)",
    "on_set_value": "nnx.Param(jnp.ones((3, 2)), on_set_value=twice)",
    "get_value": "Doubled(jnp.ones((3, 2)))",
}


@pytest.mark.filterwarnings("ignore:Variable hooks are deprecated")
@pytest.mark.parametrize("kind", HOOKED)
def test_what_reads_and_writes_of_a_parameter_go_through_is_as_with_flax(kind):
    book = tiny(HELD.format(HOOKED[kind]))
    run = book.train(max_steps=3)
    expected, _ = with_flax(book, 3)
    assert losses(run) == pytest.approx(expected, rel=1e-5)
    assert run.params["kernel"].shape == (3, 2)
    shown = run.model()(book["ROWS"][0]["x"])
    found = run.handle.predict({"x": book["ROWS"][0]["x"]})
    np.testing.assert_allclose(found, shown, rtol=1e-5)


WRAPPED = """
class Wrapped(nnx.Module):
    def __init__(self, rngs):
        self.one = nnx.Linear(3, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.two = nnx.Linear(4, 2, rngs=rngs)

    def block(self, x):
        {}
        return nnx.relu(self.norm(self.one(x)))

    def __call__(self, x):
        return self.two(nnx.{}(lambda model, x: model.block(x))(self, x))

class Tiny(Tiny):
    def build_model(self, rngs):
        return Wrapped(rngs)
"""
WRITE = "self.one.kernel[...] = self.one.kernel[...] / 2"


@pytest.mark.parametrize("wrapper", ["jit", "remat"])
@pytest.mark.parametrize("settings", [{}, {"fuse": True}], ids=["split", "fused"])
def test_what_a_wrapper_hands_back_as_it_was_is_not_written(wrapper, settings):
    plain = tiny(WRAPPED.format("pass", wrapper))
    expected, _ = with_flax(plain, 2)
    run = plain.train(max_steps=2, **settings)
    assert losses(run) == pytest.approx(expected, rel=1e-5)
    for mode in ("mean", "joint"):
        plain.train(max_steps=1, accum=5, accum_mode=mode, **settings)
    control = tiny(WRAPPED.format(WRITE, wrapper))
    expected, _ = with_flax(control, 2)
    assert losses(control.train(max_steps=2, **settings)) == pytest.approx(
        expected, rel=1e-5
    )
    with pytest.raises(HookError) as error:
        control.train(max_steps=1, accum=5, **settings)
    check_error(error.value, "`one.kernel`")
