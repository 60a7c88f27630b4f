"""The runs of this process by id, oldest first; the current one started last.

Each holds a model, its programs and its history, so of those that have ended only the
last ones are known here; who holds an older one keeps it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rich.console import RenderableType

from .._text import View
from ..errors import RunError, suggest
from .curves import label, losses_first
from .points import AXIS
from .status import RunRow, RunsTable

if TYPE_CHECKING:
    from .run import Run


class Runs(dict[str, "Run"], View):
    """Run id -> run, oldest first; shown as a table."""

    # dict would otherwise win over the drawing of View.
    __repr__ = View.__repr__

    def __rich__(self) -> RenderableType:
        return self.table().__rich__()

    def table(self) -> RunsTable:
        """How far each run is, and its last metrics."""
        now = _current[0] if _current else None
        return RunsTable(
            [
                RunRow(
                    run.id,
                    type(run.handle.experiment).__name__,
                    run.progress(),
                    run is now,
                    run.record.history.last("val"),
                )
                for run in list(self.values())
            ]
        )


runs = Runs()
"""The runs that are known."""

ENDED_KEPT = 32

_lock = threading.Lock()
_current: list[Run] = []


def add(run: Run) -> None:
    """Make a run known, and the current one."""
    with _lock:
        runs[run.id] = run
        _current[:] = [run]
        ended = [run for run in runs.values() if run is not _current[0] and run.ended]
        for old in ended[:-ENDED_KEPT]:
            del runs[old.id]


def current() -> Run:
    """The run that verbs act on: the last one started.

    Raises:
        RunError: There is none.
    """
    with _lock:
        if not _current:
            raise RunError(
                "there is no run yet",
                where="current run",
                fix="%nitro train YourExperiment",
            )
        return _current[0]


def metrics() -> list[str]:
    """Labels of all curves of the known runs, which `compare` can go by."""
    found: dict[str, None] = {}
    for run in list(runs.values()):
        history = run.record.history
        for split in history.splits():
            found |= {
                label(split, n): None for n in history.last(split) if n not in AXIS
            }
    return losses_first(found)


def find(run_id: str) -> Run:
    """The run of that id; its beginning or its number will do where it is one run's.

    Raises:
        RunError: There is none, or there are several.
    """
    with _lock:
        found = [run_id] if run_id in runs else _meant(run_id)
        if len(found) == 1:
            return runs[found[0]]
    if found:
        what, fix = f"`{run_id}` means several runs", f"one of {', '.join(found)}"
    else:
        what, fix = f"there is no run `{run_id}`", suggest(run_id, runs)
    raise RunError(what, where="runs", fix=fix)


def _meant(text: str) -> list[str]:
    """The ids that begin so, or with such a number."""
    numbered = text.isdecimal()
    return [
        name
        for name in runs
        if (text and name.startswith(text))
        or (numbered and name.partition("-")[0].lstrip("0") == text.lstrip("0"))
    ]
