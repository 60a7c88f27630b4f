"""What a run holds does not grow with its steps, nor its programs with Host fields."""

from __future__ import annotations

import gc
import os
import pathlib

import jax
import numpy as np
import pytest
from cells import QUIET, going, tiny

import nitro_repl as nitro
from nitro_repl.testing import count_compiles

FULL = """
class Tiny(Tiny):
    ema = 0.9
    accum = 2
    eval_every = 50

    def build_data(self):
        return {"train": ROWS[:4], "val": ROWS[:3]}

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)

    def metrics(self, logits, *, y):
        return {"acc": Mean((logits.argmax(-1) == y).sum(), len(y))}

    def schedules(self):
        return {
            "learning_rate": lambda total: optax.cosine_decay_schedule(1e-2, total),
            "smoothing": lambda total: optax.linear_schedule(0.1, 0.0, total),
        }
"""


def on_device():
    """How many arrays live on the device, and their bytes."""
    gc.collect()
    arrays = jax.live_arrays()
    return len(arrays), sum(array.nbytes for array in arrays)


def test_memory_on_the_device_is_flat_over_2000_steps():
    settings = {k: v for k, v in QUIET.items() if k != "eval_every"}
    handle = nitro.Nitro(tiny(FULL)["Tiny"](), **settings, max_steps=2100)
    with going(handle, steps=200) as run:
        early = on_device()
        run.advance(1800)
        assert run.step == 2000
        assert len(run.history("val")["acc"]) == 40
        late = on_device()
        assert late[0] <= early[0], "arrays"
        assert late[1] <= early[1], "bytes"
        kept = []
        run.on("step", lambda run: kept.append(jax.numpy.ones(run.step)))
        run.advance(10)
        count, size = on_device()
        assert count >= early[0] + 10, "the control"
        assert size > early[1]


TABLE = """
class Tiny(Tiny):
    table: np.ndarray = nitro.field(default_factory=lambda: np.zeros(1))
    baked: GraphConst[np.ndarray] = nitro.field(default_factory=lambda: np.zeros(1))

    def build_data(self):
        return {"train": [{**row, "t": self.table[:4]} for row in ROWS]}

    def loss(self, logits, *, y, t):
        baked = jnp.asarray(self.baked, "float32")
        return super().loss(logits, y=y) + t.mean() * baked.sum()
"""


def trained(book, **fields):
    """A run of two steps with cold programs: the run, and what was compiled."""
    nitro.programs.clear()
    with count_compiles() as count:
        run = book.train(fields=fields)
    return run, dict(count.traced), dict(count.compiled)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux tells it")
def test_programs_do_not_grow_with_a_host_field():
    book = tiny(TABLE)
    small, traced, compiled = trained(book, table=np.zeros(2**17))  # 1 MB
    large = np.zeros(25 * 2**20)  # 200 MB, that nobody has touched yet
    before = resident()
    run, traced_of_large, compiled_of_large = trained(book, table=large)
    assert (traced_of_large, compiled_of_large) == (traced, compiled)
    assert sum(compiled.values()) == 4
    assert hashes(run) == hashes(small), "no StableHLO holds a number of it"
    assert resident() - before < 100 * 2**20, "it is not read, nor copied"
    with count_compiles() as count:
        book.train(fields={"table": np.zeros(2**18)})
    assert count.nothing
    baked, *_ = trained(book, baked=np.arange(3.0))
    moved = [n for n, h in hashes(baked).items() if h != hashes(small)[n]]
    assert moved == ["loss train"], "the control"


def hashes(run):
    """Of the StableHLO of each program."""
    variant = run._loop.programs.variant
    return {name: told["hash"] for name, told in variant.items()}


def resident():
    """Bytes of this process that are in memory."""
    pages = pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
