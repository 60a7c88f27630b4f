"""The runs of this process by id, oldest first; the current one started last.

Each holds a model, its programs and its history, so of those that have ended only the
last ones are known here; who holds an older one keeps it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..errors import RunError, suggest

if TYPE_CHECKING:
    from .run import Run

runs: dict[str, Run] = {}
"""Run id -> run."""

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


def find(run_id: str) -> Run:
    """The run of that id.

    Raises:
        RunError: There is none.
    """
    with _lock:
        if run_id not in runs:
            raise RunError(
                f"there is no run `{run_id}`", where="runs", fix=suggest(run_id, runs)
            )
        return runs[run_id]
