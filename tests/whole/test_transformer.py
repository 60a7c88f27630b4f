"""A character transformer in bfloat16 with accumulation, on English text."""

from __future__ import annotations

import argparse
import difflib
import doctest
import logging.config
import optparse
import random

import jax
import jax.numpy as jnp
import numpy as np
import optax
from cells import QUIET, going
from flax import nnx

import nitro_repl as nitro
from nitro_repl.testing import count_compiles

MODULES = (argparse, difflib, doctest, logging, optparse, random)
TEXT = "\n".join(module.__doc__ for module in MODULES)
CHARACTERS = sorted(set(TEXT))
CODES = np.array([CHARACTERS.index(c) for c in TEXT], "int32")
LENGTH, WIDTH, LAYERS = 16, 32, 1
HALF = {"dtype": jnp.bfloat16, "param_dtype": jnp.float32}


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.LayerNorm(WIDTH, **HALF, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(
            2, WIDTH, decode=False, **HALF, rngs=rngs
        )
        self.widen = nnx.Linear(WIDTH, 4 * WIDTH, **HALF, rngs=rngs)
        self.narrow = nnx.Linear(4 * WIDTH, WIDTH, **HALF, rngs=rngs)

    def __call__(self, x):
        mask = nnx.make_causal_mask(x[..., 0])
        x = x + self.attention(self.norm(x), mask=mask)
        return x + self.narrow(nnx.gelu(self.widen(self.norm(x))))


class Transformer(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(len(CHARACTERS), WIDTH, **HALF, rngs=rngs)
        self.places = nnx.Embed(LENGTH, WIDTH, **HALF, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.norm = nnx.LayerNorm(WIDTH, **HALF, rngs=rngs)

    def __call__(self, codes):
        x = self.embed(codes) + self.places(jnp.arange(codes.shape[-1]))
        for block in self.blocks:
            x = block(x)
        return self.embed.attend(self.norm(x))


class Characters(nitro.Experiment):
    z_loss: nitro.Device[float] = 1e-4
    accum: int = 2

    def build_data(self):
        windows = np.lib.stride_tricks.sliding_window_view(CODES, LENGTH + 1)[::5]
        cut = len(windows) * 9 // 10 // 64 * 64

        def loader(rows, **how):
            return nitro.ArrayLoader({"window": windows[rows]}, 32, **how)

        train = loader(slice(0, cut), shuffle=True, drop_last=True)
        return {"train": train, "val": loader(slice(cut, cut + 64))}

    def build_model(self, rngs):
        return Transformer(rngs)

    def forward(self, model, *, window):
        return model(window[:, :-1])

    def loss(self, logits, *, window):
        return cross_entropy(logits, window[:, 1:], self.z_loss)

    def optimizer(self, hp):
        return optax.adamw(hp.learning_rate, b2=0.95, weight_decay=0.01)

    def schedules(self):
        return {
            "learning_rate": lambda total: optax.warmup_cosine_decay_schedule(
                0.0, 1e-2, 20, total, 1e-3
            )
        }

    @nitro.program
    def next_one(self, model, *, prompt):
        return nnx.softmax(model(prompt[None])[0, -1].astype("float32"))


def cross_entropy(logits, codes, z_loss):
    logits = logits.astype("float32")
    each = optax.softmax_cross_entropy_with_integer_labels(logits, codes)
    return (each + z_loss * nnx.logsumexp(logits, -1) ** 2).mean()


def unigram_entropy():
    """Of the characters: the loss of who knows how frequent each is and no more."""
    shares = np.bincount(CODES) / len(CODES)
    return -(shares * np.log(shares)).sum()


def by_numpy(logits, batch, z_loss=1e-4):
    """The loss of a batch."""
    logits, codes = np.asarray(logits, np.float64), batch["window"][:, 1:]
    norm = np.log(np.exp(logits).sum(-1))
    right = np.take_along_axis(logits, codes[..., None], -1)[..., 0]
    return (norm - right + z_loss * norm**2).mean()


def test_a_transformer_in_bfloat16_learns_more_than_letter_frequencies():
    handle = nitro.Nitro(Characters(), **QUIET, max_steps=120)
    batches = list(handle.data["train"])[:2]
    logits = [handle.predict(batch) for batch in batches]
    assert logits[0].dtype == jnp.bfloat16
    with going(handle, steps=1) as run:
        told = np.mean([by_numpy(*pair) for pair in zip(logits, batches, strict=True)])
        np.testing.assert_allclose(run.history()["loss"], [told], rtol=1e-3)
        assert {str(leaf.dtype) for leaf in jax.tree.leaves(run.params)} == {"float32"}
        with count_compiles() as count:
            run.set(z_loss=0.0)
            run.set(learning_rate=5e-3, override=True)
            run.advance(2)
            run.unset("learning_rate")
            run.advance(1)
        assert count.nothing
        rate = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 20, 120, 1e-3)
        np.testing.assert_allclose(
            run.history()["learning_rate"], [rate(0), 5e-3, 5e-3, rate(3)], rtol=1e-6
        )
        run.resume()
        run.wait()
        assert handle.validate()["val_loss"] < unigram_entropy() - 0.5
        prompt = CODES[:LENGTH]
        with count_compiles() as count:
            chances = run.call("next_one", prompt=prompt)
        assert dict(count.compiled) == {"next_one": 1}, "the control"
        window = np.append(prompt, 0)[None].repeat(32, 0).astype("int32")
        expected = jax.nn.softmax(handle.predict({"window": window})[0, -1])
        np.testing.assert_allclose(chances, expected, rtol=0.05, atol=1e-3)
