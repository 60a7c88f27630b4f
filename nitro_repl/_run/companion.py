"""A thread that shows something beside a run, and ends before the process does.

A thread that still writes while the interpreter ends can abort the process.
"""

from __future__ import annotations

import atexit
import contextvars
import threading
from collections.abc import Callable

_JOIN_S = 2.0


class Companion:
    """One daemon thread in the context of who made it, so that what it shows is there.

    Args:
        work: What it does; returns soon after `ending` is set.
        name: Of the thread.

    Attributes:
        ending: Set when it is to end for good.
    """

    def __init__(self, work: Callable[[], None], name: str):
        self.name = name
        self.ending = threading.Event()
        self._work = work
        self._context = contextvars.copy_context()
        self._thread: threading.Thread | None = None

    @property
    def over(self) -> bool:
        """Whether it must not start any more."""
        return self.ending.is_set() or _exiting.is_set()

    def start(self) -> None:
        """Start the thread; again, after the one before has ended."""
        self._thread = threading.Thread(
            target=self._context.copy().run,
            args=(self._run,),
            name=self.name,
            daemon=True,
        )
        _live[self._thread] = self
        self._thread.start()

    def join(self) -> None:
        """Wait a little until the thread has ended."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def stop(self) -> None:
        """Have it end for good, and wait a little."""
        self.ending.set()
        self.join()

    def _run(self) -> None:
        try:
            self._work()
        finally:
            _live.pop(threading.current_thread(), None)


_live: dict[threading.Thread, Companion] = {}
_exiting = threading.Event()


def stop_all(name: str = "") -> None:
    """End the threads of a name; all of this process, if none is given."""
    for one in list(_live.values()):
        if name in ("", one.name):
            one.stop()


@atexit.register
def _exit() -> None:
    """The end of a run, which may come after this, must wake none."""
    _exiting.set()
    stop_all()
