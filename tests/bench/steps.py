"""Time steps and edits of the loss, split and fused, beside a loop written by hand.

    python tests/bench/steps.py [--jobs tiny,mlp,cnn,tf] [--rounds 7] [--edits 5]

All loops train the same network on the same batches in one process. They take turns,
so that whatever else the machine does hits both alike: read the ratios, which compare
neighbours in time, before the microseconds. The guarded loop takes the norm of the
gradients and leaves out a step that is not finite, as a run does, and nothing more.

An edit is timed from the edited cell to the end of the first step under it, as a user
would make it: by hand, the loss cell and the cell of the jitted step; here, the loss
cell and a swap. The first edit of a constant compiles, the ones after do not. Last, the
steps made while a swap compiles.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import threading
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["NITRO_CACHE_DIR"] = "off"  # an edit is to be compiled, in each run of this

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import nitro_repl as nitro

JOBS = {  # the shape of a sample, samples in a batch, steps in a round
    "tiny": ((16,), 8, 400),  # next to no arithmetic: what the loop itself costs
    "mlp": ((784,), 64, 200),
    "cnn": ((28, 28, 1), 64, 20),
    "tf": ((64,), 16, 6),  # a transformer of four layers on tokens
}
WIDTHS = {"tiny": 16, "mlp": 256}
TOKENS, FEATURES, HEADS, LAYERS = 17, 128, 4, 4
EDITS = ("comment", "first", "constant", "helper")

LOSS = """
def soften(labels, amount):{comment}
    return (1 - amount) * jax.nn.one_hot(labels, 10) + amount / 10{helper}

def cross_entropy(logits, labels):
    targets = soften(labels, {constant})
    return -(targets * jax.nn.log_softmax(logits)).sum(-1).mean()
"""

STEP = """
@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(params, state, x, y):
    def loss(params):
        return cross_entropy(forward(params, x), y)
    value, grads = jax.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, value
"""

GUARDED = """
@functools.partial(jax.jit, donate_argnums=(0, 1))
def step(params, state, x, y):
    def loss(params):
        return cross_entropy(forward(params, x), y)
    value, grads = jax.value_and_grad(loss)(params)
    norm = optax.tree.norm(grads)
    def update():
        updates, after = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), after
    finite = jnp.isfinite(value) & jnp.isfinite(norm)
    params, state = jax.lax.cond(finite, update, lambda: (params, state))
    return params, state, value
"""

EXPERIMENT = """
class Bench(nitro.Experiment):
    def build_data(self):
        return {"train": loader}

    def build_model(self, rngs):
        return Net(rngs)

    def forward(self, model, *, x):
        return model(x)

    def loss(self, logits, *, y):
        return cross_entropy(logits, y)

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)
"""


class Cells:
    """A namespace in which source is run as cells of a notebook are."""

    def __init__(self, **names):
        libraries = {"functools": functools, "jax": jax, "jnp": jnp, "optax": optax}
        self.names = {"__name__": "bench", "nitro": nitro, **libraries, **names}
        self._number = 0

    def run(self, source):
        self._number += 1
        exec(compile(source, f"<cell {self._number}>", "exec"), self.names)

    def __getitem__(self, name):
        return self.names[name]


class Batches:
    """Random batches, in another order each time; only their time matters."""

    def __init__(self, job):
        shape, self.batch, self.steps = JOBS[job]
        rng = np.random.default_rng(0)
        rows = self.batch * self.steps
        self.x = rng.normal(size=(rows, *shape)).astype(np.float32)
        if job == "tf":
            self.x = rng.integers(0, TOKENS, (rows, *shape)).astype(np.int32)
        self.y = rng.integers(0, 10, rows).astype(np.int32)

    def __len__(self):
        return self.steps

    def __iter__(self):
        order = np.random.default_rng().permutation(len(self.x))
        for rows in order.reshape(self.steps, self.batch):
            yield {"x": self.x[rows], "y": self.y[rows]}


class ByHand:
    """The loop that one writes for speed: one jitted step, plain dicts, donation."""

    name, cell = "by hand", STEP

    def __init__(self, job):
        self.loader = Batches(job)
        self.params, forward = HAND_WRITTEN[job]()
        optimizer = optax.adam(1e-3)
        self.state = optimizer.init(self.params)
        self.cells = Cells(forward=forward, optimizer=optimizer)
        self.edit(loss_source())

    def round(self):
        losses = [self.step(**batch) for batch in self.loader]
        return [float(loss) for loss in losses]

    def edit(self, source):
        self.cells.run(source)
        self.cells.run(self.cell)  # else the compiled step keeps the old loss
        float(self.step(**next(iter(self.loader))))

    def step(self, x, y):
        out = self.cells["step"](self.params, self.state, x, y)
        self.params, self.state, loss = out
        return loss

    def close(self):
        pass


class Guarded(ByHand):
    """The same with what a run promises: no step that is not finite is taken."""

    name, cell = "guarded", GUARDED


class Live:
    """A live run, advanced as many steps as the other loop does."""

    name, fuse = "nitro", False

    def __init__(self, job):
        self.loader = Batches(job)
        net = functools.partial(NETS[job], *sizes(job))
        self.cells = Cells(loader=self.loader, Net=net)
        self.cells.run(loss_source())
        self.cells.run(EXPERIMENT)
        settings = {"run_dir": None, "logger": None, "fuse": self.fuse}
        handle = nitro.Nitro(self.cells["Bench"], **settings)
        self.run = handle.train(background=True, paused=True)
        self.run.advance(1)

    def round(self):
        self.run.advance(len(self.loader))
        return self.run.history()["loss"][-len(self.loader) :].tolist()

    def edit(self, source):
        self.cells.run(source)
        self.run.swap()
        self.run.advance(1)

    def meanwhile(self):
        """Steps a second while a swap compiles, as a share of those before it."""
        self.run.resume()
        began, before = time.perf_counter(), self.run.step
        while self.run.step - before < 4 or time.perf_counter() - began < 2:
            threading.Event().wait(0.25)
        usual = (self.run.step - before) / (time.perf_counter() - began)
        self.cells.run(loss_source("helper", 40))
        began, before = time.perf_counter(), self.run.step
        self.run.swap()
        rate = (self.run.step - before) / (time.perf_counter() - began)
        self.run.pause()
        return rate / usual

    def close(self):
        self.run.stop()


class Fused(Live):
    """The same with the whole step as one program."""

    name, fuse = "fused", True


class Dense(nnx.Module):
    def __init__(self, inputs, width, rngs):
        self.first = nnx.Linear(inputs, width, rngs=rngs)
        self.last = nnx.Linear(width, 10, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.relu(self.first(x)))


class Convolutional(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Conv(1, 16, (3, 3), rngs=rngs)
        self.second = nnx.Conv(16, 32, (3, 3), rngs=rngs)
        self.last = nnx.Linear(7 * 7 * 32, 10, rngs=rngs)

    def __call__(self, x):
        for layer in (self.first, self.second):
            x = nnx.max_pool(nnx.relu(layer(x)), (2, 2), (2, 2))
        return self.last(x.reshape(len(x), -1))


class Block(nnx.Module):
    def __init__(self, rngs):
        self.before, self.between = (nnx.LayerNorm(FEATURES, rngs=rngs) for _ in "ab")
        self.attend = nnx.MultiHeadAttention(HEADS, FEATURES, decode=False, rngs=rngs)
        self.widen = nnx.Linear(FEATURES, 4 * FEATURES, rngs=rngs)
        self.narrow = nnx.Linear(4 * FEATURES, FEATURES, rngs=rngs)

    def __call__(self, x):
        x = x + self.attend(self.before(x))
        return x + self.narrow(nnx.gelu(self.widen(self.between(x))))


class Transformer(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(TOKENS, FEATURES, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.last = nnx.Linear(FEATURES, 10, rngs=rngs)

    def __call__(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x.mean(1))


NETS = {"tiny": Dense, "mlp": Dense, "cnn": Convolutional, "tf": Transformer}


def sizes(job):
    """Inputs and hidden units of a dense network."""
    return (JOBS[job][0][0], WIDTHS[job]) if job in WIDTHS else ()


def dense_by_hand(inputs, width):
    make, keys = jax.nn.initializers.lecun_normal(), jax.random.split(jax.random.key(0))
    params = {
        "w1": make(keys[0], (inputs, width)),
        "b1": jnp.zeros(width),
        "w2": make(keys[1], (width, 10)),
        "b2": jnp.zeros(10),
    }

    def forward(p, x):
        return jax.nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]

    return params, forward


def convolutional_by_hand():
    make = jax.nn.initializers.lecun_normal()
    keys = jax.random.split(jax.random.key(0), 3)
    params = {
        "k1": make(keys[0], (3, 3, 1, 16)),
        "c1": jnp.zeros(16),
        "k2": make(keys[1], (3, 3, 16, 32)),
        "c2": jnp.zeros(32),
        "w": make(keys[2], (7 * 7 * 32, 10)),
        "b": jnp.zeros(10),
    }

    def layer(x, kernel, bias):
        layout = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=layout
        )
        x = jax.nn.relu(x + bias)
        window = (1, 2, 2, 1)
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")

    def forward(p, x):
        x = layer(layer(x, p["k1"], p["c1"]), p["k2"], p["c2"])
        return x.reshape(len(x), -1) @ p["w"] + p["b"]

    return params, forward


def transformer_by_hand():
    graph, params, rest = nnx.split(Transformer(nnx.Rngs(0)), nnx.Param, ...)

    def forward(params, x):
        return nnx.merge(graph, params, rest, copy=True)(x)

    return params, forward


HAND_WRITTEN = {
    "tiny": functools.partial(dense_by_hand, *sizes("tiny")),
    "mlp": functools.partial(dense_by_hand, *sizes("mlp")),
    "cnn": convolutional_by_hand,
    "tf": transformer_by_hand,
}


def loss_source(edit="", number=0):
    """The loss cell, as it is or edited as never before."""
    changed = 0.05 + 1e-4 * number if edit in ("first", "constant") else 0.05
    helper = "jnp.sin(" * number + "amount" + ")" * number  # another program each time
    return LOSS.format(
        comment="  # a comment\n    # of two lines" if edit == "comment" else "",
        constant=f"{changed:.6f}",
        helper=f" + {helper}" if edit == "helper" else "",
    )


def seconds(call, *arguments):
    started = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - started


def time_rounds(loops, rounds):
    """Seconds for each round of each loop, taking turns."""
    for loop in loops:
        loop.round()  # first touches
    turns = [[seconds(loop.round) for loop in loops] for _ in range(rounds)]
    return list(zip(*turns, strict=True))


def time_edits(loops, count):
    """Per kind of edit, seconds for each edit of each loop; what nitro compiled."""
    times, compiled = {}, {}
    for kind in EDITS:
        turns = []
        for number in [100] if kind == "first" else range(1, count + 1):
            for loop in loops:
                loop.edit(loss_source())
            known = len(nitro.programs.events())
            source = loss_source(kind, number)
            turns.append([seconds(loop.edit, source) for loop in loops])
            events = nitro.programs.events()[known:]
            names = {event.program for event in events if event.outcome == "compiled"}
            compiled.setdefault(kind, set()).update(names)
        times[kind] = list(zip(*turns, strict=True))
    return times, compiled


def report(job, loops, rounds, edits):
    steps, median = JOBS[job][2], statistics.median
    turns = time_rounds(loops, rounds)
    times, compiled = time_edits(loops, edits)
    print(f"\n{job}: {steps} steps of {JOBS[job][1]} samples a round, {rounds} rounds")
    print(f"{'':9}{'us/step':>9}{'fastest':>9}   {'ms for an edit of a':>19}", end="")
    print(*(f"{kind:>10}" for kind in EDITS))
    for index, loop in enumerate(loops):
        taken = [1e6 * t / steps for t in turns[index]]
        print(f"{loop.name:9}{median(taken):9.0f}{min(taken):9.0f}{'':22}", end="")
        print(*(f"{1e3 * median(times[kind][index]):10.0f}" for kind in EDITS))
    for index, loop in enumerate(loops[1:], 1):
        pairs = list(zip(turns[0], turns[index], strict=True))
        speed = median([a / b for a, b in pairs])
        more = 1e6 * median([b - a for a, b in pairs]) / steps
        print(f"a step of {loop.name}: {more:+.0f} us, {speed:.2f} of the speed")
        for kind in EDITS:
            pairs = zip(times[kind][0], times[kind][index], strict=True)
            ratio = median([b / a for a, b in pairs])
            print(f"  an edit, {kind}: {ratio:.3f} of the time by hand")
    for kind in EDITS:
        print(f"compiled for {kind}: {', '.join(sorted(compiled[kind])) or 'nothing'}")
    for loop in filter(lambda loop: isinstance(loop, Live), loops):
        print(f"{loop.name}: {loop.meanwhile():.2f} of the steps while a swap compiles")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", default="tiny,mlp,cnn,tf")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--edits", type=int, default=5)
    options = parser.parse_args()
    for job in options.jobs.split(","):
        nitro.programs.clear()  # jobs share a loss; each edit of each is to be new
        loops = [ByHand(job), Guarded(job), Live(job), Fused(job)]
        report(job, loops, options.rounds, options.edits)
        for loop in loops:
            loop.close()


if __name__ == "__main__":
    main()
