"""What an edit means for each run, said once.

The same edit is no news after the next cells, nor after a swap was undone; a further
edit is, and so is the same edit made again after it was taken back. What a refused
trace left behind is no edit.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterable, Sequence

from .._code.arrays import light_look
from .._programs.standing import Standing, stale_names
from .._run.moves import Move
from .._run.outlook import Outlook
from .._run.run import Run
from .leftovers import Prints, only_leftovers, prints_of
from .notice import Notice, distinct


class News:
    """What was seen of each run's code so far."""

    def __init__(self) -> None:
        self._seen: weakref.WeakKeyDictionary[Run, _Seen] = weakref.WeakKeyDictionary()

    def take(self, run: Run) -> Notice | None:
        """The news of a run since the last time, if there is any."""
        with light_look():
            outlook = run.outlook()
            contents = [standing.content for standing in outlook.standings]
        seen = self._seen.setdefault(run, _Seen())
        known, mended = seen.misfit(outlook)
        new = seen.new_of(outlook.standings, contents)
        moves = seen.new_moves(outlook.moves)
        if mended or (outlook.refusal and not known):  # all of it is said again
            new = [one for one in outlook.standings if not one.current]
            moves = list(outlook.moves)
        seen.told(outlook)
        stale = _stale(new)
        if outlook.refusal and not run.live:
            return None  # there is nothing for it to fit into
        if not (stale or moves or mended or (outlook.refusal and not known)):
            return None
        return Notice(
            (run.id,),
            type(run.handle.experiment).__name__,
            run.live,
            stale,
            {move.label: move.causes for move in moves if not move.at_set_up},
            {move.name: move.causes for move in moves if move.at_set_up},
            outlook.refusal,
            known,
            mended and run.live,
            any(standing.lost for standing in new),
            tuple(name for name in outlook.alone if name in stale),
        )

    def forget(self) -> None:
        """Let everything be news again."""
        self._seen.clear()


class _Seen:
    """What one run's newer code said at the last look."""

    def __init__(self) -> None:
        self._contents: dict[Hashable, Hashable] = {}
        self._prints: dict[Hashable, Prints] = {}
        self._moves: dict[str, Hashable] = {}
        self._misfit: tuple[str, Hashable] = ("", None)
        self._told: set[str] = set()

    def misfit(self, outlook: Outlook) -> tuple[bool, bool]:
        """Whether code that does not fit was seen before, and whether it now fits."""
        before, now = self._misfit, (outlook.refusal, outlook.shapes)
        self._misfit = now
        return before == now != ("", None), bool(before[0]) and not now[0]

    def new_of(
        self, standings: Sequence[Standing], contents: Sequence[Hashable]
    ) -> list[Standing]:
        """What is stale by something new; all of it is remembered."""
        new: list[Standing] = []
        looked: list[tuple[Hashable, Hashable, Prints]] = []
        for standing, content in zip(standings, contents, strict=True):
            key = standing.key
            if self._contents.get(key) == content:
                continue
            prints = () if standing.current else prints_of(standing)
            if only_leftovers(self._prints.get(key, ()), prints):
                continue  # and what was seen stays: emptied, it is no news either
            looked.append((key, content, prints))
            if not standing.current and not self._is_told(standing):
                new.append(standing)
        for key, content, prints in looked:
            self._contents[key], self._prints[key] = content, prints
        return new

    def new_moves(self, moves: Iterable[Move]) -> list[Move]:
        """The hooks that moved otherwise than at the last look."""
        before, self._moves = self._moves, {one.name: one.content for one in moves}
        return [one for one in moves if before.get(one.name) != one.content]

    def told(self, outlook: Outlook) -> None:
        """Remember the causes there are, so that no further program tells them."""
        stale = [one for one in outlook.standings if not one.current]
        self._told = {cause for one in (*stale, *outlook.moves) for cause in one.causes}

    def _is_told(self, standing: Standing) -> bool:
        """Whether a program that was made only now shows what was said already."""
        causes = set(standing.causes)
        return (
            standing.key not in self._contents and bool(causes) and causes <= self._told
        )


def _stale(standings: Iterable[Standing]) -> dict[str, tuple[str, ...]]:
    """The causes for each program, whatever its forms."""
    stale: dict[str, tuple[str, ...]] = {}
    for standing in standings:
        for name in stale_names([standing]):
            stale[name] = distinct(stale.get(name, ()), standing.causes)
    return stale
