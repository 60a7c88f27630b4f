"""Looks at the user's files on disk before code is looked up.

Never in the middle of a trace, which would then be of two versions.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from .._code.files import Change, files
from .._code.holders import Held
from .._text import one_line, said, tell
from . import renewals as renewals  # teaches how wrappers are renewed
from .trace import tracing

_NAMED = 4  # names that are spelled out


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
            if not held.gone:
                tell(held_words(held))
        for words in _gone_words(change.held):
            tell(words, bad=True)
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


def held_words(held: Held) -> str:
    """Of a name that stands for something old: which cell would renew it."""
    cell = f"In [{held.cell}]" if held.cell else "its cell"
    return (
        f"nitro: `{held.name}` still holds an older `{held.what}`; run {cell} again "
        "to renew it"
    )


def _gone_words(held: Sequence[Held]) -> Iterator[str]:
    """One line for each definition that is gone, with all that stands for it."""
    by_what: dict[str, list[str]] = {}
    for one in held:
        if one.gone:
            cell = f" (In [{one.cell}])" if one.cell else ""
            by_what.setdefault(one.what, []).append(f"`{one.name}`{cell}")
    for what, names in by_what.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield (
            f"nitro: `{what}` is gone from its file; {', '.join(names[:_NAMED])}{more} "
            "still stands for it, and nothing new is compiled with it: use what took "
            "its place, or define it again"
        )


def _words(change: Change, error: BaseException) -> str:
    name = os.path.basename(change.path)
    if isinstance(error, SyntaxError) and error.filename in (change.path, None):
        spot = f"{name}:{error.lineno}" if error.lineno else name
        why = f"{spot} does not parse: {error.msg}"
    else:
        why = f"{name} does not run: {said(error)}"
    return f"nitro: {one_line(why, 200)}; its old code stays"
