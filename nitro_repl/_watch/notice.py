"""One thing to say of the newest code and of the runs that it concerns.

One line, and the error if the code does not fit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from .._text import one_line

_CAUSES = 3  # that are spelled out

Causes = Mapping[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Notice:
    """One thing to say of a run, or of several.

    Attributes:
        runs: Their ids.
        experiment: Class name.
        live: Whether they step; those that have ended go on after a swap.
        stale: The causes for each stale program.
        moved: The causes for each hook that no program shows.
        kept: The same for hooks that only a new `Nitro` calls.
        refusal: Why the newest code does not fit, else ''.
        known: Whether that was said before.
        mended: Whether the newest code did not fit at the last look.
        lost: Whether the newer code uses names that are not defined any more.
        alone: Stale programs that a swap can take although the rest is refused.
    """

    runs: tuple[str, ...]
    experiment: str
    live: bool
    stale: Causes = dataclasses.field(default_factory=dict)
    moved: Causes = dataclasses.field(default_factory=dict)
    kept: Causes = dataclasses.field(default_factory=dict)
    refusal: str = ""
    known: bool = False
    mended: bool = False
    lost: bool = False
    alone: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the run could swap to the newest code."""
        return not self.refusal

    @property
    def swaps(self) -> bool:
        """Whether a swap would change anything."""
        return self.fits and bool(self.stale or self.moved)

    @property
    def text(self) -> str:
        """In words."""
        several = len(self.runs) > 1
        runs = f"run{'s' if several else ''} {', '.join(self.runs)}"
        verb = "%nitro swap --run ID" if several else "%nitro swap"
        if self.refusal:
            return self._misfit(runs, "go" if several else "goes", verb)
        if self.mended:
            fits = f"nitro: the newest code fits {runs} again"
            edits = self._edits("") or "nothing is stale"
            return f"{fits}; {edits}{self._remedy(verb)}"
        return f"nitro: {self._edits(f' in {runs}')}{self._remedy(verb)}"

    def _remedy(self, verb: str) -> str:
        """What takes the edit."""
        if not self.swaps:
            return ""
        if self.lost:
            return f". Mend that, then {verb} takes the edit"
        go = "" if self.live else ", then %nitro train goes on with it"
        host = not self.stale and all(name.endswith("(host)") for name in self.moved)
        return f". {verb} takes the edit{go}{', nothing compiles' if host else ''}"

    def joined(self, other: Notice) -> Notice | None:
        """Both as one, if one edit caused them."""
        same = ("refusal", "live", "known", "mended", "lost", "alone")
        if any(getattr(self, name) != getattr(other, name) for name in same):
            return None
        mine = {**self.stale, **self.moved, **self.kept}
        its = {**other.stale, **other.moved, **other.kept}
        related = self.experiment == other.experiment or any(
            set(causes) & set(its.get(name, ())) for name, causes in mine.items()
        )
        alike = set(self.stale) == set(other.stale) and mine.keys() == its.keys()
        if not alike or not (related or self.refusal):
            return None
        return dataclasses.replace(
            self,
            runs=self.runs + other.runs,
            stale={n: distinct(c, other.stale[n]) for n, c in self.stale.items()},
            moved={n: distinct(c, other.moved[n]) for n, c in self.moved.items()},
            kept={n: distinct(c, other.kept[n]) for n, c in self.kept.items()},
        )

    def _misfit(self, runs: str, go: str, verb: str) -> str:
        edits = self._edits(f" in {runs}" if self.known else "")
        if self.known:
            first = one_line(self.refusal.splitlines()[0], 120)
            lines = [f"nitro: {edits}. The newest code still does not fit: {first}"]
        else:
            on = "on as they are" if go == "go" else "on as it is"
            fit = f"the newest code does not fit {runs}, which {go} {on}"
            lines = [f"nitro: {fit}.", self.refusal]
            lines += [f"  {edits}"] if edits else []
        if self.alone:
            names = " ".join(self.alone)
            lines.append(f"  {verb} {names} takes what is edited there, not the rest")
        return "\n".join(lines)

    def _edits(self, where: str) -> str:
        """What was edited, the first of it with the runs."""
        parts: list[str] = []
        for word, causes in (("stale", self.stale), ("moved", self.moved)):
            if causes:
                parts.append(f"{word}{where}: {_in_words(causes)}")
                where = ""
        if self.kept:
            parts.append(f"for a new Nitro{where}: {_in_words(self.kept)}")
        return "; ".join(parts)


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


def distinct(first: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    """Both, each cause once."""
    return tuple(dict.fromkeys([*first, *more]))
