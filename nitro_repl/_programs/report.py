"""How the program cache is shown: a table of programs and the reasons in words.

Plain values of one moment; drawing never touches the cache.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import overload

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from nitro_repl._text import View, duration, one_line, plain

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
        uses: Lookups that it answered.
        age_s: Seconds since it was made.
        experiment: The experiment whose hooks it holds.
    """

    program: str
    outcome: str
    trace_s: float = 0.0
    lower_s: float = 0.0
    compile_s: float = 0.0
    uses: int = 0
    age_s: float = 0.0
    experiment: str = ""


class ProgramsTable(View):
    """The programs in the cache, in the order they were made."""

    def __init__(self, rows: Sequence[ProgramRow], caption: str = ""):
        self.rows = tuple(rows)
        self.caption = caption

    def __rich__(self) -> RenderableType:
        if not self.rows:
            return Text("no programs compiled yet")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in ("program", "experiment", "last"):
            table.add_column(name, no_wrap=True)
        for name in ("trace", "lower", "compile", "uses", "age"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in self.rows:
            table.add_row(
                plain(row.program, 30),
                plain(row.experiment, 30),
                plain(row.outcome, 20, _OUTCOME_STYLES.get(row.outcome, "")),
                *(_milliseconds(s) for s in (row.trace_s, row.lower_s, row.compile_s)),
                f"{row.uses:,}",
                duration(row.age_s),
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
