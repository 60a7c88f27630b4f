"""How the program cache is shown: a table of programs and the reasons in words.

Plain values of one moment; drawing never touches the cache.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence
from typing import overload

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from .._text import View, one_line, plain
from .spec import Event, Program

_OUTCOME_STYLES = {"hit": "green", "rebound": "green", "compiled": "yellow"}
_CONSTANTS_SHOWN = 6


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

    def after(self, event: Event) -> ProgramRow:
        """The row with one lookup more."""
        runs = tuple(dict.fromkeys((event.run, *self.runs))) if event.run else self.runs
        return dataclasses.replace(
            self,
            outcome=event.outcome,
            trace_s=self.trace_s + event.trace_s,
            lower_s=self.lower_s + event.lower_s,
            compile_s=self.compile_s + event.compile_s,
            uses=self.uses + (event.outcome != "evicted"),
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
            events: The lookups.
            programs: The latest programs with the experiments they are of.
        """
        rows: dict[tuple[str, str], ProgramRow] = {}
        for event in events:
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
                )
        return cls(list(rows.values()))

    def __rich__(self) -> RenderableType:
        if not self.rows:
            return Text("no programs compiled yet")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        several = len({row.experiment for row in self.rows}) > 1
        for name in ("program", *(("experiment",) if several else ()), "last"):
            table.add_column(name, no_wrap=True)
        for name in ("trace", "lower", "compile", "memory", "age", "uses"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("in runs", no_wrap=True)
        for row in self.rows:
            table.add_row(*_cells(row, several))
        lines = [f"{row.program}: {_inputs(row)}" for row in self.rows if row.constants]
        caption = "\n".join([*lines, *([self.caption] if self.caption else [])])
        if caption:
            table.caption = plain(caption, 1_000)
            table.caption_justify = "left"
        return table


def _cells(row: ProgramRow, several: bool) -> list[Text | str]:
    runs, more = row.runs[0] if row.runs else "", len(row.runs) - 1
    return [
        plain(row.program, 30),
        *((plain(row.experiment, 30),) if several else ()),
        plain(row.outcome, 20, _OUTCOME_STYLES.get(row.outcome, "")),
        *(_milliseconds(s) for s in (row.trace_s, row.lower_s, row.compile_s)),
        f"{row.memory / 2**20:,.1f} MB" if row.memory else "",
        _age(time.time() - row.made) if row.made else "",
        f"{row.uses:,}",
        plain(runs + (f" +{more}" if more > 0 else ""), 40),
    ]


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
