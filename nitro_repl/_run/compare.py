"""Compares runs: what differs between them, and which is the best.

Reads each run once and changes nothing; of values, content counts.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._code.arrays import light_look
from .._code.fingerprint import fingerprint
from .._programs.reason import differences
from ..errors import RunError, suggest
from . import registry
from .comparison import Comparison, Difference
from .curves import is_loss
from .side import Side, side

if TYPE_CHECKING:
    from .run import Run

MODES = ("min", "max")
_OTHER = ["it computes something else"]


def compare(
    *runs: Run | str | Iterable[Run | str],
    metric: str | None = None,
    mode: str | None = None,
) -> Comparison:
    """Compare runs of this process with the first of them.

    Args:
        *runs: Runs, their ids, or lists of them; all known runs if none is given.
            They may be live or ended, and of different experiments.
        metric: The best run is the one whose last value of this is best: a column of
            the history, of an evaluation by its label ("val acc"). By default
            "val_loss" where there is one, else "loss".
        mode: "min" or "max": which value of it is best. A loss needs none.

    Returns:
        A `Comparison`: fields, settings, hook sources, programs, curves, final metrics
        and the first step that differs; shown as text, and in a notebook with curves.

    Raises:
        RunError: There is no such run, no run has that metric, or which value of it is
            best is not known.

    Example:
        >>> nitro.compare(a, b).hooks["loss"]
        >>> nitro.compare(*nitro.runs.values(), metric="val acc", mode="max").best
    """
    found = _found(runs) or list(registry.runs.values())
    if not found:
        raise RunError("there is no run yet", where="compare", fix="train one first")
    with light_look():
        return compared([side(run) for run in found], metric, mode)


def compared(
    sides: Sequence[Side], metric: str | None = None, mode: str | None = None
) -> Comparison:
    """Compare what was taken down of runs.

    Args:
        sides: Of each run; the first is what the others are compared with.
        metric: See `compare`.
        mode: See `compare`.
    """
    metric, mode = _measure(sides, metric, mode)
    return Comparison(
        sides=tuple(sides),
        fields=_differing([one.fields for one in sides]),
        settings=_differing([one.settings for one in sides]),
        hooks=_hooks(sides),
        programs=_programs(sides),
        metric=metric,
        mode=mode,
        first_difference=first_difference([one.rows for one in sides]),
    )


def first_difference(
    tables: Sequence[Mapping[str, np.ndarray]],
) -> Difference | None:
    """The first step at which a table has other numbers than the first one.

    Args:
        tables: Columns of equal length by name, "step" among them.
    """
    found = [_difference(tables[0], table) for table in tables[1:]]
    return min(filter(None, found), key=lambda one: one.step, default=None)


def _difference(
    one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]
) -> Difference | None:
    if "step" not in one or "step" not in other:
        return None
    steps, mine, its = np.intersect1d(one["step"], other["step"], return_indices=True)
    unlike = {
        name: ~_same(one[name][mine], other[name][its])
        for name in one
        if name in other and name != "step"
    }
    places = {name: int(rows.argmax()) for name, rows in unlike.items() if rows.any()}
    if not places:
        return None
    first = min(places.values())
    names = tuple(name for name, rows in unlike.items() if rows[first])
    return Difference(int(steps[first]), names)


def _same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one == other) | (np.isnan(one) & np.isnan(other))


def _found(runs: Iterable[Any]) -> list[Run]:
    found: list[Run] = []
    for run in runs:
        if isinstance(run, str):
            found.append(registry.find(run))
        elif hasattr(run, "record"):
            found.append(run)
        elif isinstance(run, Iterable):
            found += _found(run)
        else:
            raise RunError(
                f"compare() got {type(run).__name__}, not a run",
                where="compare",
                fix="nitro.compare(a, b) with runs or their ids",
            )
    return list({run.id: run for run in found}.values())


def _measure(
    sides: Sequence[Side], metric: str | None, mode: str | None
) -> tuple[str, str]:
    """The metric and the mode that say which run is best."""
    known = dict.fromkeys(name for one in sides for name in one.last)
    if metric is None:
        metric = "val_loss" if "val_loss" in known else "loss"
    elif metric not in known:
        raise RunError(
            f"no run has the metric `{metric}`",
            where="compare",
            fix=suggest(metric, known),
        )
    if mode is None and is_loss(metric):
        mode = "min"
    if mode not in MODES:
        raise RunError(
            f"which value of `{metric}` is best is not known"
            if mode is None
            else f"there is no mode `{mode}`",
            where="compare",
            fix='mode="max" if a higher value is better, else mode="min"',
        )
    return metric, mode


def _differing(tables: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Values of each run by name, of the names whose values differ; None for none."""
    names = dict.fromkeys(name for table in tables for name in table)
    rows = {name: tuple(table.get(name) for table in tables) for name in names}
    return {
        name: row
        for name, row in rows.items()
        if len({fingerprint(value).digest for value in row}) > 1
        or any(name not in table for table in tables)
    }


def _hooks(sides: Sequence[Side]) -> dict[str, dict[str, str]]:
    first, *others = sides
    found: dict[str, dict[str, str]] = {}
    for one in others:
        for name in dict.fromkeys((*first.hooks, *one.hooks)):
            before, after = first.hooks.get(name, ""), one.hooks.get(name, "")
            if before != after:
                lines = difflib.unified_diff(
                    before.splitlines(),
                    after.splitlines(),
                    f"{name} ({first.run})",
                    f"{name} ({one.run})",
                    lineterm="",
                )
                found.setdefault(name, {})[one.run] = "\n".join(lines)
    return found


def _programs(sides: Sequence[Side]) -> dict[str, dict[str, tuple[str, ...]]]:
    first, *others = sides
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for one in others:
        for name in dict.fromkeys((*first.programs, *one.programs)):
            mine, its = first.programs.get(name), one.programs.get(name)
            if mine is None or its is None:
                said = ["only one of them has it"]
            else:
                said = [] if mine.computes(its) else differences(mine, its) or _OTHER
            if said:
                known = found.setdefault(name[0], {}).get(one.run, ())
                found[name[0]][one.run] = tuple(dict.fromkeys((*known, *said)))
    return found
