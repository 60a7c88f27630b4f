"""A diffusion model that draws its noise from `key`, and is averaged over steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from cells import QUIET, going
from flax import nnx

import nitro_repl as nitro
from nitro_repl.testing import count_compiles

MEAN, STD, TIMES = 1.5, 0.5, 20


def signal_and_noise(t):
    """How much of the data and of the noise is in what time `t` of [0, 1] gives."""
    return jnp.cos(jnp.pi / 2 * t), jnp.sin(jnp.pi / 2 * t)


class Denoiser(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(7, 48, rngs=rngs)
        self.second = nnx.Linear(48, 48, rngs=rngs)
        self.last = nnx.Linear(48, 1, rngs=rngs)

    def __call__(self, x, t):
        angles = jnp.pi * t[:, None] * jnp.array([0.5, 1, 2])
        x = jnp.concatenate([x, jnp.sin(angles), jnp.cos(angles)], -1)
        return self.last(nnx.silu(self.second(nnx.silu(self.first(x)))))


class Diffusion(nitro.Experiment):
    ema: float = 0.98
    early: nitro.Device[float] = nitro.field(0.0, doc="how much early times count more")

    def build_data(self):
        points = np.random.default_rng(0).normal(MEAN, STD, (4096, 1))
        train, val = points[:2048].astype("float32"), points[2048:].astype("float32")
        return {
            "train": nitro.ArrayLoader({"x": train}, 256, shuffle=True),
            "val": nitro.ArrayLoader({"x": val}, 256),
        }

    def build_model(self, rngs):
        return Denoiser(rngs)

    def forward(self, model, *, x, key):
        when, what = jax.random.split(key)
        t = jax.random.uniform(when, (len(x),))
        noise = jax.random.normal(what, x.shape)
        signal, amount = signal_and_noise(t[:, None])
        return {"guess": model(signal * x + amount * noise, t), "noise": noise, "t": t}

    def loss(self, outputs):
        wrong = ((outputs["guess"] - outputs["noise"]) ** 2).mean(-1)
        return (wrong * (1 + self.early * (1 - outputs["t"]))).mean()

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)

    def schedules(self):
        return {"learning_rate": lambda n: optax.cosine_decay_schedule(1e-2, n)}

    @nitro.program
    def sample(self, model, *, count: nitro.GraphConst[int], key):
        """Steps of DDIM from noise to data."""
        times = jnp.linspace(0.99, 0.0, TIMES + 1)

        def step(x, pair):
            t, after = pair
            signal, amount = signal_and_noise(t)
            noise = model(x, jnp.full(count, t))
            clean = (x - amount * noise) / signal
            signal, amount = signal_and_noise(after)
            return signal * clean + amount * noise, None

        start = jax.random.normal(key, (count, 1))
        return jax.lax.scan(step, start, (times[:-1], times[1:]))[0]


def least_loss():
    """Of the best denoiser for normal data, which is linear."""
    t = (np.arange(1000) + 0.5) / 1000
    signal, noise = np.cos(np.pi / 2 * t), np.sin(np.pi / 2 * t)
    data = (signal * STD) ** 2
    return (data / (data + noise**2)).mean()


def test_a_diffusion_model_comes_close_to_the_best_denoiser():
    handle = nitro.Nitro(Diffusion(), **QUIET, max_steps=600)
    with going(handle, steps=3) as run:
        average = run.model("ema").last.kernel[...]
        run.advance(1)
        expected = 0.98 * average + 0.02 * run.params["last"]["kernel"]
        got = run.model("ema").last.kernel[...]
        np.testing.assert_allclose(got, expected, rtol=1e-5)
        with count_compiles() as count:
            run.set(early=0.5)
            run.advance(1)
            run.set(early=0.0)
            run.advance(1)
        assert count.nothing
        run.resume()
        run.wait()
        found = handle.validate()["val_loss"]
        assert found == handle.validate()["val_loss"], "the same noise each time"
        assert 0.95 * least_loss() < found < 1.15 * least_loss()
        with count_compiles() as count:
            points = run.call("sample", count=2000)
        assert dict(count.compiled) == {"sample": 1}, "the control"
        np.testing.assert_allclose(points.mean(), MEAN, atol=0.15)
        np.testing.assert_allclose(points.std(), STD, atol=0.15)
        np.testing.assert_array_equal(points, run.call("sample", count=2000))
        other = run.call("sample", count=2000, key=jax.random.key(1))
        assert not np.array_equal(points, other)
