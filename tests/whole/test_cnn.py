"""A convolutional network with BatchNorm, on digits that are shifted at random."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from cells import QUIET, going
from flax import nnx
from sklearn.datasets import load_digits

import nitro_repl as nitro
from nitro_repl.testing import count_compiles


def shifted(batch, rng):
    """Augmentation: each image moves by up to a pixel in both directions."""
    padded = np.pad(batch["image"], ((0, 0), (1, 1), (1, 1), (0, 0)))
    corners = rng.integers(0, 3, (len(padded), 2))
    moved = [
        image[row : row + 8, column : column + 8]
        for image, (row, column) in zip(padded, corners, strict=True)
    ]
    return {**batch, "image": np.stack(moved)}


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Conv(1, 12, (3, 3), use_bias=False, rngs=rngs)
        self.first_norm = nnx.BatchNorm(12, momentum=0.9, rngs=rngs)
        self.second = nnx.Conv(12, 24, (3, 3), use_bias=False, rngs=rngs)
        self.second_norm = nnx.BatchNorm(24, momentum=0.9, rngs=rngs)
        self.head = nnx.Linear(24, 10, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.first_norm(self.first(x)))
        x = nnx.max_pool(x, (2, 2), (2, 2))
        x = nnx.relu(self.second_norm(self.second(x)))
        return self.head(x.mean((1, 2)))


class Digits(nitro.Experiment):
    smoothing: nitro.Device[float] = nitro.field(0.1, bounds=(0.0, 0.3))
    batch_size: int = 64

    def build_data(self):
        images, labels = load_digits(return_X_y=True)
        images = (images / 16).astype("float32").reshape(-1, 8, 8, 1)

        def loader(rows, **how):
            arrays = {"image": images[rows], "label": labels[rows].astype("int32")}
            return nitro.ArrayLoader(arrays, self.batch_size, **how)

        order = np.random.default_rng(0).permutation(len(labels))
        train = loader(order[:1344], shuffle=True, transform=shifted)
        return {"train": train, "val": loader(order[1344:])}

    def build_model(self, rngs):
        return Net(rngs)

    def forward(self, model, *, image):
        return model(image)

    def loss(self, logits, *, label):
        targets = optax.smooth_labels(nnx.one_hot(label, 10), self.smoothing)
        return optax.softmax_cross_entropy(logits, targets).mean()

    def metrics(self, logits, *, label):
        return {"acc": nitro.Mean((logits.argmax(-1) == label).sum(), len(label))}

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)

    def learning_rate(self):
        return 1e-2


def by_hand(steps):
    """The same training as an nnx loop; its losses, and the model that comes of it."""
    experiment = Digits()
    model = experiment.build_model(nnx.Rngs(0))
    model.train()
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, image, label):
        def value(model):
            targets = 0.9 * jax.nn.one_hot(label, 10) + 0.01
            return -(targets * jax.nn.log_softmax(model(image))).sum(-1).mean()

        loss, grads = nnx.value_and_grad(value)(model)
        optimizer.update(model, grads)
        return loss

    batches = list(experiment.build_data()["train"])
    found = [
        float(step(model, optimizer, jnp.asarray(b["image"]), jnp.asarray(b["label"])))
        for b in batches[:steps]
    ]
    return found, model


def focal(self, logits, *, label):
    one_hot = nnx.one_hot(label, 10)
    losses = optax.softmax_cross_entropy(logits, one_hot)
    return ((1 - (nnx.softmax(logits) * one_hot).sum(-1)) ** 2 * losses).mean()


def test_a_cnn_learns_digits_as_by_hand_and_takes_a_focal_loss_live():
    told, expected = by_hand(6)
    handle = nitro.Nitro(Digits(), **{**QUIET, "max_epochs": 6})
    with going(handle, steps=6) as run:
        np.testing.assert_allclose(run.history()["loss"], told, rtol=1e-4)
        for name in ("first_norm", "second_norm"):
            for statistic in ("mean", "var"):
                mine = getattr(getattr(run.model(), name), statistic)[...]
                its = getattr(getattr(expected, name), statistic)[...]
                np.testing.assert_allclose(mine, its, rtol=1e-3, atol=1e-5)
        with count_compiles() as count:
            run.set(smoothing=0.05)
            run.advance(1)
        assert count.nothing
        with count_compiles() as count:
            run.swap(loss=focal)
            run.advance(1)
        assert dict(count.compiled) == {"loss": 1}, count
        run.resume()
        run.wait()
        found = handle.validate()
        assert found["acc"] > 0.8

    logits = handle.predict(handle.data["val"])
    label = np.concatenate([batch["label"] for batch in handle.data["val"]])
    assert found["acc"] == (logits.argmax(-1) == label).mean()
    right = np.exp(jax.nn.log_softmax(logits))[np.arange(len(label)), label]
    expected_loss = -((1 - right) ** 2 * np.log(right)).mean()
    np.testing.assert_allclose(found["val_loss"], expected_loss, rtol=1e-4)
