"""How often threads take turns: more often while a swap is traced beside the steps.

The interpreter is left as it was when the last one has ended.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

_TURN_S = 5e-4  # tracing holds the GIL; this lets the steps in

_switching = threading.Lock()
_intervals: list[float] = []  # what to go back to, once for each swap at work


@contextlib.contextmanager
def short_turns() -> Iterator[None]:
    """Have threads take turns more often, so that steps go on beside a trace."""
    with _switching:
        _intervals.append(_intervals[0] if _intervals else sys.getswitchinterval())
        sys.setswitchinterval(_TURN_S)
    try:
        yield
    finally:
        with _switching:
            interval = _intervals.pop()
            if not _intervals:
                sys.setswitchinterval(interval)
