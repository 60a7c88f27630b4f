"""Threads that work beside a run, and their end with the process.

One inside XLA or in a trace while the interpreter ends would abort the process.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from .surroundings import Surroundings

_started: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def start(name: str, function: Callable[..., Any], *arguments: Any) -> threading.Thread:
    """Call a function in a new thread, in the surroundings of this one.

    Args:
        name: What the thread is called.
        function: It must end soon after its run has.
        *arguments: What it is given.
    """
    thread = threading.Thread(
        target=Surroundings().run,
        args=(function, *arguments),
        name=name,
        daemon=True,
    )
    _started.add(thread)
    thread.start()
    return thread


def join_all(seconds: float) -> None:
    """Wait until all have ended, so long in all; a compile cannot be broken off."""
    end = time.monotonic() + seconds
    for thread in list(_started):
        if thread.is_alive():
            thread.join(max(0.0, end - time.monotonic()))
