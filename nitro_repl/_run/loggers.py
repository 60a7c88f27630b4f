"""Loggers: where the numbers of a run go besides its history.

A logger is any object with the four verbs of `Logger`; ours never raises.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from .lines import LineFile


@runtime_checkable
class Logger(Protocol):
    """What `Nitro(logger=...)` takes. All verbs are called by one thread."""

    def log_metrics(
        self, metrics: Mapping[str, Any], *, step: int, epoch: int, split: str
    ) -> None:
        """Take the numbers of a step or of an evaluation."""
        ...

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Take the fields and settings of the run, once, before its first step."""
        ...

    def log_text(self, name: str, text: str) -> None:
        """Take a text: a source, a note."""
        ...

    def finish(self) -> None:
        """Write what is left; the run is over."""
        ...


class JsonLines:
    """Writes `metrics.jsonl`: one self-describing JSON object a line.

    Non-finite numbers are written as "NaN", "Infinity" and "-Infinity". Lines reach
    the disk about once a second, and at `flush` and `finish`. Appends to a file that
    exists.

    Args:
        path: The file.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._file = LineFile(path, every=1.0, clock=clock)

    def log_metrics(
        self, metrics: Mapping[str, Any], *, step: int, epoch: int, split: str
    ) -> None:
        """Write `{"split": ..., "step": ..., "epoch": ..., "loss": ...}`."""
        named = {"split": split, "step": step, "epoch": epoch}
        self._file.write({**named, **metrics, **named})

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Write `{"params": {...}}`."""
        self._file.write({"params": params})

    def log_text(self, name: str, text: str) -> None:
        """Write `{"name": ..., "text": ...}`."""
        self._file.write({"name": name, "text": text})

    def flush(self) -> None:
        """Hand all lines to the disk, as a run that pauses does."""
        self._file.flush()

    def finish(self) -> None:
        """Hand all lines to the disk and close the file."""
        self._file.close()
