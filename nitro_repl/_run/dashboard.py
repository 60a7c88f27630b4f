"""The panel of a run as text: what a terminal shows of it, at one moment.

Made of plain values; whatever the room, each section is there with its first lines.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .._text import View, duration, plain, show
from .curves import is_loss
from .status import PHASE_STYLES, done_of, per_second
from .strokes import Curve, chart, is_log, limits, sparkline

COLORS = ("blue", "yellow", "green", "magenta", "cyan", "red")
_CHART, _LINES = 6, 10
_ROOM = 60  # lines, where nothing limits them
_LABEL, _NUMBERS = 10, 30  # columns beside a sparkline

Row = tuple[Text | str, ...]


class Dashboard(View):
    """A run at one moment.

    Args:
        sections: Progress, values, programs and errors, as `Look` gives them.
        curves: Steps and values by label, losses first.
        lines: The last lines of its log, as `Story` gives them.
        room: Lines of the screen.
    """

    def __init__(
        self,
        sections: Mapping[str, Any],
        curves: Mapping[str, Curve],
        lines: Sequence[Mapping[str, Any]] = (),
        room: int = _ROOM,
    ):
        self.sections = sections
        self.curves = curves
        self.lines = lines
        self.room = room

    def __rich__(self) -> RenderableType:
        return _Drawing(self)


class _Drawing:
    """A dashboard as wide as the console, and no higher than its room."""

    def __init__(self, shown: Dashboard):
        self._shown = shown

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        shown, sections = self._shown, self._shown.sections
        width = max(options.max_width - 4 - _LABEL - 2, 20)
        lines = _log(shown.lines)
        parts: list[tuple[str, list[Row]]] = [
            ("error", _texts(sections["error"], "red")),
            ("curves", _curves(shown.curves, width)),
            ("values", [_value(row) for row in sections["values"]]),
            ("programs", [_program(row) for row in sections["programs"]]),
            ("new code", _texts(sections["edit"], "yellow")),
            ("log", lines),
        ]
        head = _head(sections["progress"], width + _LABEL + 2)
        wanted = [len(rows) for _, rows in parts] + [_charts(shown.curves)]
        given = allot(wanted, shown.room - len(head) - 2)
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=_LABEL, style="dim", no_wrap=True)
        grid.add_column(no_wrap=True)
        for (label, rows), size in zip(parts, given, strict=False):
            if label == "curves" and given[-1] > 1:
                drawn = _charted(shown.curves, width, given[-1])
                grid.add_row(_axis(shown.curves, given[-1]), Group(*drawn))
            if size:
                kept = rows[-size:] if rows is lines else _first(rows, size)
                grid.add_row(label, _table(kept))
        who = sections["head"]
        title = Text.assemble(
            plain(who["experiment"], 40, "bold"), " ", plain(who["run"])
        )
        yield Panel(
            Group(*head, grid), title=title, title_align="left", box=box.ROUNDED
        )


def allot(wanted: Sequence[int], room: int) -> list[int]:
    """Share lines out: all that each wants, or as evenly as can be."""
    given = [0] * len(wanted)
    while room > 0 and given != list(wanted):
        for place, size in enumerate(wanted):
            if room > 0 and given[place] < size:
                given[place] += 1
                room -= 1
    return given


def _head(now: Mapping[str, Any], width: int) -> list[Text]:
    step, total = now["step"], now["total"]
    parts = [
        f"step {done_of(step, total)}",
        f"epoch {done_of(now['epoch'], now['epochs'])}",
    ]
    if now["loss"] is not None:
        parts.append(f"loss {_number(now['loss'])}")
    if now["rate"] is not None:
        parts.append(f"{per_second(now['rate'])} steps/s")
    if now["eta"]:
        parts.append(f"eta {duration(now['eta'])}")
    if now["wait"] is not None:
        parts.append(f"data wait {now['wait']:.0%}")
    phase = plain(now["phase"], 40, PHASE_STYLES.get(now["phase"], "cyan"))
    line = Text.assemble(phase, "  ", "  ".join(parts), no_wrap=True)
    note = plain(now["note"], width, "yellow")
    bar = Text(no_wrap=True)
    if total:
        done = round(min(step / total, 1.0) * width)
        bar = Text.assemble(("━" * done, "green"), ("─" * (width - done), "dim"))
    return [line, *([bar] if total else []), *([note] if now["note"] else [])]


def _charts(curves: Mapping[str, Curve]) -> int:
    """The lines that a chart of the losses wants."""
    found = limits([curve for name, curve in curves.items() if is_loss(name)])
    return 0 if found is None or found[0] == found[1] else _CHART


def _charted(curves: Mapping[str, Curve], width: int, height: int) -> list[Text]:
    """The losses in one chart."""
    losses = [curve for name, curve in curves.items() if is_loss(name)]
    styles = [_color(place) for place in range(len(losses))]
    return chart(losses, styles, width, height)


def _axis(curves: Mapping[str, Curve], height: int) -> Text:
    """The highest and the lowest loss, beside the chart."""
    found = limits([curve for name, curve in curves.items() if is_loss(name)])
    low, high = found[2:] if found else (0.0, 0.0)
    log = "log" if height > 2 and is_log(low, high) else ""
    lines = [_number(high), *([log] if height > 2 else []), *[""] * (height - 3)]
    return Text("\n".join([*lines, _number(low)]), justify="right")


def _curves(curves: Mapping[str, Curve], width: int) -> list[Row]:
    found = limits(list(curves.values()))
    span = found[:2] if found else ()
    room = max(min(width - _LABEL - _NUMBERS - 12, 60), 8)
    rows: list[Row] = []
    for place, (name, curve) in enumerate(curves.items()):
        own = limits([curve])
        if own is None:
            continue
        style = _color(place) if is_loss(name) else ""
        low, high = map(_number, own[2:])
        rows.append(
            (
                plain(name, 24, style or "bold"),
                Text(_number(float(curve[1][-1])), justify="right"),
                Text(sparkline(curve, room, span), style=style),
                Text(f"{low} to {high}", style="dim"),
            )
        )
    return rows


def _value(row: Mapping[str, Any]) -> Row:
    said = [row["follows"]] if row["follows"] else []
    if row["follows"] and row["next"] != row["value"]:
        said.append(f"next {_number(row['next'])}")
    if row["changed"] and not row["follows"] and row["default"] is not None:
        said.append(f"default {_number(row['default'])}")
    if row["bounds"] is not None:
        low, high = map(_number, row["bounds"])
        said.append(f"{low} to {high}{', log' if row['log'] else ''}")
    said += [row["doc"]] if row["doc"] else []
    return (
        plain(row["name"], 40, "bold" if row["changed"] else ""),
        plain(_number(row["value"]), 30),
        plain(", ".join(said), 200, "dim"),
    )


def _program(row: Mapping[str, Any]) -> Row:
    state, style = row["outcome"], ""
    if row["busy"]:
        state, style = "compiling", "cyan"
    elif row["stale"]:
        state, style = f"{state} stale".strip(), "yellow"
    cost = duration(row["cost"]) if row["cost"] else ""
    return (
        plain(row["name"], 30),
        plain(state, 20, style),
        Text(cost, justify="right"),
        plain(row["why"], 200, "dim"),
    )


def _log(lines: Sequence[Mapping[str, Any]]) -> list[Row]:
    styles = {"bad": "red", "change": "blue"}
    rows: list[Row] = []
    for line in lines[-_LINES:]:
        at = time.strftime("%H:%M:%S", time.localtime(line["at"]))
        for text in str(line["text"]).splitlines() or [""]:
            rows.append(
                (Text(at, "dim"), plain(text, 300, styles.get(line["kind"], "")))
            )
            at = ""
    return rows[-_LINES:]


def _texts(text: str, style: str) -> list[Row]:
    return [(plain(line, 300, style),) for line in text.splitlines()]


def _first(rows: list[Row], size: int) -> list[Row]:
    if len(rows) <= size:
        return rows
    left = len(rows) - size + 1
    return [*rows[: size - 1], (Text(f"… {left} more", style="dim"),)]


def _table(rows: Sequence[Row]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    columns = max(map(len, rows))
    for _ in range(columns):
        table.add_column(no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*row)
    return table


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else _shown(value)


def _shown(value: object) -> str:
    """A value that may be in words already."""
    return value if isinstance(value, str) else show(value)


def _color(place: int) -> str:
    return COLORS[place % len(COLORS)]
