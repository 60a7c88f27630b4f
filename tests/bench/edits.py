"""Live through many random edits in one session: right numbers, and no growth.

    python tests/bench/edits.py [--edits 200] [--quick]

One notebook is edited again and again, and trained after each edit. At several points
its numbers are compared with a new process that only saw the final code. The memory
of the process is shown as it goes; the last table says what a look for edits costs
when there are none, for two models.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["NITRO_CACHE_DIR"] = "off"  # an edit is to be compiled, in each run of this
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from cells import QUIET, Notebook, losses
from random_code import EXPRESSIONS, HEAD, KINDS, ROOTS, Node, World, in_new_process
from random_session import CHANGES, REPEATS, STEPS, Session, close, leaves, train

import nitro_repl as nitro

HELPERS, IN_FILE = 10, 4
LOOKS = 50

MODELS = {
    "mlp": """
ROWS = [{"x": np.ones((64, 784), "float32"), "y": np.zeros(64, "int32")}]

class Net(nnx.Module):
    def __init__(self, rngs):
        self.a = nnx.Linear(784, 256, rngs=rngs)
        self.b = nnx.Linear(256, 10, rngs=rngs)

    def __call__(self, x):
        return self.b(nnx.relu(self.a(x)))
""",
    "transformer": """
ROWS = [{"x": np.zeros((16, 64), "int32"), "y": np.zeros(16, "int32")}]

class Block(nnx.Module):
    def __init__(self, d, rngs):
        self.n1 = nnx.LayerNorm(d, rngs=rngs)
        self.n2 = nnx.LayerNorm(d, rngs=rngs)
        self.att = nnx.MultiHeadAttention(
            num_heads=4, in_features=d, decode=False, rngs=rngs)
        self.up = nnx.Linear(d, 4 * d, rngs=rngs)
        self.down = nnx.Linear(4 * d, d, rngs=rngs)

    def __call__(self, h):
        h = h + self.att(self.n1(h))
        return h + self.down(nnx.gelu(self.up(self.n2(h))))

class Net(nnx.Module):
    def __init__(self, rngs, d=128):
        self.tok = nnx.Embed(17, d, rngs=rngs)
        self.pos = nnx.Param(0.02 * jax.random.normal(rngs.params(), (64, d)))
        self.blocks = nnx.List([Block(d, rngs) for _ in range(4)])
        self.out = nnx.Linear(d, 10, rngs=rngs)

    def __call__(self, x):
        h = self.tok(x) + self.pos[...]
        for block in self.blocks:
            h = block(h)
        return self.out(h.mean(1))
""",
}
EXPERIMENT = """
class Exp(nitro.Experiment):
    def build_data(self):
        return {"train": ROWS}

    def build_model(self, rngs):
        return Net(rngs)

    def forward(self, model, *, x):
        return model(x)

    def loss(self, logits, *, y):
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return losses.mean()

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)
"""


def world(rng: random.Random) -> World:
    """Ten helpers, four of them in a module, and three hooks that call them."""
    names = [f"h{i}" for i in range(HELPERS)]
    nodes: dict[str, Node] = {}
    for at, name in enumerate(names):
        inner = tuple(rng.sample(names[:at], min(at, 1)))
        kind = rng.choice(list(KINDS))
        nodes[name] = Node(name, kind, inner, rng.randint(20, 120) / 64)
    for root in ROOTS:
        nodes[root] = Node(root, root, tuple(rng.sample(names, 2)))
    return World(nodes, IN_FILE)


def megabytes() -> float:
    """Memory of this process, in MB."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def live(edits: int, shown: int) -> None:
    """Edit and train; after each `shown` edits print what became of it."""
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        session = Session(world(rng), pathlib.Path(folder))
        print(f"{'edits':>6} {'MB':>7} {'s an edit':>10}  outcomes since")
        since, started = len(nitro.programs.events()), time.perf_counter()
        for number in range(1, edits + 1):
            shift = rng.randrange(1, len(EXPRESSIONS))
            change = rng.choice(CHANGES + REPEATS)
            session.edit(rng.randrange(20), change, rng.randint(20, 120) / 64, shift)
            run = train(session)
            if number % shown:
                continue
            each = (time.perf_counter() - started) / shown
            found = [event.outcome for event in nitro.programs.events()[since:]]
            counts = ", ".join(f"{o} {found.count(o)}" for o in sorted(set(found)))
            print(f"{number:6d} {megabytes():7.0f} {each:10.3f}  {counts}", flush=True)
            code = session.world
            # Elsewhere: what it compiles must not count as memory of this session.
            expected, params = in_new_process(code.cells, code.file, STEPS)
            close([losses(run), *leaves(run)], [expected, *params])
            since, started = len(nitro.programs.events()), time.perf_counter()
        sys.path.remove(folder)
    print("the same numbers as a fresh session, each time\n")


def looks(times: int) -> None:
    """Time a look for edits when there are none."""
    print(f"{'ms, median of ' + str(times):20} {'run.stale':>10} {'run.swap()':>11}")
    for name, cell in MODELS.items():
        book = Notebook(HEAD, cell, EXPERIMENT)
        handle = nitro.Nitro(book["Exp"](), max_steps=None, **QUIET)
        run = handle.train(background=True, paused=True)
        try:
            run.advance(1)
            stale = _median(lambda: run.stale, times)  # noqa: B023
            swap = _median(run.swap, times)
        finally:
            run.stop()
        print(f"{name:20} {stale:10.2f} {swap:11.2f}")


def _median(work, times: int) -> float:
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append((time.perf_counter() - started) * 1e3)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="20 edits")
    asked = parser.parse_args()
    edits = 20 if asked.quick else asked.edits
    live(edits, max(1, edits // (2 if asked.quick else 4)))
    looks(3 if asked.quick else LOOKS)


if __name__ == "__main__":
    main()
