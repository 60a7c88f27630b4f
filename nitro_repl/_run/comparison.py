"""Runs side by side, as `compare` found them: a table, curves over each other, diffs.

Plain values of one moment; the first run is what the others are compared with.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from .._text import View, one_line, plain, show
from .drawing import COLORS, drawing, legend
from .side import Side
from .status import PHASE_STYLES
from .strokes import Curve, limits, sparkline
from .wide import Column, Wide

_METRICS, _CURVES = 3, 3  # columns where little was measured; curves that are drawn
_LINES = 40  # of one diff
_CHANGES = 6


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first step whose numbers differ, and the columns that do."""

    step: int
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"step {self.step:,} ({', '.join(self.columns)})"


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Comparison(View):
    """Runs side by side.

    Attributes:
        sides: What was taken down of each run; the first is compared with the others.
        fields: Values in each run by name, of the fields that differ.
        settings: Likewise of settings and hyperparameters.
        hooks: Hook -> run -> what its source has other than the first run's: a unified
            diff.
        programs: Program -> run -> what it was made from that the first run's was not.
        metric: What says which run is best, by its last value.
        mode: "min" or "max".
        first_difference: The first step whose recorded numbers differ; None without.
    """

    sides: tuple[Side, ...]
    fields: Mapping[str, tuple[Any, ...]]
    settings: Mapping[str, tuple[Any, ...]]
    hooks: Mapping[str, Mapping[str, str]]
    programs: Mapping[str, Mapping[str, tuple[str, ...]]]
    metric: str
    mode: str
    first_difference: Difference | None

    @property
    def runs(self) -> tuple[str, ...]:
        """Ids of the runs."""
        return tuple(one.run for one in self.sides)

    @property
    def best(self) -> str | None:
        """The run whose last value of the metric is best, if there are others."""
        if len(self.sides) < 2:
            return None
        last = {one.run: one.last.get(self.metric, np.nan) for one in self.sides}
        finite = {run: value for run, value in last.items() if np.isfinite(value)}
        choose = min if self.mode == "min" else max
        return choose(finite, key=lambda run: finite[run]) if finite else None

    @property
    def metrics(self) -> dict[str, tuple[float, ...]]:
        """The last value in each run, by label; nan where a run has none.

        The metric that says which is best first, values that were set last.
        """
        names = dict.fromkeys(name for one in self.sides for name in one.last)
        first = [self.metric, *(name for name in names if name != self.metric)]
        first.sort(key=self._is_minor)
        return {
            name: tuple(one.last.get(name, np.nan) for one in self.sides)
            for name in first
        }

    @property
    def curves(self) -> dict[str, dict[str, Curve]]:
        """Label -> run -> steps and values; the metric first."""
        return {
            name: {
                one.run: one.curves[name] for one in self.sides if name in one.curves
            }
            for name in self.metrics
        }

    def table(self) -> list[dict[str, Any]]:
        """A row for each run: what it is, the values that differ, its last metrics."""
        values = {**self.settings, **self.fields}
        return [
            {
                "run": one.run,
                "experiment": one.experiment,
                "phase": one.progress.phase,
                "step": one.progress.step,
                **{name: row[place] for name, row in values.items()},
                **one.last,
            }
            for place, one in enumerate(self.sides)
        ]

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [self._results(), *self._values()]
        return Group(*parts, *self.details())

    def details(self) -> list[Text]:
        """What else differs, line by line: steps, programs, changes, hooks as diffs."""
        lines: list[Text] = []
        if self.first_difference is not None:
            lines.append(_line("first differing step", str(self.first_difference)[5:]))
        for name, runs in self.programs.items():
            for causes, alike in _grouped(runs).items():
                lines.append(_line(f"program {name}, {alike}", "; ".join(causes)))
        for one in self.sides:
            lines += [
                _line(f"changed in {one.run}", text) for text in one.changes[-_CHANGES:]
            ]
        for name, runs in self.hooks.items():
            bodies = {run: text.split("\n", 2)[2] for run, text in runs.items()}
            for body, alike in _grouped(bodies).items():
                head = f"--- {name} ({self.runs[0]})\n+++ {name} ({alike})\n"
                lines += [Text(), *_diff(head + body)]
        return lines

    def _repr_html_(self) -> str:
        curves = dict(list(self.curves.items())[:_CURVES])
        none = np.empty(0), np.empty(0)  # keeps the place of its colour
        drawn = [
            f"<div>{html.escape(name)}</div>"
            + drawing({r: runs.get(r, none) for r in self.runs}, bold=self.best or "")
            for name, runs in curves.items()
            if limits(list(runs.values()))
        ]
        style = "font:13px ui-monospace,Menlo,Consolas,monospace;max-width:640px"
        shown = "".join([*drawn, legend(self.runs)]) if drawn else ""
        return f'<div style="{style}">{shown}</div>{super()._repr_html_()}'

    def _results(self) -> Wide:
        several = len({one.experiment for one in self.sides}) > 1
        sides, metrics = self.sides, self.shown_metrics()
        phases = [one.progress.phase for one in sides]
        ids = self._ids()
        keys = [
            _column("", ["best" if one.run == self.best else "" for one in sides]),
            ids,
            *(
                [_column("experiment", [s.experiment for s in sides])]
                if several
                else []
            ),
            Column(
                Text("phase"),
                [plain(name, 12, PHASE_STYLES.get(name, "")) for name in phases],
            ),
            _column("step", [f"{one.progress.step:,}" for one in sides], right=True),
        ]
        rest = [
            _column(name, [_number(value) for value in metrics[name]], right=True)
            for name in metrics
        ]
        span = (limits(list(self.curves[self.metric].values())) or ())[:2]
        drawn = [one.curves.get(self.metric) for one in sides]
        lines = [
            Text(sparkline(curve, 14, span) if curve else "", color(place))
            for place, curve in enumerate(drawn)
        ]
        rest.insert(1, Column(plain(self.metric, 20), lines))
        return Wide(keys, rest, [ids], self._styles())

    def _is_minor(self, name: str) -> bool:
        set_ = any(name in one.settings or name in one.fields for one in self.sides)
        return set_ or name.endswith("grad_norm")

    def shown_metrics(self) -> dict[str, tuple[float, ...]]:
        """The last values of all that was measured, and of a few of the rest."""
        metrics = self.metrics
        measured = [name for name in metrics if not self._is_minor(name)]
        return dict(list(metrics.items())[: max(_METRICS, len(measured))])

    def _values(self) -> list[RenderableType]:
        values = {**self.fields, **self.settings}
        columns = [
            _column(name, [show(value, 24) for value in row])
            for name, row in values.items()
        ]
        ids = self._ids()
        tables = Wide([ids], columns, [ids], self._styles(), most=len(columns))
        return [tables] if columns else []

    def _ids(self) -> Column:
        ids = [plain(run, 40, color(place)) for place, run in enumerate(self.runs)]
        return Column(Text("run"), ids)

    def _styles(self) -> list[str]:
        return ["bold" if run == self.best else "" for run in self.runs]


def _grouped(runs: Mapping[str, Any]) -> dict[Any, str]:
    """What is said of runs -> the ids of those of which the same is said."""
    found: dict[Any, list[str]] = {}
    for run, said in runs.items():
        found.setdefault(said, []).append(run)
    return {said: ", ".join(alike) for said, alike in found.items()}


def _line(label: str, text: str) -> Text:
    return Text.assemble((one_line(label), "dim"), "  ", one_line(text, 300))


def _diff(text: str) -> list[Text]:
    lines = text.splitlines()
    left = len(lines) - _LINES
    styles = {"+": "green", "-": "red", "@": "cyan"}
    shown = [plain(line, 200, styles.get(line[:1], "")) for line in lines[:_LINES]]
    return [*shown, *([Text(f"… {left} more lines", "dim")] if left > 0 else [])]


def _column(name: str, cells: Iterable[str], right: bool = False) -> Column:
    return Column(plain(name, 24), [plain(cell, 24) for cell in cells], right)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4g}"


def color(place: int) -> str:
    """Of the run at that place, in the table and in the curves."""
    return COLORS[place % len(COLORS)]
