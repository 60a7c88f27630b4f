"""A physics-informed network: the forward pass takes derivatives of the model."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from cells import QUIET, going
from flax import nnx

import nitro_repl as nitro
from nitro_repl.testing import count_compiles


class Field(nnx.Module):
    """A scalar function of time and place."""

    def __init__(self, rngs):
        self.first = nnx.Linear(2, 24, rngs=rngs)
        self.second = nnx.Linear(24, 24, rngs=rngs)
        self.last = nnx.Linear(24, 1, rngs=rngs)

    def __call__(self, t, x):
        h = nnx.tanh(self.first(jnp.stack([t, x])))
        return self.last(nnx.tanh(self.second(h)))[0]


class Heat(nitro.Experiment):
    """u_t = u_xx / pi^2 on [0, 1], u(0, x) = sin(pi x): u = exp(-t) sin(pi x)."""

    boundary_weight: nitro.Device[float] = 1.0

    def build_data(self):
        rng = np.random.default_rng(0)
        inner = rng.uniform(size=(512, 2)).astype("float32")
        start = np.stack([np.zeros(512), rng.uniform(size=512)], 1).astype("float32")
        sides = np.stack([rng.uniform(size=512), rng.integers(0, 2, 512)], 1)
        arrays = {"inner": inner, "start": start, "sides": sides.astype("float32")}
        return {"train": nitro.ArrayLoader(arrays, 64, shuffle=True)}

    def build_model(self, rngs):
        return Field(rngs)

    def forward(self, model, *, inner, start, sides):
        def residual(t, x):
            u_t = jax.grad(model, 0)(t, x)
            u_xx = jax.grad(jax.grad(model, 1), 1)(t, x)
            return u_t - u_xx / jnp.pi**2

        each = jax.vmap(model)
        return {
            "residual": jax.vmap(residual)(*inner.T),
            "start": each(*start.T),
            "sides": each(*sides.T),
        }

    def loss(self, outputs, *, start):
        equation = (outputs["residual"] ** 2).mean()
        wrong = (outputs["start"] - jnp.sin(jnp.pi * start[:, 1])) ** 2
        boundary = wrong.mean() + (outputs["sides"] ** 2).mean()
        return equation + self.boundary_weight * boundary, {"equation": equation}

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)

    def schedules(self):
        return {
            "learning_rate": lambda total: optax.cosine_decay_schedule(1e-2, total, 0.1)
        }

    @nitro.program
    def solution(self, model, *, t, x):
        return jax.vmap(model)(t, x)


def finite_differences(model, t, x, h=1e-3):
    """The residual by differences in float64."""

    def u(t, x):
        h1 = np.tanh(np.stack([t, x], 1) @ w(model.first) + b(model.first))
        h2 = np.tanh(h1 @ w(model.second) + b(model.second))
        return (h2 @ w(model.last) + b(model.last))[:, 0]

    u_t = (u(t + h, x) - u(t - h, x)) / (2 * h)
    u_xx = (u(t, x + h) - 2 * u(t, x) + u(t, x - h)) / h**2
    return u_t - u_xx / np.pi**2


def w(layer):
    return np.asarray(layer.kernel[...], np.float64)


def b(layer):
    return np.asarray(layer.bias[...], np.float64)


def causal(self, outputs, *, start, inner):
    """Early times count more, so that the solution grows from its start."""
    weight = jnp.exp(-inner[:, 0])
    equation = (weight * outputs["residual"] ** 2).mean()
    wrong = (outputs["start"] - jnp.sin(jnp.pi * start[:, 1])) ** 2
    boundary = wrong.mean() + (outputs["sides"] ** 2).mean()
    return equation + self.boundary_weight * boundary, {"equation": equation}


def test_a_physics_informed_network_solves_the_heat_equation():
    handle = nitro.Nitro(Heat(), **QUIET, max_steps=900)
    batch = next(iter(handle.data["train"]))
    with going(handle, steps=300) as run:
        residual = handle.predict(batch)["residual"]
        expected = finite_differences(run.model(), *batch["inner"].T)
        np.testing.assert_allclose(residual, expected, atol=1e-3)
        with count_compiles() as count:
            run.set(boundary_weight=5.0)
            run.advance(1)
        assert count.nothing
        with count_compiles() as count:
            run.swap(loss=causal)
            run.advance(1)
        assert dict(count.compiled) == {"loss": 1}, count
        run.resume()
        run.wait()
        t, x = np.random.default_rng(1).uniform(size=(2, 200)).astype("float32")
        found = run.call("solution", t=t, x=x)
        np.testing.assert_allclose(found, np.exp(-t) * np.sin(np.pi * x), atol=0.03)
