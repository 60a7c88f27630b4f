"""What an edit means for each run, said once.

The same edit is no news after the next cells, nor after a swap was undone; a further
edit is, and so is the same edit made again after it was taken back.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from .._code.arrays import light_look
from .._programs.standing import Standing, stale_names
from .._run.run import Run
from .._text import one_line

_CAUSES = 3  # that are spelled out


@dataclass(frozen=True)
class Notice:
    """One thing to say of a run.

    Attributes:
        text: In words.
        fits: Whether the run could swap to the newest code.
    """

    text: str
    fits: bool


class News:
    """What was seen of each run's code so far."""

    def __init__(self) -> None:
        self._seen: weakref.WeakKeyDictionary[Run, dict[Hashable, Hashable]]
        self._seen = weakref.WeakKeyDictionary()
        self._refused: weakref.WeakKeyDictionary[Run, str] = weakref.WeakKeyDictionary()

    def take(self, run: Run) -> Notice | None:
        """The news of a run since the last time, if there is any."""
        try:
            with light_look():
                standings = run.standings()
                current = {s.key: s.content for s in standings}
        except Exception as error:  # of the user's code too, run to set values up
            return self._refusal(run, f"{type(error).__name__}: {error}")
        self._refused.pop(run, None)
        seen = self._seen.setdefault(run, {})
        new = [
            standing
            for standing in standings
            if seen.get(standing.key) != current[standing.key] and not standing.current
        ]
        seen.update(current)
        return Notice(_stale(run, new), fits=True) if new else None

    def forget(self) -> None:
        """Let everything be news again."""
        self._seen.clear()
        self._refused.clear()

    def _refusal(self, run: Run, text: str) -> Notice | None:
        if self._refused.get(run) == text:
            return None
        self._refused[run] = text
        if not run.live:
            return None  # there is nothing for it to fit into
        return Notice(
            f"nitro: the newest code does not fit run {run.id}, which goes on as it "
            f"is.\n{text}",
            fits=False,
        )


def _stale(run: Run, standings: Iterable[Standing]) -> str:
    """Name the programs, those with the same cause together."""
    by_cause: dict[tuple[str, ...], list[Standing]] = {}
    for standing in standings:
        by_cause.setdefault(standing.causes, []).append(standing)
    parts = []
    for causes, group in by_cause.items():
        more = ["..."] if len(causes) > _CAUSES else []
        why = one_line("; ".join([*causes[:_CAUSES], *more]), 200)
        parts.append(", ".join(stale_names(group)) + (f" ({why})" if why else ""))
    fix = "%nitro swap" if run.live else "a new Nitro"
    return f"nitro: stale in run {run.id}: {'; '.join(parts)}. {fix} takes the edit"
