"""What an edit means for each run, said once.

The same edit is no news after the next cells, nor after a swap was undone; a further
edit is, and so is the same edit made again after it was taken back. What a refused
trace left behind is no edit.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Hashable, Iterable, Mapping, Sequence

from .._code.arrays import light_look
from .._programs.standing import Standing, stale_names
from .._run.run import Run
from .._text import one_line
from .leftovers import Prints, only_leftovers, prints_of

_CAUSES = 3  # that are spelled out


@dataclasses.dataclass(frozen=True)
class Notice:
    """One thing to say of a run, or of several.

    Attributes:
        runs: Their ids.
        experiment: Class name.
        live: Whether they step; those that have ended go on after a swap.
        stale: The causes for each stale program.
        refusal: Why the newest code does not fit, else ''.
    """

    runs: tuple[str, ...]
    experiment: str
    live: bool
    stale: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    refusal: str = ""

    @property
    def fits(self) -> bool:
        """Whether the run could swap to the newest code."""
        return not self.refusal

    @property
    def text(self) -> str:
        """In words; one line, and the error if there is one."""
        several = len(self.runs) > 1
        runs = f"run{'s' if several else ''} {', '.join(self.runs)}"
        if self.refusal:
            go = "go on as they are" if several else "goes on as it is"
            fit = f"the newest code does not fit {runs}, which {go}"
            return f"nitro: {fit}.\n{self.refusal}"
        swap = "%nitro swap --run ID" if several else "%nitro swap"
        go = "" if self.live else ", then %nitro train goes on with it"
        stale = _in_words(self.stale)
        return f"nitro: stale in {runs}: {stale}. {swap} takes the edit{go}"

    def joined(self, other: Notice) -> Notice | None:
        """Both as one, if one edit caused them."""
        if (self.refusal, self.live) != (other.refusal, other.live):
            return None
        related = self.experiment == other.experiment or any(
            set(causes) & set(other.stale.get(name, ()))
            for name, causes in self.stale.items()
        )
        if set(self.stale) != set(other.stale) or not (related or self.refusal):
            return None
        return dataclasses.replace(
            self,
            runs=self.runs + other.runs,
            stale={n: _distinct(c, other.stale[n]) for n, c in self.stale.items()},
        )


def together(notices: Iterable[Notice]) -> list[Notice]:
    """One notice for all the runs that one edit concerns."""
    said: list[Notice] = []
    for notice in notices:
        for k, known in enumerate(said):
            if both := known.joined(notice):
                said[k] = both
                break
        else:
            said.append(notice)
    return said


class News:
    """What was seen of each run's code so far."""

    def __init__(self) -> None:
        self._seen: weakref.WeakKeyDictionary[Run, _Seen] = weakref.WeakKeyDictionary()
        self._refused: weakref.WeakKeyDictionary[Run, str] = weakref.WeakKeyDictionary()

    def take(self, run: Run) -> Notice | None:
        """The news of a run since the last time, if there is any."""
        try:
            with light_look():
                standings = run.standings()
                contents = [standing.content for standing in standings]
        except Exception as error:  # of the user's code too, run to set values up
            return self._refusal(run, f"{type(error).__name__}: {error}")
        self._refused.pop(run, None)
        seen = self._seen.setdefault(run, _Seen())
        stale = _stale(seen.new_of(standings, contents))
        return Notice((run.id,), _name(run), run.live, stale) if stale else None

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
        return Notice((run.id,), _name(run), run.live, refusal=text)


class _Seen:
    """What one run's newer code said at the last look."""

    def __init__(self) -> None:
        self._contents: dict[Hashable, Hashable] = {}
        self._prints: dict[Hashable, Prints] = {}

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
            if not standing.current:
                new.append(standing)
        for key, content, prints in looked:
            self._contents[key], self._prints[key] = content, prints
        return new


def _name(run: Run) -> str:
    return type(run.handle.experiment).__name__


def _stale(standings: Iterable[Standing]) -> dict[str, tuple[str, ...]]:
    """The causes for each program, whatever its forms."""
    stale: dict[str, tuple[str, ...]] = {}
    for standing in standings:
        for name in stale_names([standing]):
            stale[name] = _distinct(stale.get(name, ()), standing.causes)
    return stale


def _in_words(stale: Mapping[str, Sequence[str]]) -> str:
    """Name the programs, those with the same causes together."""
    by_cause: dict[tuple[str, ...], list[str]] = {}
    for name, causes in stale.items():
        by_cause.setdefault(tuple(causes), []).append(name)
    parts: list[str] = []
    for causes, names in by_cause.items():
        more = ["..."] if len(causes) > _CAUSES else []
        why = one_line("; ".join([*causes[:_CAUSES], *more]), 200)
        parts.append(", ".join(names) + (f" ({why})" if why else ""))
    return "; ".join(parts)


def _distinct(first: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*first, *more]))
