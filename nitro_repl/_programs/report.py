"""How the program cache is shown: a table of programs and the reasons in words.

Plain values of one moment; drawing never touches the cache.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from .._text import View, duration, one_line, plain
from .spec import Event, Program

_OUTCOME_STYLES = {"hit": "green", "rebound": "green", "compiled": "yellow"}
_CONSTANTS_SHOWN = 6
_RUN_SHOWN = 12  # letters of a run id that there is always room for


@dataclasses.dataclass(frozen=True)
class ProgramRow:
    """A compiled program: what the last lookup gave and what it has cost.

    Attributes:
        program: Its name.
        outcome: The outcome of its last lookup.
        trace_s: Seconds spent tracing it.
        lower_s: Seconds spent lowering it.
        compile_s: Seconds spent in XLA.
        uses: How often it was looked up.
        experiment: The experiment whose hooks it holds.
        memory: Bytes of its code and scratch space; 0 if XLA does not say.
        made: When it was last traced or compiled, in seconds since the epoch.
        runs: Ids of the runs that looked it up, latest first.
        constants: Numbers in the code that it takes as inputs, with their places.
        unseen: Why an edit of what it reads may not be seen without tracing.
    """

    program: str
    outcome: str
    trace_s: float = 0.0
    lower_s: float = 0.0
    compile_s: float = 0.0
    uses: int = 0
    experiment: str = ""
    memory: int = 0
    made: float = dataclasses.field(default=0.0, compare=False)
    runs: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    def after(self, event: Event) -> ProgramRow:
        """The row with one lookup more."""
        runs = tuple(dict.fromkeys((event.run, *self.runs))) if event.run else self.runs
        return dataclasses.replace(
            self,
            outcome=event.outcome,
            trace_s=self.trace_s + event.trace_s,
            lower_s=self.lower_s + event.lower_s,
            compile_s=self.compile_s + event.compile_s,
            uses=self.uses + 1,
            made=self.made if event.outcome == "hit" else event.at,
            runs=runs,
        )


class ProgramsTable(View):
    """The programs of each experiment, in the order they were first looked up."""

    def __init__(self, rows: Sequence[ProgramRow], caption: str = ""):
        self.rows = tuple(rows)
        self.caption = caption

    @classmethod
    def of(
        cls, events: Iterable[Event], programs: Iterable[tuple[str, Program]] = ()
    ) -> ProgramsTable:
        """Sum up lookups, oldest first: one row per experiment and program.

        Args:
            events: The lookups; an eviction is none, and may be of another experiment.
            programs: The latest programs with the experiments they are of.
        """
        rows: dict[tuple[str, str], ProgramRow] = {}
        for event in events:
            if event.outcome == "evicted":
                continue
            key = (event.experiment, event.program)
            row = rows.get(key, ProgramRow(event.program, "", experiment=key[0]))
            rows[key] = row.after(event)
        for experiment, program in programs:
            row = rows.get((experiment, program.name))
            if row is not None:
                rows[experiment, program.name] = dataclasses.replace(
                    row,
                    memory=row.memory + program.memory,
                    constants=tuple(dict.fromkeys((*row.constants, *program.lifted))),
                    unseen=tuple(dict.fromkeys((*row.unseen, *program.unseen))),
                )
        return cls(list(rows.values()))

    def __rich__(self) -> RenderableType:
        if not self.rows:
            return Text("no programs compiled yet")
        several = len({row.experiment for row in self.rows}) > 1
        lines = [
            (f"{row.experiment} " if several else "") + f"{row.program}: {said}"
            for row in self.rows
            for said in (
                *([_inputs(row)] if row.constants else []),
                *([unknown(row.unseen)] if row.unseen else []),
            )
        ]
        lines += [self.caption] if self.caption else []
        below = [Text(one_line(line, 1_000), style="dim") for line in lines]
        return Group(_Fitted(self.rows, several), *below)


class _Layout(NamedTuple):
    """What of a row there is room for.

    Attributes:
        name: Most letters of an experiment.
        lower: Whether the lowering has its own column; else it counts to the trace.
        tight: Whether times are rounded, and ages left out.
    """

    name: int = 30
    lower: bool = True
    tight: bool = False


_LAYOUTS = (_Layout(), _Layout(12), _Layout(12, False), _Layout(12, False, True))


class _Fitted:
    """The widest layout of the rows that fits the console.

    The run ids give way first: a number that is cut is a wrong number.
    """

    def __init__(self, rows: Sequence[ProgramRow], several: bool):
        self.rows = rows
        self.several = several

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        endless = options.update_width(10_000)
        layout = _LAYOUTS[-1]
        for layout in _LAYOUTS:
            least = self._table(layout, _RUN_SHOWN)
            if Measurement.get(console, endless, least).maximum <= options.max_width:
                break
        yield self._table(layout, 40)
        also = "" if layout.lower else "; trace is tracing and lowering"
        yield Text(f"times are sums over all versions of a program{also}", style="dim")

    def _table(self, layout: _Layout, run: int) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        titles = ["trace", *(["lower"] if layout.lower else []), "compile", "memory"]
        titles += [*([] if layout.tight else ["age"]), "uses"]
        for title in ("program", *(("experiment",) if self.several else ()), "last"):
            table.add_column(title, no_wrap=True)
        for title in titles:
            table.add_column(title, justify="right", no_wrap=True)
        table.add_column(Text("in runs", no_wrap=True, overflow="ellipsis"))
        for row in self.rows:
            table.add_row(*_cells(row, layout, self.several, run))
        return table


def _cells(
    row: ProgramRow, layout: _Layout, several: bool, run: int
) -> list[Text | str]:
    runs, more = row.runs[0] if row.runs else "", len(row.runs) - 1
    spent = (row.trace_s, row.lower_s)
    spent = (*(spent if layout.lower else (sum(spent),)), row.compile_s)
    age = _age(time.time() - row.made) if row.made else ""
    return [
        plain(row.program, 30),
        *((plain(row.experiment, layout.name),) if several else ()),
        plain(row.outcome, 20, _OUTCOME_STYLES.get(row.outcome, "")),
        *(
            (duration(s) if s else "") if layout.tight else _milliseconds(s)
            for s in spent
        ),
        f"{row.memory / 2**20:,.1f} MB" if row.memory else "",
        *(() if layout.tight else (age,)),
        f"{row.uses:,}",
        plain(runs + (f" +{more}" if more > 0 else ""), run),
    ]


def unknown(reasons: Sequence[str]) -> str:
    """What to say where it cannot be told without tracing whether code moved on."""
    distinct = list(dict.fromkeys(reasons))
    more = f" and {len(distinct) - 1} more" if len(distinct) > 1 else ""
    return f"stale unknown: always traced, {distinct[0]}{more}"


def _inputs(row: ProgramRow) -> str:
    """The constants that a program takes as inputs, in words."""
    count = len(row.constants)
    noun = "constant is an input" if count == 1 else "constants are inputs"
    shown = ", ".join(row.constants[:_CONSTANTS_SHOWN])
    more = count - _CONSTANTS_SHOWN
    return f"{count} {noun}: {shown}" + (f" and {more} more" if more > 0 else "")


class Reasons(View, Sequence[str]):
    """Why the latest programs were compiled or reused, one sentence each."""

    def __init__(self, lines: Sequence[str]):
        self._lines = tuple(lines)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        return self._lines[index]

    def __len__(self) -> int:
        return len(self._lines)

    def __rich__(self) -> RenderableType:
        if not self._lines:
            return Text("nothing was looked up yet")
        return Text("\n").join(Text(one_line(line, 300)) for line in self._lines)


def _age(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.0f} h"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms" if seconds else ""
