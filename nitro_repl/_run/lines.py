"""A file of JSON lines that grows while a run lives.

Each line in the file is one whole JSON object, after a kill too, and writing never
raises into the run: a disk that fails is warned about once.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .._text import warn
from .plain import plain

# Made once: `json.dumps` makes one for each call, which costs more than the encoding.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


class LineFile:
    """Appends JSON objects to a file, one a line; any thread may write.

    Args:
        path: The file; it and its folder are made by the first write.
        every: Seconds between writes to the disk; 0 writes each line at once.
        clock: Tells the time in seconds.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        every: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.path = Path(path)
        self._every = every
        self._clock = clock
        self._written = clock()
        self._waiting: list[bytes] = []
        self._lock = threading.RLock()
        self._begun = False
        self._over = False

    def write(self, value: Mapping[str, Any]) -> None:
        """Add a line; what JSON cannot hold is written in its `plain` form."""
        try:
            text = _ENCODER.encode(value)
        except (TypeError, ValueError):
            text = _ENCODER.encode(plain(value))
        # Surrogates, which UTF-8 lacks, become JSON's own escapes.
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        with self._lock:
            if self._over:
                return
            self._waiting.append(line)
            if self._clock() - self._written >= self._every:
                self.flush()

    def flush(self) -> None:
        """Hand all lines to the operating system."""
        with self._lock:
            self._written = self._clock()
            if self._over or not self._waiting:
                return
            lines, self._waiting = self._waiting, []
            try:
                if not self._begun:
                    _begin(self.path)
                    self._begun = True
                _append(self.path, b"".join(lines))
            except OSError as error:
                self._over = True
                warn(
                    f"{self.path} cannot be written ({error}); the run goes on "
                    "without it."
                )

    def close(self) -> None:
        """Write what waits; later writes do nothing."""
        with self._lock:
            self.flush()
            self._over = True


def read_lines(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read the objects of a file of JSON lines; none if there is no file.

    A line that a kill or a full disk cut short is left out.
    """
    try:
        text = Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return []
    values = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            values.append(value)
    return values


def _begin(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def _append(path: Path, data: bytes) -> None:
    # Opened for each write, so that no file stays open and none is left to close.
    # Unbuffered: what two processes write does not mix within a line.
    with path.open("ab", buffering=0) as file:
        while data:
            data = data[file.write(data) :]
