"""A notebook without a kernel: cells run in one namespace, and a tiny experiment.

The base experiment is the same source in all tests, so that its programs are compiled
once for the whole session.
"""

from __future__ import annotations

import contextlib
import itertools
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import nitro_repl as nitro

IMPORTS = """
import functools, os
import jax, jax.numpy as jnp, numpy as np, optax
from flax import nnx
import nitro_repl as nitro
from nitro_repl import Device, GraphConst, Mean, Sum
"""

DATA = """
_rng = np.random.default_rng(0)
ROWS = [
    {"x": _rng.normal(size=(4, 3)).astype("float32"),
     "y": _rng.integers(0, 2, 4).astype("int32")}
    for _ in range(5)
]
"""

TINY = """
class Tiny(nitro.Experiment):
    width: GraphConst[int] = 4
    smoothing: Device[float] = 0.1
    note: str = "host"

    def build_data(self):
        return {"train": ROWS, "val": ROWS[:2]}

    def build_model(self, rngs):
        return nnx.Sequential(
            nnx.Linear(3, self.width, rngs=rngs), nnx.relu,
            nnx.Linear(self.width, 2, rngs=rngs),
        )

    def forward(self, model, *, x):
        return model(x)

    def loss(self, logits, *, y):
        return squared_error(logits, y, self.smoothing)

    def optimizer(self, hp):
        return optax.sgd(hp.learning_rate)

    def learning_rate(self):
        return 0.5
"""

LOSS = """
def squared_error(logits, label, smoothing):
    wrong = logits - jax.nn.one_hot(label, 2)
    return (wrong * wrong).mean() + smoothing * (logits * logits).mean()
"""

STATEFUL = """
class Net(nnx.Module):
    def __init__(self, rngs):
        self.one = nnx.Linear(3, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.two = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        return self.two(self.drop(nnx.relu(self.norm(self.one(x)))))

class Tiny(Tiny):
    def build_model(self, rngs):
        return Net(rngs)

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)

    def learning_rate(self):
        return 0.01
"""

SPLITS = """
class Tiny(Tiny):
    splits: dict = nitro.field(default_factory=dict)

    def build_data(self):
        return {**super().build_data(), **self.splits}
"""

QUIET = {"run_dir": None, "logger": None, "eval_every": None}
COST = ("hit", "rebound", "retraced", "loaded", "compiled")


class Notebook:
    """One namespace; `cell` runs source in it as a kernel would."""

    def __init__(self, *cells: str):
        self.names: dict[str, Any] = {"__name__": "user_notebook"}
        self._numbers = itertools.count(1)
        for source in cells:
            self.cell(source)

    def __getitem__(self, name: str) -> Any:
        return self.names[name]

    def cell(self, source: str) -> None:
        """Run a cell."""
        name = f"<cell {next(self._numbers)}>"
        code = compile(textwrap.dedent(source), name, "exec", dont_inherit=True)
        exec(code, self.names)

    def handle(self, name: str = "Tiny", fields: Any = None, **settings: Any) -> Any:
        """A handle on the newest class of that name; no files unless asked for."""
        return nitro.Nitro(self[name](**(fields or {})), **{**QUIET, **settings})

    def train(self, name: str = "Tiny", fields: Any = None, **settings: Any) -> Any:
        """Train in the foreground; the run that ended."""
        settings = {"max_steps": 2, **settings}
        return self.handle(name, fields, **settings).train(background=False)


def tiny(*cells: str) -> Notebook:
    """A notebook with the base experiment and more cells."""
    return Notebook(IMPORTS, DATA, LOSS, TINY, *cells)


@contextlib.contextmanager
def live(book: Notebook, steps: int = 2, **settings: Any) -> Iterator[Any]:
    """A run that made some steps, is paused, and has no end."""
    settings = {"max_steps": None, **settings}
    with going(book.handle(**settings), steps) as run:
        yield run


@contextlib.contextmanager
def going(handle: Any, steps: int = 0) -> Iterator[Any]:
    """A run of a handle that made some steps and is paused; stopped at the end."""
    run = handle.train(background=True, paused=True)
    try:
        if steps:
            run.advance(steps)
        yield run
    finally:
        run.stop()


class Gate:
    """A loader that stops before one of its batches until it is opened.

    Attributes:
        reached: Set when a reader stands before that batch.
        opened: Lets it go on.
    """

    def __init__(self, rows: Any, before: int = 1):
        self.rows = list(rows)
        self.before = before
        self.reached, self.opened = threading.Event(), threading.Event()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        for index, row in enumerate(self.rows):
            if index == self.before:
                self.reached.set()
                assert self.opened.wait(60), "nobody opened the gate"
            yield row


def until(true: Callable[[], Any], seconds: float = 60) -> None:
    """Wait for something that sets no event."""
    never, end = threading.Event(), time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        never.wait(0.002)


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Begin something in a thread; the function returned waits for its result."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, name="test-caller")
    thread.start()

    def result() -> Any:
        thread.join(60)
        assert not thread.is_alive(), "it never returned"
        if isinstance(found[0], BaseException):
            raise found[0]
        return found[0]

    return result


def check_error(error: Any, *words: str) -> None:
    """An error of ours: what, where and fix, at most six lines, these words in it."""
    text = str(error)
    assert isinstance(error, nitro.NitroError), repr(error)
    assert error.what, text
    assert error.where, text
    assert error.fix, text
    assert len(text.splitlines()) <= 6, text
    for word in words:
        assert word in text, f"{word!r} is not in:\n{text}"


class Outcomes:
    """The outcomes of all lookups since it was made."""

    def __init__(self) -> None:
        self._since = len(nitro.programs.events())

    @property
    def worst(self) -> dict[str, str]:
        """The dearest outcome of each program."""
        found: dict[str, str] = {}
        for event in nitro.programs.events()[self._since :]:
            if event.outcome == "evicted":
                continue  # no lookup
            found[event.program] = max(
                found.get(event.program, "hit"), event.outcome, key=COST.index
            )
        return found

    @property
    def not_hits(self) -> dict[str, str]:
        """The programs that were not all hits."""
        return {name: what for name, what in self.worst.items() if what != "hit"}


def losses(run: Any) -> list[float]:
    """The losses of a run's history."""
    return run.history("train")["loss"].tolist()


def by_hand(book: Notebook, name: str = "Tiny", steps: int = 2) -> list[float]:
    """The losses of plain gradient descent, eagerly: no cache can make them stale."""
    experiment = book[name]()
    with jax.disable_jit():
        model = experiment.build_model(nnx.Rngs(0))
        graph, params, rest = nnx.split(model, nnx.Param, ...)

        def value(params: Any, batch: Any) -> Any:
            merged = nnx.merge(graph, params, rest, copy=True)
            outputs = experiment.forward(merged, x=batch["x"])
            return experiment.loss(outputs, y=batch["y"])

        found = []
        for batch in itertools.islice(itertools.cycle(book["ROWS"]), steps):
            placed = {key: jnp.asarray(array) for key, array in batch.items()}
            loss, grads = jax.value_and_grad(value)(params, placed)
            rate = experiment.learning_rate()
            params = jax.tree.map(lambda p, g, r=rate: p - r * g, params, grads)
            found.append(float(loss))
    return found


def same(first: Any, second: Any) -> bool:
    """Whether two pytrees of arrays are equal to the last bit."""
    one, two = jax.tree.leaves(first), jax.tree.leaves(second)
    return len(one) == len(two) and all(
        np.asarray(a).tobytes() == np.asarray(b).tobytes()
        for a, b in zip(one, two, strict=True)
    )
