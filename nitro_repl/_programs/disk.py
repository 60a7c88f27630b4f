"""Looks at the user's files on disk before code is looked up.

Never in the middle of a trace, which would then be of two versions.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from .._code.files import Change, files
from .._code.holders import Held
from .._text import one_line, tell
from . import renewals as renewals  # teaches how wrappers are renewed
from .trace import tracing


def refresh(wait: bool = True) -> tuple[Change, ...]:
    """Bring imported modules up to date, and say of each file that cannot run why.

    Args:
        wait: Wait for a trace on another thread; else leave it to the next lookup.
    """
    with untraced(wait) as free:
        changes = files.refresh() if free else ()
    for change in changes:
        if change.error is not None:
            tell(_words(change, change.error), bad=True)
        for held in change.held:
            tell(_held_words(held))
    return changes


@contextlib.contextmanager
def untraced(wait: bool = True) -> Iterator[bool]:
    """Keep other threads from tracing; gives whether that could be had.

    Args:
        wait: Wait for a trace on another thread; else give False while there is one.
    """
    free = tracing.acquire(blocking=wait)
    try:
        yield free
    finally:
        if free:
            tracing.release()


def _held_words(held: Held) -> str:
    cell = f"In [{held.cell}]" if held.cell else "its cell"
    return (
        f"nitro: `{held.name}` still holds an older `{held.what}`; run {cell} again "
        "to renew it"
    )


def _words(change: Change, error: BaseException) -> str:
    name = os.path.basename(change.path)
    if isinstance(error, SyntaxError) and error.filename in (change.path, None):
        spot = f"{name}:{error.lineno}" if error.lineno else name
        why = f"{spot} does not parse: {error.msg}"
    else:
        why = f"{name} does not run: {type(error).__name__}: {error}"
    return f"nitro: {one_line(why, 200)}; its old code stays"
