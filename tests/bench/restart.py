"""Time the first step of a restarted kernel beside that of a first one.

    python tests/bench/restart.py [--jobs mlp,cnn,transformer] [--rounds 3]

Each round starts two processes, one after the other, on one new cache folder: the first
compiles all, the second finds it on disk. A time is from the call of `train` to the end
of the first step; imports and the building of data and model come before it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import nitro_repl as nitro

sys.path.insert(0, str(Path(__file__).parent.parent))
from counting import count_compiles


class Dense(nnx.Module):
    shape = (64, 784)

    def __init__(self, rngs):
        self.first = nnx.Linear(784, 256, rngs=rngs)
        self.last = nnx.Linear(256, 10, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.relu(self.first(x)))


class Convolutional(nnx.Module):
    shape = (64, 28, 28, 1)

    def __init__(self, rngs):
        self.first = nnx.Conv(1, 16, (3, 3), rngs=rngs)
        self.second = nnx.Conv(16, 32, (3, 3), rngs=rngs)
        self.last = nnx.Linear(7 * 7 * 32, 10, rngs=rngs)

    def __call__(self, x):
        for layer in (self.first, self.second):
            x = nnx.max_pool(nnx.relu(layer(x)), (2, 2), (2, 2))
        return self.last(x.reshape(len(x), -1))


class Block(nnx.Module):
    def __init__(self, width, rngs):
        self.before = nnx.LayerNorm(width, rngs=rngs)
        self.between = nnx.LayerNorm(width, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(
            num_heads=4, in_features=width, decode=False, rngs=rngs
        )
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, h):
        h = h + self.attention(self.before(h))
        return h + self.down(nnx.gelu(self.up(self.between(h))))


class Transformer(nnx.Module):
    shape = (16, 64)

    def __init__(self, rngs, width=128):
        self.tokens = nnx.Embed(17, width, rngs=rngs)
        places = jax.random.normal(rngs.params(), (64, width))
        self.places = nnx.Param(0.02 * places)
        self.blocks = nnx.List([Block(width, rngs) for _ in range(4)])
        self.last = nnx.Linear(width, 10, rngs=rngs)

    def __call__(self, x):
        h = self.tokens(jnp.abs(x).astype(int) % 17) + self.places[...]
        for block in self.blocks:
            h = block(h)
        return self.last(h.mean(1))


NETS = {"mlp": Dense, "cnn": Convolutional, "transformer": Transformer}


class Bench(nitro.Experiment):
    job: nitro.GraphConst[str] = "mlp"

    def build_data(self):
        rng, shape = np.random.default_rng(0), NETS[self.job].shape
        x = 8 * rng.normal(size=shape).astype(np.float32)
        return {"train": [{"x": x, "y": rng.integers(0, 10, shape[0])}]}

    def build_model(self, rngs):
        return NETS[self.job](rngs)

    def forward(self, model, *, x):
        return model(x)

    def loss(self, logits, *, y):
        targets = optax.smooth_labels(nnx.one_hot(y, 10), 0.05)
        return optax.softmax_cross_entropy(logits, targets).mean()

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)


def first_step(job: str) -> dict:
    """What one kernel does; printed as its last line."""
    handle = nitro.Nitro(Bench(job=job), max_steps=1, run_dir=None, logger=None)
    with count_compiles() as count:
        started = time.perf_counter()
        handle.train(background=False)
        seconds = time.perf_counter() - started
    spent = nitro.programs.events()
    return {
        "seconds": seconds,
        "ours": count.compiled.total(),
        "others": count.others.total(),
        "tracing": sum(event.trace_s + event.lower_s for event in spent),
        "compiling": sum(event.compile_s for event in spent),
    }


def kernel(job: str, folder: str) -> dict:
    """`first_step` in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--first-step", job],
        env={**os.environ, "NITRO_CACHE_DIR": folder},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def report(job: str, rounds: int) -> None:
    pairs = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            pairs.append((kernel(job, folder), kernel(job, folder)))
            entries = [p.stat().st_size for p in Path(folder).glob("*-cache")]
    both = zip(*pairs, strict=True)
    for name, kernels in zip(("first", "restarted"), both, strict=True):
        said = {key: statistics.median(k[key] for k in kernels) for key in kernels[0]}
        print(
            f"{job:12}{name:10}{said['seconds']:7.2f} s to the first step"
            f" ({said['tracing']:.2f} tracing and lowering,"
            f" {said['compiling']:.2f} compiling or loading);"
            f" XLA compiles: {said['ours']:.0f} of ours, {said['others']:.0f} others"
        )
    ratio = statistics.median(b["seconds"] / a["seconds"] for a, b in pairs)
    size = sum(entries) / 1e3
    print(f"{job:12}ratio {ratio:.2f}; {len(entries)} programs, {size:.0f} kB on disk")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", default=",".join(NETS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--first-step", metavar="JOB", help="one kernel, in here")
    options = parser.parse_args()
    if options.first_step:
        print(json.dumps(first_step(options.first_step)))
        return
    for job in options.jobs.split(","):
        report(job, options.rounds)


if __name__ == "__main__":
    main()
