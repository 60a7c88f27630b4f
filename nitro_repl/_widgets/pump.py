"""The one thread that writes a panel, ten times a second at most.

It ends when there is nothing more to show, and is there again when there is. What
fails in it is warned about once; the run never notices.
"""

from __future__ import annotations

import atexit
import contextvars
import threading
from collections.abc import Callable

from .._text import said, warn

PERIOD_S = 0.1
_JOIN_S = 2.0


class Pump:
    """Calls `turn` until it says that there is nothing more to do.

    The thread runs in a copy of the context of who made it, so that what it shows
    belongs to that cell.

    Args:
        turn: Shows what is new; false when nothing more will come by itself.
        what: What it shows, for the warning when it fails.
    """

    def __init__(self, turn: Callable[[], bool], what: str):
        self._turn = turn
        self._what = what
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._woken = False
        self._ending = threading.Event()
        self._warned = False

    @property
    def live(self) -> bool:
        """Whether its thread is there."""
        return self._thread is not None

    def wake(self) -> None:
        """Have at least one turn soon; from any thread."""
        with self._lock:
            if self._ending.is_set() or _exiting.is_set():
                return
            self._woken = True
            if self._thread is None:
                _pumps.add(self)
                self._thread = threading.Thread(
                    target=self._context.copy().run,
                    args=(self._work,),
                    name="nitro-ui",
                    daemon=True,
                )
                self._thread.start()

    def rest(self) -> bool:
        """Wait until there is nothing more to show; false if that takes long."""
        thread = self._thread
        if thread is not None:
            thread.join(_JOIN_S)
        return self._thread is None

    def stop(self) -> None:
        """End the thread for good, after a last turn."""
        self._ending.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def _work(self) -> None:
        going = True
        while going:
            self._woken = False
            going = self._turned()
            ending = self._ending.wait(PERIOD_S)
            with self._lock:
                going = (going or self._woken) and not ending
                if not going:
                    self._thread = None
                    _pumps.discard(self)
        if self._ending.is_set():
            self._turned()

    def _turned(self) -> bool:
        try:
            return self._turn()
        except Exception as error:
            if not self._warned:
                self._warned = True
                warn(
                    f"{self._what} is no longer written: {said(error)}; the run goes "
                    "on. %nitro dash shows it again"
                )
            return False


_pumps: set[Pump] = set()
_exiting = threading.Event()


def stop_all() -> None:
    """End the threads of all panels of this process."""
    for pump in list(_pumps):
        pump.stop()


@atexit.register
def _exit() -> None:
    """A thread that still writes while the interpreter ends can abort the process.

    The end of a run, which comes after this, would wake one that had nothing to do.
    """
    _exiting.set()
    stop_all()
