"""Sequence to sequence with scheduled teacher forcing; the decoder is a scan."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from cells import QUIET, going
from flax import nnx

import nitro_repl as nitro
from nitro_repl.testing import count_compiles

LETTERS, LENGTH, WIDTH = 6, 4, 48
START = LETTERS


class Translator(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(LETTERS + 1, WIDTH, rngs=rngs)
        self.encoder = nnx.RNN(nnx.GRUCell(WIDTH, WIDTH, rngs=rngs))
        self.decoder = nnx.GRUCell(WIDTH, WIDTH, rngs=rngs)
        self.head = nnx.Linear(WIDTH, LETTERS, rngs=rngs)

    def step(self, state, letter):
        """State and logits after one more letter."""
        state, out = self.decoder(state, self.embed(letter))
        return state, self.head(out)


class Reverse(nitro.Experiment):
    """Write a word backwards."""

    teacher: nitro.Device[float] = nitro.field(1.0, bounds=(0.0, 1.0))

    def build_data(self):
        words = np.random.default_rng(0).integers(0, LETTERS, (2304, LENGTH), "int32")
        arrays = {"word": words, "answer": words[:, ::-1]}

        def loader(rows, **how):
            part = {name: array[rows] for name, array in arrays.items()}
            return nitro.ArrayLoader(part, 128, **how)

        train = loader(slice(0, 2048), shuffle=True)
        return {"train": train, "val": loader(slice(2048, None))}

    def build_model(self, rngs):
        return Translator(rngs)

    def forward(self, model, *, word, answer, key):
        state = model.encoder(model.embed(word), return_carry=True)[0]
        begin = jnp.full(len(word), START)
        told = jnp.concatenate([begin[:, None], answer[:, :-1]], 1)
        helped = jnp.zeros((LENGTH, len(word)), bool)
        if self.training:
            helped = jax.random.bernoulli(key, self.teacher, helped.shape)

        def step(carry, given):
            state, own = carry
            right, helps = given
            state, logits = model.step(state, jnp.where(helps, right, own))
            return (state, logits.argmax(-1)), logits

        _, logits = jax.lax.scan(step, (state, begin), (told.T, helped))
        return {"logits": logits.swapaxes(0, 1), "helped": helped.mean(0)}

    def loss(self, outputs, *, answer):
        each = optax.softmax_cross_entropy_with_integer_labels(
            outputs["logits"], answer
        )
        return each.mean(), {"helped": outputs["helped"].mean()}

    def metrics(self, outputs, *, answer):
        right = outputs["logits"].argmax(-1) == answer
        return {
            "letters": nitro.Mean(right.sum(), right.size),
            "words": nitro.Mean(right.all(-1).sum(), len(right)),
        }

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)

    def learning_rate(self):
        return 1e-2

    def schedules(self):
        return {"teacher": lambda total: optax.linear_schedule(1.0, 0.0, total // 2)}


def test_a_translator_learns_to_write_on_its_own_as_help_fades():
    handle = nitro.Nitro(Reverse(), **QUIET, max_steps=400)
    curve = optax.linear_schedule(1.0, 0.0, 200)
    with going(handle, steps=60) as run:
        with count_compiles() as count:
            run.set(teacher=0.0, override=True)
            run.advance(2)
            run.unset("teacher")
            run.advance(2)
        assert count.nothing
        with count_compiles() as count:
            run.swap(loss=late)
            run.advance(1)
        assert dict(count.compiled) == {"loss": 1}, count
        run.resume()
        run.wait()
        history = run.history()
        expected = np.array([curve(step) for step in range(400)])
        expected[60:62] = 0
        np.testing.assert_allclose(history["teacher"], expected, atol=1e-6)
        np.testing.assert_allclose(history["helped"], expected, atol=0.12)
        assert history["helped"][60] == 0 == history["helped"][-1]
        found = handle.validate()
        assert found["words"] > 0.9

    batch = handle.data["val"].batch(0, 0)
    wrong = {**batch, "answer": (batch["answer"] + 1) % LETTERS}
    alone = [handle.predict(one)["logits"] for one in (batch, wrong)]
    np.testing.assert_array_equal(*alone)  # nobody helps in evaluation


def late(self, outputs, *, answer):
    """The later letters, which depend on those before, count more."""
    each = optax.softmax_cross_entropy_with_integer_labels(outputs["logits"], answer)
    weight = jnp.linspace(1.0, 2.0, LENGTH)
    return (each * weight).mean(), {"helped": outputs["helped"].mean()}
