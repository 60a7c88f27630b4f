"""The text that an edit replaces.

It stands in the source exactly once, or the edit is refused.
"""

from __future__ import annotations

import difflib
from typing import Any

from ..errors import EditError


def replaced(source: str, old: str, new: str, where: str) -> str:
    """The source with one text replaced.

    Raises:
        EditError: The text is not there, or more than once.
    """
    lines = [source.count("\n", 0, at) + 1 for at in _places(source, old)]
    if len(lines) == 1:
        return source.replace(old, new)
    if not lines:
        close = difflib.get_close_matches(old, map(str.strip, source.splitlines()), n=1)
        near = f"; did you mean {close[0]!r}?" if close else ""
        raise EditError(
            f"the text {short(old)} is not there",
            where=where,
            fix=f"give it as it stands, spaces and quotes included{near}",
        )
    raise EditError(
        f"the text {short(old)} is there {len(lines)} times",
        where=f"{where}, lines {', '.join(map(str, lines[:8]))} of its source",
        fix="give more of the text around the one that is meant",
    )


def _places(source: str, old: str) -> list[int]:
    at, found = source.find(old) if old else -1, []
    while at >= 0:
        found.append(at)
        at = source.find(old, at + 1)
    return found


def short(value: Any) -> str:
    """A value in a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
