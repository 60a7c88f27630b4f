"""Who asks something of a run, and whether they wait until it is done.

A front end's thread must never stand: what it asks inside `queued` is only put in line.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass
class _Queue:
    by: str
    replies: list[Future[Any]] = field(default_factory=list)


_queue: ContextVar[_Queue | None] = ContextVar("nitro_queue", default=None)


@contextlib.contextmanager
def queued(by: str) -> Iterator[list[Future[Any]]]:
    """Have the verbs said inside put in line and not waited for.

    Args:
        by: Who asks, as the journal says it.

    Yields:
        The answers to come, in order.

    Example:
        >>> with queued("panel") as replies:
        ...     run.set(smoothing=0.1)
        >>> replies[0].add_done_callback(show)
    """
    queue = _Queue(by)
    token = _queue.set(queue)
    try:
        yield queue.replies
    finally:
        _queue.reset(token)


def waits() -> bool:
    """Whether who asks here waits for the answer."""
    return _queue.get() is None


def note(reply: Future[Any]) -> None:
    """Give an answer to come to who does not wait for it."""
    queue = _queue.get()
    if queue is not None:
        queue.replies.append(reply)


def asker() -> str:
    """Who asks, as the journal says it."""
    queue = _queue.get()
    if queue is not None:
        return queue.by
    return "cell" if in_ipython() else "python"


def in_ipython() -> bool:
    """Whether this is an IPython session, which is not imported to find out."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get is not None and get() is not None
