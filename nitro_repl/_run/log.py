"""The log of a run: what was told about it, kept for whoever looks later.

Bounded: a run of days keeps the last lines only.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import NamedTuple

from .._text import tell

KEPT = 200


class Line(NamedTuple):
    """One thing that was told; `at` in seconds since the epoch."""

    at: float
    text: str
    bad: bool


class Log:
    """The last lines of one run; any thread may write and read."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque(maxlen=KEPT)
        self._count = 0
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def tell(self, text: str, *, bad: bool = False) -> None:
        """Say something in this thread's cell, and keep it."""
        self.keep(text, bad=bad)
        tell(text, bad=bad)

    def tell_once(self, what: str, text: str) -> None:
        """Say something unless the same was said before."""
        with self._lock:
            known = what in self._told
            self._told.add(what)
        if not known:
            self.tell(text)

    def keep(self, text: str, *, bad: bool = False) -> None:
        """Keep a line without saying it."""
        with self._lock:
            self._lines.append(Line(time.time(), text, bad))
            self._count += 1

    def since(self, count: int) -> tuple[list[Line], int]:
        """The lines after the first `count`, as far as they are kept; all so far."""
        with self._lock:
            fresh = min(self._count - count, len(self._lines))
            return list(self._lines)[len(self._lines) - fresh :], self._count
