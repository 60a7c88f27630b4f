"""Programs traced anew to see whether they still compute the same; nothing is made.

Stands where the cache does: a step that is made with it holds the programs there are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from .candidate import Candidate, candidate
from .key import Source, signature, trace_settings
from .lower import lower
from .skeleton import skeleton
from .spec import Asker, Program, Spec


class Retracer:
    """Traces those programs of a set that it is told to; no event, no compile.

    Args:
        held: All programs of the set.
        doubted: Keys of those to trace.

    Attributes:
        found: What each computes now, by its place.
        differ: Places of those that compute something else now.
        restless: Keys of those that compute something else at each trace.
    """

    def __init__(self, held: Iterable[Program], doubted: frozenset[int]):
        self._held: dict[Hashable, list[Program]] = {}
        for program in held:
            place = _place(program.name, program.form, program.avals, program.settings)
            self._held.setdefault(place, []).append(program)
        self._doubted = doubted
        self.found: dict[Hashable, Hashable] = {}
        self.differ: set[Hashable] = set()
        self.restless: set[int] = set()

    def find(self, spec: Spec, source: Source, asker: Asker) -> Program:
        """The program that is there for a spec.

        Raises:
            LookupError: There is none.
            NitroError: The user's code failed to trace.
        """
        place = _place(spec.name, spec.form, signature(spec.fixed), trace_settings())
        held = self._held.get(place)
        if not held:
            raise LookupError(spec.name)
        if any(one.key in self._doubted for one in held):
            self._compare(place, held, spec, source)
        return held[-1]

    def known(self, spec: Spec, source: Source) -> Program | None:
        """Every program is: nothing is rehearsed that is not made."""
        return self.find(spec, source, Asker())

    def _compare(
        self, place: Hashable, held: list[Program], spec: Spec, source: Source
    ) -> None:
        source.spent = True
        known = {one.meaning for one in held}
        now = _meaning(spec, candidate(spec, source))
        if now not in known and _meaning(spec, candidate(spec, source)) != now:
            self.restless |= {one.key for one in held}
            return
        self.found[place] = now
        if now not in known:
            self.differ.add(place)


def _place(
    name: str, form: str, avals: Hashable, settings: Hashable
) -> tuple[Hashable, ...]:
    return name, form, avals, settings


def _meaning(spec: Spec, traced: Candidate) -> Hashable:
    """What `Program.meaning` would be."""
    flat = skeleton(traced.closed)
    if flat is not None:
        return flat.key, flat.tokens
    return lower(
        spec.name, traced.closed, traced.inputs, spec.donate, spec.options
    ).hash
