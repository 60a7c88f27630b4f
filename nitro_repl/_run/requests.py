"""The swaps of a run that are on their way, and which of them may still switch.

A request switches at most once, and never after a newer one was made or the run ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

from ..errors import RunError

Bound = Mapping[str, Callable[..., Any]]
"""Functions bound to one run, by hook name."""


@dataclass
class Request:
    """One swap that was asked for.

    Attributes:
        tells: Whether nobody waits, so that what comes of it is told.
        taken: Whether the switch has begun: nothing drops it any more.
        over: Why it will not switch, None while it may.
    """

    programs: tuple[str, ...]
    hooks: Bound
    undo: bool
    by: str
    tells: bool
    done: Future[list[str]] = field(default_factory=Future)
    taken: bool = False
    over: RunError | None = None


class Requests:
    """The requests of one run.

    Args:
        on_note: Shows what the newest one does, or that none is left.
    """

    def __init__(self, on_note: Callable[[str], None]):
        self._on_note = on_note
        self._lock = threading.Lock()
        self._pending: list[Request] = []

    @property
    def busy(self) -> bool:
        """Whether one is on its way that may still switch."""
        return any(asked.over is None for asked in list(self._pending))

    def add(self, asked: Request, over: RunError) -> list[Request]:
        """Take a request in; those before it are over, and are returned."""
        with self._lock:
            dropped = self._drop(over)
            self._pending.append(asked)
            return dropped

    def end(self, over: RunError) -> list[Request]:
        """No switch any more for those that are here, which are returned."""
        with self._lock:
            dropped = self._drop(over)
            self._on_note("")
            return dropped

    def settle(self) -> None:
        """Wait until those that are here have come to their end."""
        wait([asked.done for asked in list(self._pending)])

    def check(self, asked: Request) -> None:
        """Raise what a request is over for, if it is."""
        if asked.over is not None:
            raise asked.over

    def take(self, asked: Request) -> None:
        """Begin the switch, unless the request is over."""
        with self._lock:
            self.check(asked)
            asked.taken = True

    def note(self, asked: Request, text: str) -> None:
        """Show what a request does, if it may still switch."""
        with self._lock:
            if asked.over is None:
                self._on_note(text)

    def remove(self, asked: Request) -> None:
        """A request has come to its end."""
        with self._lock:
            self._pending.remove(asked)
            if not self.busy:
                self._on_note("")

    def _drop(self, over: RunError) -> list[Request]:
        dropped = [a for a in self._pending if a.over is None and not a.taken]
        for asked in dropped:
            asked.over = over
        return dropped
