"""What a run shows of itself: its progress, its state, its history, its siblings.

Everything here is plain values of one moment; drawing never touches a live run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .._text import View, duration, one_line, plain, show
from .wide import Column, Wide

ENDED = ("done", "failed", "stopped")  # the phases after which nothing moves

PHASE_STYLES = {
    "done": "green",
    "failed": "red",
    "paused": "yellow",
    "stopped": "yellow",
}
_HEAD, _TAIL = 5, 5  # rows of a long history that are shown


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a run is, at one moment; `str()` is its line.

    Attributes:
        step: Optimizer steps done.
        total_steps: Steps to do, if known.
        epoch: Epochs done.
        total_epochs: Epochs to do, if known.
        loss: The last loss that was read.
        rate: Steps a second.
        eta_s: Seconds left at this rate.
        phase: What the run does now, as `Run.phase` says it.
        note: What else the user should see, such as a swap being compiled.
        data_wait: The part of the time spent waiting for the loader, 0 to 1.
    """

    step: int = 0
    total_steps: int | None = None
    epoch: int = 0
    total_epochs: int | None = None
    loss: float | None = None
    rate: float | None = None
    eta_s: float | None = None
    phase: str = "starting"
    note: str = ""
    data_wait: float | None = None

    def __str__(self) -> str:
        parts = [
            f"step {done_of(self.step, self.total_steps)}",
            f"epoch {done_of(self.epoch, self.total_epochs)}",
        ]
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4g}")
        if self.rate is not None:
            parts.append(f"{per_second(self.rate)} steps/s")
        if self.eta_s and self.phase not in ENDED:
            parts.append(f"eta {duration(self.eta_s)}")
        parts.append(self.phase)
        if self.note:
            parts.append(one_line(self.note))
        return "  ".join(parts)


@dataclasses.dataclass(frozen=True)
class ValueRow:
    """A Device field or hyperparameter: its value now and its default.

    Attributes:
        follows: Says in words whether it is scheduled.
        following: The value that the next step takes.
        kind: "float", "int", "bool", or "array" for all that is no single number.
        bounds: Lowest and highest sensible value, None if not declared.
        log: Whether it is best varied on a logarithmic scale.
        doc: One line about it.
        hyper: Whether it is a hyperparameter of the optimizer.
    """

    name: str
    value: object
    default: object = None
    changed: bool = False
    follows: str = ""
    _: dataclasses.KW_ONLY
    following: object = None
    kind: str = "float"
    bounds: tuple[float, float] | None = None
    log: bool = False
    doc: str = ""
    hyper: bool = False


@dataclasses.dataclass(frozen=True)
class ProgramState:
    """A program of a run: its last outcome, and whether its code moved on.

    Attributes:
        unknown: Why that cannot be told without tracing, in words; else ''.
    """

    name: str
    outcome: str = ""
    stale: bool = False
    unknown: str = ""


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Status(View):
    """A run at one moment.

    Attributes:
        run: Its id.
        experiment: The name of its experiment.
        progress: How far it is.
        values: Device fields and hyperparameters.
        programs: Its programs in the order they run.
        moved: Edited hooks that no program shows; a swap takes them in.
        misfit: Why the newest code does not fit, in words.
        metrics: The latest value of each metric.
        error: What ended it, or made it pause, in words.
    """

    run: str
    experiment: str
    progress: Progress
    values: Sequence[ValueRow] = ()
    programs: Sequence[ProgramState] = ()
    moved: Sequence[str] = ()
    misfit: str = ""
    metrics: Mapping[str, object] = dataclasses.field(default_factory=dict)
    error: str = ""

    def __rich__(self) -> RenderableType:
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", no_wrap=True)
        rows.add_column(overflow="fold")
        style = PHASE_STYLES.get(self.progress.phase, "")
        rows.add_row("progress", Text(one_line(str(self.progress), 200), style))
        if self.values:
            rows.add_row("values", _join([_value(row) for row in self.values]))
        if self.metrics:
            rows.add_row("metrics", _join(_metrics(self.metrics)))
        if self.programs:
            rows.add_row("programs", _join([_program(row) for row in self.programs]))
        if self.moved:
            rows.add_row("moved", plain(", ".join(self.moved), 200, "yellow"))
        if self.misfit:
            rows.add_row("new code", _lines(self.misfit, "yellow"))
        if self.error:
            name = "reason" if self.progress.phase == "paused" else "error"
            rows.add_row(name, _lines(self.error, "red"))
        title = Text.assemble(plain(self.experiment, 40, "bold"), " ", plain(self.run))
        return Panel(rows, title=title, title_align="left", box=box.ROUNDED)


@dataclasses.dataclass(frozen=True)
class RunRow:
    """One run in the list of runs, with its last metrics."""

    run: str
    experiment: str
    progress: Progress
    current: bool = False
    metrics: Mapping[str, object] = dataclasses.field(default_factory=dict)


class RunsTable(View):
    """The runs of this process, oldest first; the current one is marked."""

    def __init__(self, rows: Sequence[RunRow]):
        self.rows = tuple(rows)

    def __rich__(self) -> RenderableType:
        if not self.rows:
            return Text("no runs yet: start one with `%nitro train Experiment`")
        now = [row.progress for row in self.rows]
        losses = ["" if p.loss is None else f"{p.loss:.4g}" for p in now]
        ids = _column("run", [row.run for row in self.rows])
        phases = [plain(p.phase, 30, PHASE_STYLES.get(p.phase, "")) for p in now]
        keys = [
            _column("", ["*" if row.current else "" for row in self.rows]),
            ids,
            _column("experiment", [row.experiment for row in self.rows]),
            Column(Text("phase"), phases),
            _column("step", [done_of(p.step, p.total_steps) for p in now], True),
            _column("epoch", [done_of(p.epoch, p.total_epochs) for p in now], True),
            _column("loss", losses, True),
        ]
        metrics = [_join(_metrics(row.metrics)) for row in self.rows]
        rest = [Column(Text("metrics"), metrics, folds=True)] if any(metrics) else []
        return Wide(keys, rest, [ids])


class HistoryView(Mapping[str, np.ndarray], View):
    """The recorded columns of one split: a mapping of name to numpy array."""

    def __init__(self, columns: Mapping[str, np.ndarray], split: str = "train"):
        self._columns = dict(columns)
        self.split = split

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    # Mapping would otherwise win over the drawing of View.
    __repr__ = View.__repr__

    def __rich__(self) -> RenderableType:
        rows = max((len(column) for column in self._columns.values()), default=0)
        caption = Text(f"{one_line(self.split)}: {rows:,} rows")
        if not rows:
            return caption
        ends = _ends(rows)
        columns = {
            name: Column(plain(name, 40), [_cell(column, at) for at in ends], True)
            for name, column in self._columns.items()
        }
        again = [columns["step"]] if "step" in columns else []
        rest = [column for column in columns.values() if column not in again]
        return Group(Wide(again, rest, again), caption)


def _ends(rows: int) -> list[int | None]:
    """Indices of the first and last rows, with None where rows are left out."""
    if rows <= _HEAD + _TAIL + 1:
        return list(range(rows))
    return [*range(_HEAD), None, *range(rows - _TAIL, rows)]


def _column(name: str, cells: Sequence[str], right: bool = False) -> Column:
    return Column(Text(name), [plain(cell, 40) for cell in cells], right)


def _cell(column: np.ndarray, index: int | None) -> Text:
    if index is None:
        return Text("…")
    return plain(show(column[index]), 24) if index < len(column) else Text("")


def _value(row: ValueRow) -> Text:
    text = plain(f"{row.name}={show(row.value)}", style="bold" if row.changed else "")
    if row.follows:
        text.append_text(plain(f" ({row.follows})", style="dim"))
    elif row.changed and row.default is not None:
        text.append_text(plain(f" (default {show(row.default)})", style="dim"))
    return text


def _metrics(metrics: Mapping[str, object]) -> list[Text]:
    return [
        plain(f"{name}={_metric(value)}")
        for name, value in metrics.items()
        if name not in ("step", "epoch")  # the progress line tells these
    ]


def _metric(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else show(value)


def _program(row: ProgramState) -> Text:
    text = plain(row.name)
    if row.outcome:
        text.append_text(plain(f" {row.outcome}", style="dim"))
    if row.stale:
        text.append_text(Text(" stale", style="yellow"))
    elif row.unknown:
        text.append_text(plain(f" {row.unknown}", 200, "yellow"))
    return text


def _lines(text: str, style: str) -> Group:
    return Group(*(plain(line, 90, style) for line in text.splitlines()[:8]))


def _join(parts: Sequence[Text]) -> Text:
    text = Text("  ").join(parts)
    text.no_wrap = False
    return text


def done_of(done: int, total: int | None) -> str:
    return f"{done:,}" if total is None else f"{done:,}/{total:,}"


def per_second(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
