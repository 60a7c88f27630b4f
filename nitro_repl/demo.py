"""`nitro-repl demo`: train on digits, then change a value and the loss of the live run.

What is shown as code is what runs, and every number is measured in this run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from ._programs.cache import programs
from ._programs.persistent import switched_off
from ._programs.spec import Event
from ._run.nitro import Nitro
from ._run.run import Run
from ._run.ticker import terminal_line
from .errors import DataError, SettingError

TARGET = 0.95  # test accuracy that the demo promises
WIDTH = 512

# Run as cells, since code inside a package counts as installed: keyed by its version,
# not by its content.
EXPERIMENT = """\
import nitro_repl as nitro
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits


class Digits(nitro.Experiment):
    width: nitro.GraphConst[int] = 128  # baked into the programs
    smoothing: nitro.Device[float] = 0.05  # an input: changes cost nothing
    batch_size: int = 64  # for the host alone

    def build_data(self):
        images, labels = load_digits(return_X_y=True)
        images = (images / 16).astype("float32")
        order = np.random.default_rng(0).permutation(len(labels))
        train, val, test = np.split(order, [1216, 1472])

        def loader(rows, shuffle=False):
            arrays = {"image": images[rows], "label": labels[rows]}
            return nitro.ArrayLoader(arrays, self.batch_size, shuffle)

        return {
            "train": loader(train, shuffle=True),
            "val": loader(val),
            "test": loader(test),
        }

    def build_model(self, rngs):
        return nnx.Sequential(
            nnx.Linear(64, self.width, rngs=rngs),
            nnx.relu,
            nnx.Linear(self.width, self.width, rngs=rngs),
            nnx.relu,
            nnx.Linear(self.width, 10, rngs=rngs),
        )

    def forward(self, model, *, image):
        return model(image)

    def loss(self, logits, *, label):
        targets = nnx.one_hot(label, 10)
        targets = optax.smooth_labels(targets, self.smoothing)
        return optax.softmax_cross_entropy(logits, targets).mean()

    def metrics(self, logits, *, label):
        right = logits.argmax(-1) == label
        return {"acc": nitro.Mean(right.sum(), len(label))}
"""

EDIT = """\
@Digits.hook
def loss(self, logits, *, label):
    one_hot = nnx.one_hot(label, 10)
    targets = optax.smooth_labels(one_hot, self.smoothing)
    losses = optax.softmax_cross_entropy(logits, targets)
    right = (nnx.softmax(logits) * one_hot).sum(-1)
    return ((1 - right) ** 2 * losses).mean()  # focal: easy ones count less
"""


def run_demo(
    *, epochs: int = 60, run_dir: str | None = "runs", console: Console | None = None
) -> bool:
    """Train, set a value, edit the loss, swap, and tell what was compiled.

    Args:
        epochs: Epochs to train.
        run_dir: Folder for the files of the run; None for no files.
        console: Where to tell it; the terminal if not given.

    Returns:
        Whether the promises held: the edit compiled the loss alone, and the test
        accuracy is at least 0.95.

    Raises:
        DataError: scikit-learn is not installed.
        SettingError: There are too few epochs to stop in between.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise DataError(
            "the demo trains on scikit-learn's digits, and it is not installed",
            where="nitro-repl demo",
            fix="pip install 'nitro_repl[demo]'",
        )
    if epochs < 3:
        raise SettingError(
            f"epochs={epochs} leaves no time to change anything",
            where="nitro-repl demo",
            fix="--epochs 60",
        )
    # What an earlier demo left on disk would hide what is compiled and what is not.
    with switched_off(), compiles_by_name() as compiles:
        return _Demo(console or Console(), compiles).show(epochs, run_dir)


@contextlib.contextmanager
def compiles_by_name() -> Iterator[Counter[str]]:
    """Count what JAX compiles in the body, by the name of the compiled function.

    JAX reports them itself, through `jax.monitoring`, so this sees every compile of the
    process, ours and any other.
    """
    counted: Counter[str] = Counter()

    def count(event: str, duration_secs: float, **details: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            name = str(details.get("fun_name", "?"))
            counted[name.removeprefix("jit(").removesuffix(")")] += 1

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        yield counted
    finally:
        jax.monitoring.unregister_event_duration_listener(count)


class _Demo:
    """One demonstration; each method is one act of it."""

    def __init__(self, console: Console, compiles: Counter[str]):
        self._console = console
        self._compiles = compiles
        self._names: dict[str, Any] = {"__name__": "nitro_demo"}
        self._cells = 0

    def show(self, epochs: int, run_dir: str | None) -> bool:
        started = time.perf_counter()
        self._cell("An experiment", EXPERIMENT)
        run = self._train(epochs, run_dir)
        try:
            self._until(run, epochs // 3)
            self._set(run)
            self._until(run, epochs // 2)
            self._edit(run)
            alone = self._swap(run)
            self._finish(run)
            accuracy = self._results(run, time.perf_counter() - started)
        finally:
            run.stop()
        return alone and accuracy >= TARGET

    def _train(self, epochs: int, run_dir: str | None) -> Run:
        self._act(f"Train it in the background: Digits(width={WIDTH}), {epochs} epochs")
        experiment = self._names["Digits"](width=WIDTH)
        handle = Nitro(experiment, max_epochs=epochs, run_dir=run_dir)
        return handle.train(background=True)

    def _until(self, run: Run, epoch: int) -> None:
        with terminal_line(run):
            while run.epoch < epoch and not run.wait(0.05):
                pass
        self._say(str(run.progress()))

    def _set(self, run: Run) -> None:
        self._act("Set a value live: run.set(smoothing=0.1)")
        before = self._compiles.total()
        run.set(smoothing=0.1)
        run.advance(1)  # a step with the new value is done when this returns
        run.resume()
        self._say(f"XLA compiles for it: {self._compiles.total() - before}")

    def _edit(self, run: Run) -> None:
        self._act("Pause: run.pause()")
        run.pause()
        self._say(str(run.progress()))
        self._cell("Edit the loss", EDIT)
        self._say(f"run.stale: {', '.join(run.stale)}")

    def _swap(self, run: Run) -> bool:
        """Take the edit; whether the loss was compiled for it, and nothing else."""
        self._act("Swap it into the run: run.swap()")
        known = len(programs.events())
        at_start = self._compiles.copy()
        run.swap()
        for_edit = self._compiles - at_start
        events = programs.events()
        self._console.print(
            _programs_table(
                [event for event in events[:known] if event.run == run.id],
                [event for event in events[known:] if event.run == run.id],
                at_start,
                for_edit,
            )
        )
        self._act("Why: nitro.programs.why()")
        self._console.print(Padding(programs.why(), (0, 2)))
        return set(for_edit) == {"nitro_loss"}

    def _finish(self, run: Run) -> None:
        self._act("Go on from the same step: run.resume()")
        run.resume()
        with terminal_line(run):
            run.wait()
        self._say(str(run.progress()))

    def _results(self, run: Run, seconds: float) -> float:
        self._act('Evaluate: run.handle.evaluate("test")')
        result = run.handle.evaluate("test")
        self._say("  ".join(f"{name} {value:.4f}" for name, value in result.items()))
        self._say(f"{run.step:,} steps, {seconds:.0f} s with all compiles")
        folder = run.handle.settings["run_dir"]
        if folder is not None:
            self._say(f"files of the run: {Path(folder, 'Digits', run.id)}")
        return result["acc"]

    def _cell(self, title: str, source: str) -> None:
        """Show a cell and run it, as a notebook would."""
        self._cells += 1
        self._act(f"{title}: In [{self._cells}]")
        code = Syntax(source.rstrip(), "python", background_color="default")
        self._console.print(Padding(code, (0, 2)))
        name = f"<cell {self._cells}>"
        lines = source.splitlines(keepends=True)
        linecache.cache[name] = (len(source), None, lines, name)
        exec(compile(source, name, "exec"), self._names)

    def _act(self, title: str) -> None:
        self._console.print()
        self._console.rule(f"[bold]{title}", align="left", style="dim")

    def _say(self, text: str) -> None:
        self._console.print(Padding(text, (0, 2)), markup=False, highlight=False)


def _programs_table(
    before: list[Event],
    after: list[Event],
    at_start: Counter[str],
    for_edit: Counter[str],
) -> Table:
    """Outcomes of our lookups beside JAX's own count of compiles."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("program")
    for title in ("at the start", "for the edit"):
        table.add_column(title)
        table.add_column("compiles by XLA", justify="right")
    for name in dict.fromkeys(event.program for event in before):
        table.add_row(
            name,
            _outcome(before, name),
            str(at_start[f"nitro_{name}"]),
            _outcome(after, name),
            str(for_edit[f"nitro_{name}"]),
        )
    others = (str(_other(counts)) for counts in (at_start, for_edit))
    table.add_row("any other", "", next(others), "", next(others), style="dim")
    return table


def _outcome(events: list[Event], program: str) -> Text:
    """What the lookups of a program came to, the costliest first."""
    found = {event.outcome for event in events if event.program == program}
    for outcome, style in (("compiled", "yellow"), ("retraced", "yellow")):
        if outcome in found:
            return Text(outcome, style)
    return Text("reused", "green") if found else Text("")


def _other(compiles: Counter[str]) -> int:
    """Compiles that are not of our programs: operations that ran one by one."""
    return sum(n for name, n in compiles.items() if not name.startswith("nitro_"))
