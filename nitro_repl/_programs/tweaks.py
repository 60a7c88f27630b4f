"""Constants that became inputs, found again when the formula around them is edited.

What is found decides which numbers are inputs, never their values: a wrong guess costs
a compile at most.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

import numpy as np

from .explain import function_in
from .flat import Constant, Flat
from .lift import Groups
from .skeleton import Skeleton

_LINES_KEPT = 256
_ALIGNED = 256  # constants between the first and the last that differ
_COMMON = frozenset({0.0, 0.5, 1.0, 2.0})  # numbers that say nothing of their origin


class Site(NamedTuple):
    """Where a constant stands, but not on which line: edits move lines.

    Attributes:
        function: The user's function that it is in, or "".
        use: The operation that takes it, and as which operand.
        kind: Its dtype and weak type.
        token: Its value, to the last bit.
        common: Whether its value says nothing of where it is from.
    """

    function: str
    use: Hashable
    kind: str
    token: bytes
    common: bool = False

    @property
    def number(self) -> Hashable:
        """What stays if it is used otherwise."""
        return self.function, self.kind, self.token

    @property
    def value(self) -> Hashable:
        """What stays if it is moved to another function."""
        return None if self.common else (self.kind, self.token)

    @property
    def spot(self) -> Hashable:
        """What stays if it gets another value."""
        return self.function, self.use, self.kind


@dataclass(frozen=True)
class _Line:
    """A program with constants as inputs, the last one of its name.

    Attributes:
        key: Of its skeleton.
        sites: Of all its constants, in order.
        inputs: Position of a constant -> number of the input that it is.
    """

    key: Hashable
    sites: tuple[Site, ...]
    inputs: Mapping[int, int]


class Tweaks:
    """Which constants are inputs, by program of an experiment; bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: OrderedDict[Hashable, _Line] = OrderedDict()

    def learn(self, name: Hashable, made: Skeleton, groups: Groups) -> None:
        """Remember which constants of a program are inputs, if any is."""
        if not groups:
            return
        known = self._line(name)
        if known is not None and known.key == made.key:
            sites = _with_values(known.sites, made.constants)
        else:
            sites = _sites(made)
        inputs = {p: number for number, group in enumerate(groups) for p in group}
        with self._lock:
            self._lines[name] = _Line(made.key, sites, inputs)
            self._lines.move_to_end(name)
            while len(self._lines) > _LINES_KEPT:
                self._lines.popitem(last=False)

    def again(self, name: Hashable, made: Skeleton) -> dict[int, Hashable]:
        """Constants of a new formula that were inputs in the one before.

        Returns:
            Position -> what those share that were one input.
        """
        line = self._line(name)
        if line is None or not made.constants:
            return {}
        return dict(_Search(line, _sites(made)).found)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._lines.clear()

    def _line(self, name: Hashable) -> _Line | None:
        with self._lock:
            return self._lines.get(name)


class _Search:
    """Finds the inputs of one program among the constants of another.

    The surest way comes first, and what it pairs is out of the way of the others.

    Attributes:
        found: Position of a new constant -> number of the input that it was.
    """

    def __init__(self, line: _Line, sites: tuple[Site, ...]):
        self.found: dict[int, int] = {}
        self._inputs, self._sites = line.inputs, line.sites
        self._old = dict(enumerate(line.sites))
        self._new = dict(enumerate(sites))
        self._align(lambda site: site)
        self._spread(lambda site: site.number)
        self._spread(lambda site: site.value)
        self._spread(lambda site: site.spot, other_value=True)
        self._align(lambda site: site.spot)

    def _align(self, what: Callable[[Site], Hashable]) -> None:
        """Pair what stands in the same order, inputs or not."""
        old, new = list(self._old), list(self._new)
        one = [what(self._old[p]) for p in old]
        two = [what(self._new[p]) for p in new]
        for i, j in _aligned(one, two):
            before, position = old[i], new[j]
            del self._old[before], self._new[position]
            if before in self._inputs:
                self.found[position] = self._inputs[before]

    def _spread(
        self, what: Callable[[Site], Hashable], *, other_value: bool = False
    ) -> None:
        """Take all constants that are like an input was.

        Args:
            what: What they are compared by.
            other_value: By all but their values: then only for an input that is
                missing, and none of the numbers that are everywhere.
        """
        sought: dict[Hashable, int] = {}
        for before, number in self._inputs.items():
            site = self._sites[before]
            if before in self._old or not (other_value or site.common):
                sought.setdefault(what(site), number)
        sought.pop(None, None)
        taken = {
            position: what(site)
            for position, site in self._new.items()
            if what(site) in sought and not (other_value and site.common)
        }
        for position, same in taken.items():
            self.found[position] = sought[same]
            del self._new[position]
        for before in self._inputs.keys() & self._old.keys():
            if what(self._sites[before]) in taken.values():
                del self._old[before]


def _aligned(one: list[Hashable], two: list[Hashable]) -> Iterator[tuple[int, int]]:
    """Places of equal values that stand in one order in both lists."""
    start, ends = 0, (len(one), len(two))
    while start < min(ends) and one[start] == two[start]:
        yield start, start
        start += 1
    while min(ends) > start and one[ends[0] - 1] == two[ends[1] - 1]:
        ends = ends[0] - 1, ends[1] - 1
        yield ends
    middle = one[start : ends[0]], two[start : ends[1]]
    if max(map(len, middle)) > _ALIGNED:  # it would take seconds
        return
    blocks = SequenceMatcher(None, *middle, autojunk=False).get_matching_blocks()
    for first, second, size in blocks:
        for i in range(size):
            yield start + first + i, start + second + i


def _sites(made: Skeleton) -> tuple[Site, ...]:
    uses: dict[Constant, Hashable] = {}
    _add_uses(made.flat, uses)
    return tuple(_site(constant, uses.get(constant)) for constant in made.constants)


def _add_uses(flat: Flat, uses: dict[Constant, Hashable]) -> None:
    """The operation that takes each constant first."""
    for one in flat.eqns:
        for place, atom in enumerate(one.inputs):
            if isinstance(atom, Constant):
                uses.setdefault(atom, (one.eqn.primitive.name, place))
        for body in one.bodies:
            _add_uses(body, uses)


def _site(constant: Constant, use: Hashable) -> Site:
    weak = "~" if getattr(constant.aval, "weak_type", False) else ""
    function, kind = function_in(constant.source), f"{constant.aval}{weak}"
    return Site(function, use, kind, constant.token, _is_common(constant))


def _is_common(constant: Constant) -> bool:
    return abs(float(np.asarray(constant.value))) in _COMMON


def _with_values(
    sites: Iterable[Site], constants: Iterable[Constant]
) -> tuple[Site, ...]:
    """The sites of the same skeleton with other constants."""
    return tuple(
        site._replace(token=constant.token, common=_is_common(constant))
        for site, constant in zip(sites, constants, strict=True)
    )
