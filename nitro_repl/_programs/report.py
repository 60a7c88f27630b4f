"""How the program cache is shown: a table of programs and the reasons in words.

Plain values of one moment; drawing never touches the cache.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import overload

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from .._text import View, one_line, plain
from .spec import Event

_OUTCOME_STYLES = {"hit": "green", "rebound": "green", "compiled": "yellow"}


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
    """

    program: str
    outcome: str
    trace_s: float = 0.0
    lower_s: float = 0.0
    compile_s: float = 0.0
    uses: int = 0
    experiment: str = ""


class ProgramsTable(View):
    """The programs of each experiment, in the order they were first looked up."""

    def __init__(self, rows: Sequence[ProgramRow], caption: str = ""):
        self.rows = tuple(rows)
        self.caption = caption

    @classmethod
    def of(cls, events: Iterable[Event]) -> ProgramsTable:
        """Sum up lookups, oldest first: one row per experiment and program."""
        rows: dict[tuple[str, str], ProgramRow] = {}
        for event in events:
            key = (event.experiment, event.program)
            before = rows.get(key, ProgramRow(event.program, "", experiment=key[0]))
            rows[key] = dataclasses.replace(
                before,
                outcome=event.outcome,
                trace_s=before.trace_s + event.trace_s,
                lower_s=before.lower_s + event.lower_s,
                compile_s=before.compile_s + event.compile_s,
                uses=before.uses + 1,
            )
        return cls(list(rows.values()))

    def __rich__(self) -> RenderableType:
        if not self.rows:
            return Text("no programs compiled yet")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in ("program", "experiment", "last"):
            table.add_column(name, no_wrap=True)
        for name in ("trace", "lower", "compile", "lookups"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in self.rows:
            table.add_row(
                plain(row.program, 30),
                plain(row.experiment, 30),
                plain(row.outcome, 20, _OUTCOME_STYLES.get(row.outcome, "")),
                *(_milliseconds(s) for s in (row.trace_s, row.lower_s, row.compile_s)),
                f"{row.uses:,}",
            )
        if self.caption:
            table.caption = plain(self.caption, 100)
            table.caption_justify = "left"
        return table


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


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms" if seconds else ""
