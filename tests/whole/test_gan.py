"""A least-squares GAN in manual mode, on digits in their first two components."""

from __future__ import annotations

import jax
import numpy as np
import optax
from cells import QUIET, going
from flax import nnx
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import nitro_repl as nitro
from nitro_repl.testing import count_compiles


class Networks(nnx.Module):
    def __init__(self, rngs):
        self.generator = nnx.Sequential(
            nnx.Linear(4, 32, rngs=rngs),
            nnx.relu,
            nnx.Linear(32, 2, rngs=rngs),
        )
        self.discriminator = nnx.Sequential(
            nnx.Linear(2, 32, rngs=rngs),
            nnx.leaky_relu,
            nnx.Linear(32, 1, rngs=rngs),
        )


class GAN(nitro.Experiment):
    target: nitro.Device[float] = 1.0

    def build_data(self):
        points = PCA(2, whiten=True).fit_transform(load_digits().data)
        points = (points * [0.5, 1.5] + [2, -1]).astype("float32")
        loader = nitro.ArrayLoader({"real": points}, 128, shuffle=True, drop_last=True)
        return {"train": loader}

    def build_model(self, rngs):
        return Networks(rngs)

    def forward(self, model, *, noise):
        return model.generator(noise)

    def setup_optimizers(self, model):
        adam = optax.inject_hyperparams(optax.adam)
        return {
            name: nnx.Optimizer(getattr(model, name), adam(4e-3, b1=0.5), wrt=nnx.Param)
            for name in ("generator", "discriminator")
        }

    def train_step(self, model, optimizers, *, real, key):
        noise = jax.random.normal(key, (len(real), 4))

        def d_loss(discriminator):
            fake = discriminator(jax.lax.stop_gradient(model.generator(noise)))
            return ((discriminator(real) - self.target) ** 2).mean() + (fake**2).mean()

        def g_loss(generator):
            judged = model.discriminator(generator(noise))
            return ((judged - self.target) ** 2).mean()

        d, grads = nnx.value_and_grad(d_loss)(model.discriminator)
        optimizers["discriminator"].update(model.discriminator, grads)
        g, grads = nnx.value_and_grad(g_loss)(model.generator)
        optimizers["generator"].update(model.generator, grads)
        return {"loss": d + g, "d_loss": d, "g_loss": g}


def relativistic(self, model, optimizers, *, real, key):
    """Each sample is judged against the mean of the other kind."""
    noise = jax.random.normal(key, (len(real), 4))

    def loss(better, worse):
        up, down = better - worse.mean(), worse - better.mean()
        return ((up - self.target) ** 2).mean() + ((down + self.target) ** 2).mean()

    def d_loss(discriminator):
        return loss(discriminator(real), discriminator(model.generator(noise)))

    def g_loss(generator):
        judge = model.discriminator
        return loss(judge(generator(noise)), judge(real))

    d, grads = nnx.value_and_grad(d_loss)(model.discriminator)
    optimizers["discriminator"].update(model.discriminator, grads)
    g, grads = nnx.value_and_grad(g_loss)(model.generator)
    optimizers["generator"].update(model.generator, grads)
    return {"loss": d + g, "d_loss": d, "g_loss": g}


def loss_of_real(run, real):
    """The part of the first `d_loss` that the real samples give, by numpy."""
    weights = run.params["discriminator"]["layers"]

    def judge(x):
        hidden = x @ weights[0]["kernel"] + weights[0]["bias"]
        hidden = np.where(hidden > 0, hidden, 0.01 * hidden)
        return hidden @ weights[2]["kernel"] + weights[2]["bias"]

    return ((judge(real) - 1) ** 2).mean()


def test_a_gan_moves_its_samples_to_the_data_and_changes_its_step_live():
    handle = nitro.Nitro(GAN(), **QUIET, max_steps=1500)
    real = handle.data["train"].batch(0, 0)["real"]
    every = np.concatenate([batch["real"] for batch in handle.data["train"]])
    noise = np.random.default_rng(1).normal(size=(2000, 4)).astype("float32")
    with going(handle) as run:
        least = loss_of_real(run, real)
        run.advance(1)
        assert run.history()["d_loss"][0] > least, "the fakes add to it"
        assert run.history()["d_loss"][0] < least + 0.5
        run.advance(700)
        with count_compiles() as count:
            run.set({"discriminator.learning_rate": 2e-3, "target": 0.9})
            run.advance(1)
        assert count.nothing
        with count_compiles() as count:
            run.swap(train_step=relativistic)
            run.advance(1)
        assert dict(count.compiled) == {"step": 1}, count
        run.resume()
        run.wait()
        history = run.history()
        np.testing.assert_allclose(
            history["loss"], history["d_loss"] + history["g_loss"], rtol=1e-6
        )
        made = handle.predict({"noise": noise})
        np.testing.assert_allclose(made.mean(0), every.mean(0), atol=0.4)
        np.testing.assert_allclose(made.std(0), every.std(0), rtol=0.5)
