"""Time what it costs to find out that nothing changed, or what did.

    python tests/bench/fingerprint.py [--rounds 50] [--megabytes 1000]

`lookup`: every program of a train step and of evaluation is found again, from nothing
but the digests of what it reads; all must be hits. `stale`: what `run.stale` does.
Then the same after an edit of the loss, with a large array and very many small objects
in the notebook: held only, and read by the loss.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np

import nitro_repl as nitro
from nitro_repl import programs
from nitro_repl._programs.program_set import ProgramSet
from nitro_repl._programs.spec import Asker

MLP = """
import jax, jax.numpy as jnp, numpy as np, optax
from flax import nnx
import nitro_repl as nitro

class Net(nnx.Module):
    def __init__(self, rngs):
        self.a = nnx.Linear(784, 256, rngs=rngs)
        self.b = nnx.Linear(256, 10, rngs=rngs)
    def __call__(self, x):
        return self.b(nnx.relu(self.a(x)))
"""

TRANSFORMER = """
import jax, jax.numpy as jnp, numpy as np, optax
from flax import nnx
import nitro_repl as nitro

class Block(nnx.Module):
    def __init__(self, width, rngs):
        self.first = nnx.LayerNorm(width, rngs=rngs)
        self.second = nnx.LayerNorm(width, rngs=rngs)
        self.attend = nnx.MultiHeadAttention(
            num_heads=4, in_features=width, decode=False, rngs=rngs)
        self.up = nnx.Linear(width, 4 * width, rngs=rngs)
        self.down = nnx.Linear(4 * width, width, rngs=rngs)
    def __call__(self, h):
        h = h + self.attend(self.first(h))
        return h + self.down(nnx.gelu(self.up(self.second(h))))

class Net(nnx.Module):
    def __init__(self, rngs, width=128):
        self.token = nnx.Embed(17, width, rngs=rngs)
        self.place = nnx.Param(0.02 * jax.random.normal(rngs.params(), (64, width)))
        self.blocks = nnx.List([Block(width, rngs) for _ in range(4)])
        self.out = nnx.Linear(width, 10, rngs=rngs)
    def __call__(self, x):
        h = self.token(x) + self.place[...]
        for block in self.blocks:
            h = block(h)
        return self.out(h.mean(1))
"""

LOSS = """
def soften(labels, amount):
    return (1 - amount) * jax.nn.one_hot(labels, 10) + amount / 10

def cross_entropy(logits, labels):
    targets = soften(labels, {constant})
    return -(targets * jax.nn.log_softmax(logits)).sum(-1).mean(){more}
"""

EXPERIMENT = """
class Bench(nitro.Experiment):
    def build_data(self):
        return {"train": ROWS}

    def build_model(self, rngs):
        return Net(rngs)

    def forward(self, model, *, x):
        return model(x)

    def loss(self, logits, *, y):
        return cross_entropy(logits, y)

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)
"""

MODELS = {"mlp": MLP, "transformer": TRANSFORMER}
SAMPLES = {
    "mlp": np.zeros((64, 784), np.float32),
    "transformer": np.zeros((16, 64), np.int32),
}
HELD = {
    "nothing held": ("", ""),
    "array held": ("TABLE = np.ones(({floats},), np.float32)", ""),
    "array read": ("TABLE = np.ones(({floats},), np.float32)", " + TABLE[0]"),
    "objects held": ("ROWS_OF = [(i, str(i)) for i in range({objects})]", ""),
    "objects read": (
        "ROWS_OF = [(i, str(i)) for i in range({objects})]",
        " + ROWS_OF[0][0]",
    ),
}


class Session:
    """A notebook with one experiment and a paused run of it."""

    def __init__(self, job: str):
        x = SAMPLES[job]
        rows = [{"x": x, "y": np.zeros(len(x), np.int32)}]
        self.names = {"__name__": "bench", "ROWS": rows}
        self._number = 0
        self.cell(MODELS[job])
        self.edit(0.05)
        self.cell(EXPERIMENT)
        self.handle = nitro.Nitro(
            self.names["Bench"], max_epochs=1, run_dir=None, logger=None
        )
        self.batch = rows[0]

    def cell(self, source: str) -> None:
        self._number += 1
        exec(compile(source, f"<cell {self._number}>", "exec"), self.names)

    def edit(self, constant: float, more: str = "") -> None:
        self.cell(LOSS.format(constant=constant, more=more))

    def look_up(self) -> None:
        """Find every program, as a new handle would."""
        found = ProgramSet(self.handle.plan.blueprint, programs, lambda: Asker("Bench"))
        found.train(self.batch)
        found.evaluation(self.batch)


def times(work, rounds):
    """Seconds of each round: of this thread alone, whatever else the machine does."""
    found = []
    for _ in range(rounds):
        started = time.thread_time()
        work()
        found.append(time.thread_time() - started)
    return found


def report(name, seconds):
    first, last = statistics.median(seconds[:10]), statistics.median(seconds[-10:])
    middle, worst = statistics.median(seconds), max(seconds)
    print(
        f"{name:32} median {1e3 * middle:8.2f} ms   worst {1e3 * worst:8.2f}   "
        f"first 10 {1e3 * first:8.2f}   last 10 {1e3 * last:8.2f}"
    )


def time_checks(job, rounds):
    """Lookups and looks with nothing changed."""
    session = Session(job)
    session.look_up()
    before = programs.stats()
    report(f"{job}: lookup", times(session.look_up, rounds))
    fresh = {k: v - before.get(k, 0) for k, v in programs.stats().items()}
    assert not any(n for outcome, n in fresh.items() if outcome != "hit"), fresh
    run = session.handle.train(background=True, paused=True)
    run.advance(1)
    report(f"{job}: stale", times(lambda: run.stale, rounds))
    run.stop()


def time_edits(rounds, megabytes, objects):
    """From an edited cell to the names of the stale programs."""
    for name, (held, more) in HELD.items():
        session = Session("mlp")
        session.cell(held.format(floats=megabytes * 250_000, objects=objects))
        session.edit(0.05, more)
        run = session.handle.train(background=True, paused=True)
        run.advance(1)
        number = iter(range(1, 10_000))

        def edit(session=session, run=run, number=number, more=more):
            session.edit(0.05 + 1e-4 * next(number), more)
            assert "loss" in run.stale

        edit()
        report(f"edit, {name}", times(edit, rounds))
        run.stop()


def main():
    parser = argparse.ArgumentParser(description="Time looks at code.")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--objects", type=int, default=1_000_000)
    options = parser.parse_args()
    print(f"jax {jax.__version__}, {os.cpu_count()} cores")
    for job in MODELS:
        time_checks(job, options.rounds)
    time_edits(options.rounds, options.megabytes, options.objects)


if __name__ == "__main__":
    main()
