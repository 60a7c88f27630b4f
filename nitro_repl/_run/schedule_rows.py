"""Schedules as rows for people: where each begins and ends, and if it is followed.

Only what is known without another call of the user's function is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from .._text import plain, show
from .live import Values
from .schedules import Schedules


@dataclass(frozen=True)
class ScheduleRow:
    """One scheduled value.

    Attributes:
        name: Of the value.
        first: At the first step; None if only calling the schedule would tell.
        last: Likewise at the last step of the horizon.
        horizon: Optimizer steps that it was made for; None for a run without end.
        overridden: Whether the value was set by hand and stays so.
    """

    name: str
    first: float | None
    last: float | None
    horizon: int | None
    overridden: bool


def schedule_rows(followed: Schedules, values: Values) -> tuple[ScheduleRow, ...]:
    """A row for each scheduled value, sorted by name."""
    return tuple(
        ScheduleRow(
            name,
            _end(followed, values, name, 0),
            None
            if followed.horizon is None
            else _end(followed, values, name, followed.horizon - 1),
            followed.horizon,
            name in followed.held,
        )
        for name in sorted(followed.curves)
        if name in values.names
    )


def schedule_table(rows: Sequence[ScheduleRow]) -> Table:
    """Draw them."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("schedule", "first", "last", "steps", "now"):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(
            plain(row.name, 30),
            plain("?" if row.first is None else show(row.first), 14),
            plain("?" if row.last is None else show(row.last), 14),
            plain("no end" if row.horizon is None else f"{row.horizon:,}", 14),
            plain("overridden by set" if row.overridden else "followed", 20),
        )
    return table


def _end(followed: Schedules, values: Values, name: str, step: int) -> float | None:
    """The value that a step takes, as it is cast for it."""
    number, kind = followed.curves[name].peek(step), values.scalar(name)
    return None if number is None or kind is None else kind.cast(number)
