"""Contrastive learning: which right half of a digit belongs to which left half."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from cells import QUIET, going
from flax import nnx
from sklearn.datasets import load_digits
from sklearn.metrics import top_k_accuracy_score

import nitro_repl as nitro
from nitro_repl.testing import count_compiles


def encoder(rngs):
    return nnx.Sequential(
        nnx.Linear(32, 64, rngs=rngs), nnx.relu, nnx.Linear(64, 16, rngs=rngs)
    )


class Halves(nitro.Experiment):
    temperature: nitro.Device[float] = nitro.field(0.1, bounds=(0.01, 1.0))
    batch_size: int = 32

    def build_data(self):
        images = (load_digits().images / 16).astype("float32")
        left, right = images[:, :, :4].reshape(-1, 32), images[:, :, 4:].reshape(-1, 32)
        order = np.random.default_rng(0).permutation(len(images))

        def loader(rows):
            arrays = {"left": left[rows], "right": right[rows]}
            return nitro.ArrayLoader(arrays, self.batch_size)

        return {"train": loader(order[:1536]), "val": loader(order[1536:])}

    def build_model(self, rngs):
        return nnx.Dict(left=encoder(rngs), right=encoder(rngs))

    def forward(self, model, *, left, right):
        found = {"left": model["left"](left), "right": model["right"](right)}
        return jax.tree.map(
            lambda x: x / jnp.linalg.norm(x, axis=-1, keepdims=True), found
        )

    def loss(self, outputs):
        scores = outputs["left"] @ outputs["right"].T / self.temperature
        return -jnp.diagonal(nnx.log_softmax(scores)).mean()

    def metrics(self, outputs):
        return {"pairs": nitro.Concat(outputs)}

    def finalize_metrics(self, totals, split):
        pairs = totals["pairs"]
        scores = pairs["left"] @ pairs["right"].T
        better = (scores > np.diagonal(scores)[:, None]).sum(1)
        return {f"recall@{k}": (better < k).mean() for k in (1, 5, 10)}

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)

    def learning_rate(self):
        return 3e-3


def symmetric(self, outputs):
    scores = outputs["left"] @ outputs["right"].T / self.temperature
    both = nnx.log_softmax(scores, 0) + nnx.log_softmax(scores, 1)
    return -jnp.diagonal(both).mean() / 2


def test_joint_micro_batches_have_the_negatives_of_one_big_batch():
    settings = {**QUIET, "max_steps": 240}
    whole = nitro.Nitro(Halves(batch_size=128), **{**QUIET, "max_steps": 8})
    expected = whole.train(background=False).history()["loss"]

    handle = nitro.Nitro(Halves(), **settings, accum=4, accum_mode="joint")
    with going(handle, steps=8) as run:
        np.testing.assert_allclose(run.history()["loss"], expected, rtol=1e-5)
        assert run.history()["loss"][0] > np.log(32), "more negatives than a batch has"
        with count_compiles() as count:
            run.set(temperature=0.2)
            run.advance(1)
        assert count.nothing
        with count_compiles() as count:
            run.swap(loss=symmetric)
            run.advance(1)
        assert dict(count.compiled) == {"loss": 1}, count
        before = handle.evaluate("val")["recall@10"]
        run.resume()
        run.wait()
        found = handle.validate()
        assert found["recall@10"] > before + 0.2

    outputs = handle.predict(handle.data["val"])
    scores = outputs["left"] @ outputs["right"].T
    labels = np.arange(len(scores))
    for k in (1, 5, 10):
        expected = top_k_accuracy_score(labels, scores, k=k)
        assert abs(found[f"recall@{k}"] - expected) < 1e-9
