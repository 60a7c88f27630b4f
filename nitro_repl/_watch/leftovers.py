"""Tells an edit from what a refused trace left behind in the user's values.

Only while an array of a trace is reached: such code is refused until it is emptied,
so that overlooking a change beside it keeps no edit from a run.
"""

from __future__ import annotations

from .._code.fingerprint import Fingerprint, Part
from .._programs.key import KEPT_TRACER
from .._programs.standing import Standing

Prints = tuple[Fingerprint, ...]
_CODE = ("function", "class")


def prints_of(standing: Standing) -> Prints:
    """The content of the newer code, with the names of what it reaches."""
    found = [standing.source.content(read) for read in standing.program.reads]
    found.append(standing.model)
    return tuple(content for content in found if isinstance(content, Fingerprint))


def only_leftovers(before: Prints, after: Prints) -> bool:
    """Whether code is the same but for values that hold arrays of a trace.

    A value counts as such if the function that reads it is named as their reader.
    """
    readers = {
        reason.removeprefix(f"{KEPT_TRACER} in ")
        for content in after
        for reason in content.unsound
        if reason.startswith(KEPT_TRACER)
    }
    return bool(readers) and _rest(before, readers) == _rest(after, readers)


def _rest(prints: Prints, readers: set[str]) -> list[list[tuple[str, ...]]]:
    """All other parts, in an order that does not depend on what was left behind."""
    return [
        sorted(
            (part.kind, part.name, part.digest)
            for part in content.parts
            if part.kind in _CODE or _reader(part) not in readers
        )
        for content in prints
    ]


def _reader(part: Part) -> str:
    name = part.via[-1] if part.via else part.name
    return f"{name}, {part.where}" if part.where else name
