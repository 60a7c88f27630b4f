"""How fast a run steps, how long it waits for data, how late its losses are read."""

from __future__ import annotations

import time

# How many steps may be unread, so that the device never waits for Python: as many as
# take this long, within these bounds. A pause waits for them.
_UNREAD_S, _UNREAD = 0.02, (2, 16)
_RATE_S, _SHORT_S = 0.5, 0.05  # seconds to take a rate over: while stepping, at a pause


class Waiting:
    """Adds up the seconds of its bodies."""

    def __init__(self) -> None:
        self.seconds = self._begun = 0.0

    def __enter__(self) -> None:
        self._begun = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._begun


class Pace:
    """The rate of the latest steps.

    Attributes:
        rate: Steps a second, None if it is not known.
        data_wait: The part of the time that it waits for the loader, 0 to 1.
        waiting: A context whose body waits for the loader.
        unread: Most steps whose numbers are still on the device.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self.data_wait: float | None = None
        self.unread = 4
        self.waiting = Waiting()
        self._mark: tuple[int, float, float] | None = None

    def start(self) -> None:
        """Forget the rate: that of an earlier start says nothing now."""
        self.rate = self._mark = None

    def rest(self, step: int) -> None:
        """Take the rate before a pause, which is no part of it."""
        self.measure(step, _SHORT_S)
        self.skip()

    def skip(self) -> None:
        """Leave the steps since the last measure out."""
        self._mark = None

    def measure(self, step: int, least: float = _RATE_S) -> None:
        """Take the rate over at least so many seconds of steps."""
        now = time.perf_counter()
        if self._mark is None:
            self._mark = (step, now, self.waiting.seconds)
        elif now - self._mark[1] > least and step > self._mark[0]:
            steps, since, waited = self._mark
            self.rate = (step - steps) / (now - since)
            self.data_wait = (self.waiting.seconds - waited) / (now - since)
            self._mark = (step, now, self.waiting.seconds)
            fewest, most = _UNREAD
            self.unread = max(fewest, min(most, int(_UNREAD_S * self.rate)))
