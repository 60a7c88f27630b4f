"""Fine-tuning from the weights of another run: a frozen backbone, and L2-SP."""

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


class Net(nnx.Module):
    def __init__(self, rngs):
        self.backbone = nnx.Sequential(
            nnx.Linear(64, 48, rngs=rngs), nnx.BatchNorm(48, rngs=rngs), nnx.relu
        )
        self.head = nnx.Sequential(
            nnx.Linear(48, 32, rngs=rngs), nnx.relu, nnx.Linear(32, 10, rngs=rngs)
        )

    def __call__(self, x):
        return self.head(self.backbone(x))


class Digits(nitro.Experiment):
    turned: bool = False
    samples: int = 1024

    def build_data(self):
        images, labels = load_digits(return_X_y=True)
        images = (images / 16).astype("float32").reshape(-1, 8, 8)
        if self.turned:
            images = images[:, ::-1]  # upside down: another task, much alike
        order = np.random.default_rng(0).permutation(len(labels))

        def loader(rows, **how):
            arrays = {"x": images[rows].reshape(-1, 64), "y": labels[rows]}
            return nitro.ArrayLoader(arrays, 64, **how)

        train = loader(order[: self.samples], shuffle=True)
        return {"train": train, "val": loader(order[1024:])}

    def build_model(self, rngs):
        return Net(rngs)

    def forward(self, model, *, x):
        return model(x)

    def loss(self, logits, *, y):
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    def metrics(self, logits, *, y):
        return {"acc": nitro.Mean((logits.argmax(-1) == y).sum(), len(y))}

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)

    def learning_rate(self):
        return 5e-3


class FineTuned(Digits):
    turned: bool = True
    samples: int = 256
    weight_decay: float = 0.5

    def frozen(self, path, leaf):
        return path[0] == "backbone"

    def decay_anchor(self):
        return "initial"

    def no_decay(self, path, leaf):
        return False


def by_hand(source, steps, decay=0.5):
    """The head by optax: Adam, and after it a pull of each weight to where it began."""
    model = source.model()  # in eval mode, as a frozen backbone always is
    graph, first = nnx.split(model.head)
    data, adam = FineTuned().build_data()["train"], optax.adam(5e-3)

    @jax.jit
    def step(head, state, x, y):
        def value(head):
            logits = nnx.merge(graph, head)(model.backbone(x))
            return -nnx.log_softmax(logits)[jnp.arange(len(y)), y].mean()

        updates, state = adam.update(jax.grad(value)(head), state)
        pulled = jax.tree.map(
            lambda w, update, w0: w + update - 5e-3 * decay * (w - w0),
            head, updates, first,
        )  # fmt: skip
        return pulled, state

    head, state = first, adam.init(first)
    for number in range(steps):
        batch = data.batch(*divmod(number, len(data)))
        head, state = step(head, state, batch["x"], batch["y"])
    return nnx.to_pure_dict(head)


def distance(params, other):
    pairs = zip(jax.tree.leaves(params), jax.tree.leaves(other), strict=True)
    return np.sqrt(sum(((a - b) ** 2).sum() for a, b in pairs))


def test_l2_sp_is_the_closed_form_and_the_frozen_backbone_stays_as_it_was():
    before = nitro.Nitro(Digits(), **{**QUIET, "max_epochs": 6})
    source = before.train(background=False)
    assert before.validate()["acc"] > 0.9

    handle = nitro.Nitro(FineTuned(), **{**QUIET, "max_epochs": 15}, weights=source)
    at_first = handle.validate()["acc"]
    assert at_first < 0.6
    first = source.params
    with going(handle, steps=6) as run:
        expected = by_hand(source, 6)
        mine = jax.tree.leaves(run.params["head"])
        for got, its in zip(mine, jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(got, its, rtol=1e-4, atol=1e-5)
        with count_compiles() as count:
            run.set(weight_decay=0.0)
            run.advance(1)
        assert count.nothing
        run.resume()
        run.wait()
        found = handle.validate()
        assert found["acc"] > at_first + 0.2
        assert distance(run.params["backbone"], first["backbone"]) == 0
        mean = [r.model().backbone.layers[1].mean[...] for r in (run, source)]
        np.testing.assert_array_equal(*mean)
        far = distance(run.params["head"], first["head"])

    with count_compiles() as count:
        other = nitro.Nitro(
            FineTuned(), **{**QUIET, "max_epochs": 15}, weights=source, weight_decay=5
        )
        near = other.train(background=False).params
    assert count.nothing
    assert distance(near["head"], first["head"]) < 0.7 * far

    with going(other) as run:
        with count_compiles() as count:
            run.swap(frozen=lambda self, path, leaf: False)
            run.advance(1)
        assert dict(count.compiled) == {"optimizer": 1}, "the rest is the source's"
        assert distance(run.params["backbone"], first["backbone"]) > 0
