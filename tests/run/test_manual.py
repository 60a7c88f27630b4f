# ruff: noqa: E501 (a case is a line)
"""Manual mode: `train_step` owns the step, here a least-squares GAN."""

from __future__ import annotations

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import QUIET, Notebook, check_error, live, losses, same
from flax import nnx

from nitro_repl import (
    FieldError,
    HookError,
    NonFiniteError,
    ScheduleError,
    SettingError,
)
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

GAN = """
import jax, jax.numpy as jnp, numpy as np, optax
from flax import nnx
import nitro_repl as nitro

rng = np.random.default_rng(0)
ROWS = [{"real": rng.normal(3, 0.5, (16, 1)).astype("float32"), "id": np.arange(16)}
        for _ in range(4)]

class Pair(nnx.Module):
    def __init__(self, rngs):
        self.generator = nnx.Sequential(
            nnx.Linear(2, 8, use_bias=False, rngs=rngs), nnx.BatchNorm(8, rngs=rngs),
            nnx.relu,
            nnx.Linear(8, 1, rngs=rngs))
        self.discriminator = nnx.Sequential(
            nnx.Linear(1, 8, rngs=rngs), nnx.relu, nnx.Linear(8, 1, rngs=rngs))

class GAN(nitro.Experiment):
    target: nitro.Device[float] = 1.0
    poison: nitro.Device[float] = 1.0
    entry: nitro.Device[float] = 1.0
    update: nitro.Device[float] = 1.0
    moment: nitro.Device[float] = 1.0
    width: nitro.GraphConst[int] = 8

    def build_data(self):
        return {"train": ROWS, "val": ROWS[:1]}

    def build_model(self, rngs):
        return Pair(rngs)

    def forward(self, model, *, real):
        return model.generator(real * jnp.ones((1, 2)))

    def metrics(self, outputs, *, real):
        return {"mean": nitro.Mean(outputs.sum(), len(outputs))}

    def setup_optimizers(self, model):
        adam = optax.inject_hyperparams(optax.adam)
        return {
            "generator": nnx.Optimizer(
                model.generator, adam(2e-3, b1=0.5), wrt=nnx.Param),
            "discriminator": nnx.Optimizer(
                model.discriminator, adam(1e-3, b1=0.5), wrt=nnx.Param),
        }

    def train_step(self, model, optimizers, *, real, key):
        noise = jax.random.normal(key, (len(real), 2))
        fake = model.generator(noise)

        def d_loss(discriminator):
            return (((discriminator(real) - self.target) ** 2).mean()
                    + (discriminator(fake) ** 2).mean())

        d, grads = nnx.value_and_grad(d_loss)(model.discriminator)
        optimizers["discriminator"].update(model.discriminator, grads)

        def g_loss(generator):
            judged = model.discriminator(generator(noise))
            return ((judged - self.target) ** 2).mean() + 0 * jnp.log(self.poison)

        g, grads = nnx.value_and_grad(g_loss)(model.generator)
        grads = jax.tree.map(lambda g: g + 0 * jnp.log(self.update), grads)
        optimizers["generator"].update(model.generator, grads)
        count = optimizers["generator"].opt_state.inner_state[0].mu
        jax.tree.map(lambda m: m.set_value(m.get_value() + 0 * jnp.log(self.moment)),
                     count, is_leaf=lambda leaf: isinstance(leaf, nnx.Variable))
        return {"loss": d + g, "d_loss": d, "g_loss": g + 0 * jnp.log(self.entry)}
"""


@pytest.fixture(scope="module")
def book():
    return Notebook(GAN)


def gan(book, **settings):
    fields = settings.pop("fields", {})
    return book.handle("GAN", fields, **{"max_steps": 6, **settings})


def paused(book, steps=0, **settings):
    run = gan(book, max_steps=None, **settings).train(background=True, paused=True)
    if steps:
        run.advance(steps)
    return run


def everything(run):
    return run._worker.look(lambda loop: loop.carry)[:3]


def by_hand(book, steps):
    """The same GAN as an nnx loop; losses and the model that comes of it."""
    experiment = book["GAN"]()
    model = experiment.build_model(nnx.Rngs(0))
    model.train()
    made = experiment.setup_optimizers(model)
    step = nnx.jit(experiment.train_step)
    found = []
    for number in range(steps):
        real = jnp.asarray(book["ROWS"][number % 4]["real"])
        key = jax.random.fold_in(jax.random.key(0), zlib.crc32(b"train_step"))
        for part in (number, 0):  # the step, the micro-batch
            key = jax.random.fold_in(key, np.uint32(part))
        numbers = step(model, made, real=real, key=key)
        found.append(float(numbers["loss"]))
    return found, model


def test_a_least_squares_gan_trains_as_by_hand(book):
    run = gan(book, eval_every=3).train(background=False)
    told, model = by_hand(book, 6)
    np.testing.assert_allclose(losses(run), told, rtol=2e-5)
    trained = run.params["generator"]["layers"][0]["kernel"]
    kernel = np.asarray(model.generator.layers[0].kernel)
    np.testing.assert_allclose(trained, kernel, rtol=1e-3, atol=1e-6)
    statistics = run.model().generator.layers[1].mean
    np.testing.assert_allclose(
        statistics, model.generator.layers[1].mean, rtol=1e-4, atol=1e-6
    )
    history = run.history()
    assert {"d_loss", "g_loss", "generator.learning_rate"} <= set(history)
    assert {"generator.grad_norm", "discriminator.grad_norm"} <= set(history)
    assert "grad_norm" not in history, "of which optimizer?"
    total = history["d_loss"] + history["g_loss"]
    np.testing.assert_allclose(history["loss"], total, rtol=1e-6)
    assert set(run.history("val")) == {"step", "epoch", "mean"}
    names = {p.name for p in run._loop.programs.programs}
    assert names == {"step", "eval"}


def test_a_long_run_moves_the_generator_to_the_data(book):
    noise = {"real": np.random.default_rng(1).normal(size=(256, 1))}
    handle = gan(book, max_steps=1500)
    assert abs(handle.predict(noise).mean() - 3.0) > 1.5
    handle.train(background=False)
    assert abs(handle.predict(noise).mean() - 3.0) < 1.0


def test_rates_of_each_optimizer_are_set_live_and_compile_nothing(book):
    run = paused(book, 1)
    try:
        before = run.params
        with count_compiles() as count:
            run.set({"generator.learning_rate": 0.0, "discriminator.b1": 0.9})
            run.advance(1)
            run.set(target=0.5)
            run.advance(1)
        assert count.nothing
        after = run.params
        assert same(before["generator"], after["generator"])
        assert not same(before["discriminator"], after["discriminator"])
        rates = run.history()["generator.learning_rate"]
        np.testing.assert_allclose(rates, [2e-3, 0, 0], rtol=1e-6)
        run.unset("generator.learning_rate")
        run.advance(1)
        assert not same(after["generator"], run.params["generator"])
        with pytest.raises(FieldError, match=r"generator\.learning_rate"):
            run.set(learning_rate=1e-3)
    finally:
        run.stop()


def test_a_schedule_binds_to_an_optimizer_by_its_path(book):
    book.cell(
        "class Scheduled(GAN):\n    def schedules(self):\n"
        "        return {'generator.learning_rate': lambda total:\n"
        "                optax.linear_schedule(1e-3, 0.0, 4)}"
    )
    handle = book.handle("Scheduled", max_steps=4)
    with count_compiles() as count:
        run = handle.train(background=False)
    assert not count["step"]
    np.testing.assert_allclose(
        run.history()["generator.learning_rate"],
        [1e-3, 7.5e-4, 5e-4, 2.5e-4],
        rtol=1e-6,
    )


BAD = {
    "poison": ("the loss", 1),
    "entry": ("`g_loss` of train_step", 4),
    "update": ("a gradient of `generator`", 3),
    "moment": ("an update of a parameter", 2),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_finite_never_enters_the_state(book, name):
    said, step = BAD[name]
    run = paused(book, step - 1)
    clean = everything(run)
    run.set({name: -1.0})
    run.resume()
    with pytest.raises(NonFiniteError, match=f"{said}.* is nan at step {step}"):
        run.wait()
    assert same(everything(run), clean)
    assert run.step == step - 1


def test_an_edit_of_train_step_is_swapped_and_keeps_the_optimizers():
    book = Notebook(GAN)
    run = paused(book, 3)
    try:
        before = everything(run)
        book.cell(
            "@GAN.hook\n"
            "def train_step(self, model, optimizers, *, real):\n"
            "    d = (model.discriminator(real) ** 2).mean()\n"
            "    return {'loss': d + self.target}"
        )
        assert run.stale == ("step",)
        with count_compiles() as count:
            run.swap()
        assert set(count.compiled) == {"step"}
        assert same(everything(run), before)
        run.advance(1)
        assert losses(run)[3] != losses(run)[2]
        book.cell(
            "@GAN.hook\n"
            "def setup_optimizers(self, model):\n"
            "    adam = optax.inject_hyperparams(optax.adam)\n"
            "    return {'generator': nnx.Optimizer(model.generator, adam(1e-4),\n"
            "                                       wrt=nnx.Param)}"
        )
        run.swap()
        counts = [int(leaf) for leaf in everything(run)[2] if leaf.dtype == np.int32]
        assert counts == [3, 3]
        names = {row.name for row in run.status().values}
        assert "generator.learning_rate" in names
        assert "discriminator.learning_rate" not in names
    finally:
        run.stop()


def test_one_optimizer_with_a_device_rate_needs_no_dict():
    book = Notebook(
        GAN,
        "class One(GAN):\n"
        "    rate: nitro.Device[float] = 0.1\n"
        "    def setup_optimizers(self, model):\n"
        "        return nnx.Optimizer(model, optax.sgd(self.rate), wrt=nnx.Param)\n"
        "    def train_step(self, model, optimizer, *, real):\n"
        "        def value(model):\n"
        "            return (model.discriminator(real) ** 2).mean()\n"
        "        loss, grads = nnx.value_and_grad(value)(model)\n"
        "        optimizer.update(model, grads)\n"
        "        return {'loss': loss}\n"
        "    def loss(self, outputs, *, real): return (outputs - real).mean()\n",
    )
    run = book.handle("One", max_steps=None).train(background=True, paused=True)
    try:
        run.advance(1)
        before = run.params
        with count_compiles() as count:
            run.set(rate=0.0)
            run.advance(1)
        assert count.nothing
        assert same(before, run.params)
        assert "val_loss" in run.handle.validate()
    finally:
        run.stop()


INJECTED = """
class One(GAN):
    rate: nitro.Device[float] = 0.1
    def setup_optimizers(self, model):
        made = optax.inject_hyperparams(optax.adam)(
            self.rate, b1=optax.linear_schedule(0.9, 0.5, 10), b2=0.9)
        return nnx.Optimizer(model, made, wrt=nnx.Param)
    def train_step(self, model, optimizer, *, real):
        return {"loss": (model.discriminator(real) ** 2).mean()}
"""


def test_what_follows_a_field_or_a_schedule_of_optax_is_no_hyperparameter():
    handle = Notebook(GAN, INJECTED).handle("One", max_steps=2)
    assert set(handle.plan.values.hyper) == {"b2", "eps", "eps_root"}
    run = handle.train(background=False)
    assert run.history()["b2"].tolist() == [0.9, 0.9]


# ---- gradient norms

NORMS = """
class Two(GAN):
    def build_model(self, rngs):
        return nnx.Dict(a=nnx.Linear(1, 1, rngs=rngs), b=nnx.Linear(1, 2, rngs=rngs))
    def forward(self, model, *, real): return model.a(real)
    def setup_optimizers(self, model):
        slow = optax.MultiSteps(optax.sgd(0.0), 2)
        return {"a": nnx.Optimizer(model.a, optax.sgd(0.0), wrt=nnx.Param),
                "b": nnx.Optimizer(model.b, slow, wrt=nnx.Param)}
    def train_step(self, model, optimizers, *, real):
        @nnx.jit
        def inside(model, optimizer):
            value = lambda model: 3 * (model(real) ** 2).mean()
            optimizer.update(model, nnx.grad(value)(model))
        inside(model.a, optimizers["a"])
        value = lambda model: (model(real) ** 2).mean()
        def update(model, optimizer):
            optimizer.update(model, nnx.grad(value)(model))
        nnx.cond(self.entry > 0, update, lambda *_: None, model.b, optimizers["b"])
        return {"loss": value(model.a)}
"""
OWN = """
class Own(Two):
    def setup_optimizers(self, model):
        return nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
    def train_step(self, model, optimizer, *, real):
        loss, grads = nnx.value_and_grad(lambda m: (m.a(real) ** 2).mean())(model)
        optimizer.update(model, grads)
        return {"loss": loss, **OWN}
"""


def norm_by_hand(model, real, factor):
    def value(parts):
        kernel, bias = parts
        return factor * jnp.mean((real @ kernel + bias) ** 2)

    grads = jax.grad(value)((model.kernel[...], model.bias[...]))
    return float(jnp.sqrt(sum((leaf**2).sum() for leaf in grads)))


def test_each_optimizer_tells_the_norm_of_its_gradient_wherever_it_updates(book):
    book.cell(NORMS)
    with live(book, 0, name="Two") as run:
        model = run.model()
        run.advance(1)
        with count_compiles() as count:
            run.set(entry=-1.0)
            run.advance(1)
        assert count.nothing
        rows = run.history()
    real = [jnp.asarray(row["real"]) for row in book["ROWS"]]
    expected = [norm_by_hand(model.a, batch, 3) for batch in real[:2]]
    np.testing.assert_allclose(rows["a.grad_norm"], expected, rtol=1e-5)
    expected = [norm_by_hand(model.b, real[0], 1), np.nan]  # not called in step 2
    np.testing.assert_allclose(rows["b.grad_norm"], expected, rtol=1e-5)


def test_a_single_optimizer_has_one_norm_and_a_number_of_ones_own_goes_first(book):
    book.cell(NORMS + OWN)
    book.names["OWN"] = {}
    run = book.train("Own", max_steps=1)
    model = run.handle.experiment.build_model(nnx.Rngs(0))
    expected = norm_by_hand(model.a, jnp.asarray(book["ROWS"][0]["real"]), 1)
    assert run.history()["grad_norm"] == pytest.approx(expected, rel=1e-5)
    book.names["OWN"] = {"grad_norm": 7.0}
    assert book.train("Own", max_steps=1).history()["grad_norm"] == 7


LOOP = """
class Loop(Two):
    def setup_optimizers(self, model):
        return nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
    def train_step(self, model, optimizer, *, real):
        graph, params = nnx.split(model)
        def body(carry, _):
            params, state = carry
            value = lambda p: (nnx.merge(graph, p).a(real) ** 2).mean()
            loss, grads = jax.value_and_grad(value)(params)
            updates, state = optimizer.tx.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), loss
        state = optimizer.tx.init(params)
        (params, _), losses = jax.lax.scan(body, (params, state), None, 3)
        nnx.update(model, params)
        return {"loss": losses[0]}
"""


def test_a_step_that_carries_optax_through_a_loop_by_hand_still_works(book):
    book.cell(NORMS + LOOP)
    run = book.train("Loop", max_steps=2)
    assert losses(run)[1] < losses(run)[0]
    assert not np.isfinite(run.history().get("grad_norm", np.nan)).any()


def test_a_rate_that_is_a_plain_number_is_no_input_and_the_fix_is_said(book):
    book.cell(NORMS)
    with live(book, 0, name="Two") as run:
        for name in ("a.learning_rate", "learning_rate"):
            with pytest.raises(FieldError) as refused:
                run.set({name: 0.1})
            check_error(refused.value, name, "inject_hyperparams", "Device field")
    with pytest.raises(SettingError) as refused:
        book.handle("Two", learning_rate=0.1)
    check_error(refused.value, "learning_rate", "inject_hyperparams")
    book.cell(
        "class Late(Two):\n    def schedules(self): return {'a.learning_rate': 1.}"
    )
    with pytest.raises(ScheduleError) as refused:
        book.train("Late")
    check_error(
        refused.value, "`a.learning_rate`", "inject_hyperparams", "Device field"
    )


REFUSED = {
    "no setup_optimizers": (
        "    def setup_optimizers(self, model):\n",
        "    def make_optimizers(self, model):\n",
        ("`setup_optimizers` is not", "manual mode needs both"),
    ),
    "no dict": ("return {\"loss\"", "return 0 * d, {\"loss\"", ("`train_step`", "tuple")),
    "no loss": ("{\"loss\": d + g,", "{", ("`train_step`", "without it")),
    "no scalar": ("\"d_loss\": d", "\"d_loss\": real", ("'d_loss'", "(16, 1)")),
    "no optimizer": (
        "        return {\n            \"generator\"", "        return 3, {\n            \"generator\"",
        ("`setup_optimizers` returned tuple", "nnx.Optimizer"),
    ),
    "an optax transformation": (
        "nnx.Optimizer(\n                model.generator, adam(2e-3, b1=0.5), wrt=nnx.Param)",
        "adam(2e-3)", ("GradientTransformation", "'generator'"),
    ),
    "a field that is not there": ("*, real, key", "*, fake, key", ("`train_step` needs `fake`",)),
    "a hook of the automatic step": (
        "def forward(", "def frozen(self, path, leaf): return False\n    def forward(", ("`frozen` has no effect", "GAN.frozen"),
    ),
    "state in a gradient": (
        "(discriminator(fake)", "(discriminator(model.generator(noise))",
        ("changes state", "gradient", "`step`, <cell 1>", "call that part of the model outside"),
    ),
    "nothing to validate": ("def metrics", "def numbers", ("`val`", "`metrics`")),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name):
    old, new, words = REFUSED[name]
    assert GAN.count(old) == 1
    with pytest.raises((HookError, Exception)) as refused:
        Notebook(GAN.replace(old, new)).train("GAN")
    check_error(refused.value, *words)


@pytest.mark.parametrize("setting", [{"clip_norm": 1.0}, {"learning_rate": 0.1}])
def test_settings_of_the_automatic_step_are_refused(book, setting):
    [name] = setting
    with pytest.raises(SettingError) as refused:
        book.handle("GAN", **QUIET, **setting)
    check_error(refused.value, f"`{name}`")


@pytest.mark.parametrize(
    ("name", "value"),
    [("generator.learning_rate", "d"), ("target", "d"), ("step", "d")],
)
def test_a_number_of_the_step_may_not_be_called_as_another_column(book, name, value):
    cell = GAN.replace('"d_loss": d,', f'"{name}": {value},')
    with count_compiles() as count, pytest.raises(HookError) as error:
        gan(Notebook(cell)).train(background=False)
    check_error(error.value, f"`{name}`", "train_step")
    assert count["step"] == 0
