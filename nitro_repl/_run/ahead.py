"""Values of a schedule that must be called with each step, computed before it comes.

Each value is computed once, in order, in one thread at a time; a step waits for its own
value only. What a step was given is what the schedule returned for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from . import threads
from .turns import short_turns


class Ahead:
    """Calls a schedule with one step after the other.

    Args:
        name: What it schedules, for the name of the thread.
        call: Gives the number of a step, or raises.
        most: Steps to be ahead of the last one that was asked for.

    Attributes:
        begun: Whether steps follow; before that only what is asked for is computed.
    """

    def __init__(self, name: str, call: Callable[[int], float], most: int):
        self._name, self._call, self._most = name, call, most
        self._changed = threading.Condition()
        self._first = 0
        self._found: deque[float] = deque()
        self._failed: BaseException | None = None  # at the step after those found
        self._turn: object | None = None  # of the thread that may go on
        self.begun = False

    def at(self, step: int) -> list[float]:
        """The numbers of the steps from `step` that are there, at least one.

        Raises:
            NitroError: The schedule fails at `step`.
        """
        with self._changed:
            if not self._first <= step <= self._first + len(self._found):
                self._turn, self._failed = None, None
                self._found.clear()
                self._first = step
            while self._first < step:
                self._found.popleft()
                self._first += 1
            if not self.begun and not self._found:
                self._found.append(self._call(step))
            while self.begun and self._failed is None:
                if self._turn is None and len(self._found) <= self._most // 2:
                    self._go_on()
                if self._found:
                    break
                self._changed.wait()
            if not self._found:
                failed, self._failed = self._failed, None
                assert failed is not None
                raise failed
            return list(self._found)

    def rest(self) -> None:
        """Compute nothing more until the next step is asked for."""
        with self._changed:
            self._turn = None
            self._changed.notify_all()

    def _go_on(self) -> None:
        self._turn = turn = object()
        threads.start(f"nitro-schedule-{self._name}", self._work, turn)

    def _work(self, turn: object) -> None:
        with short_turns():
            while True:
                with self._changed:
                    if self._turn is not turn:
                        return
                    if len(self._found) >= self._most:
                        self._turn = None
                        return
                    step = self._first + len(self._found)
                number: float | BaseException
                try:
                    number = self._call(step)
                except BaseException as error:
                    number = error
                with self._changed:
                    if self._turn is not turn:
                        return
                    if isinstance(number, BaseException):
                        self._failed, self._turn = number, None
                    else:
                        self._found.append(number)
                    self._changed.notify_all()
