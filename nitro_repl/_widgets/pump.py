"""The one thread that writes a panel, ten times a second at most.

It ends when there is nothing more to show, and is there again when there is. What
fails in it is warned about once; the run never notices.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from .._run.companion import Companion
from .._text import said, warn

PERIOD_S = 0.1


class Pump:
    """Calls `turn` until it says that there is nothing more to do.

    Args:
        turn: Shows what is new; false when nothing more will come by itself.
        what: What it shows, for the warning when it fails.
    """

    def __init__(self, turn: Callable[[], bool], what: str):
        self._turn = turn
        self._what = what
        self._lock = threading.Lock()
        self._thread = Companion(self._work, "nitro-ui")
        self._live = False
        self._woken = False
        self._warned = False

    @property
    def live(self) -> bool:
        """Whether its thread is there."""
        return self._live

    def wake(self) -> None:
        """Have at least one turn soon; from any thread."""
        with self._lock:
            if self._thread.over:
                return
            self._woken = True
            if not self._live:
                self._live = True
                self._thread.start()

    def rest(self) -> bool:
        """Wait until there is nothing more to show; false if that takes long."""
        self._thread.join()
        return not self._live

    def stop(self) -> None:
        """End the thread for good, after a last turn."""
        self._thread.stop()

    def _work(self) -> None:
        going = True
        while going:
            self._woken = False
            going = self._turned()
            ending = self._thread.ending.wait(PERIOD_S)
            with self._lock:
                going = (going or self._woken) and not ending
                self._live = going
        if self._thread.ending.is_set():
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
