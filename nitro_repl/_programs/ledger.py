"""The record of every lookup: what it cost, why, who asked.

Bounded, and it holds no executable: what is evicted is really gone.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterable, Mapping

from .key import digest_of
from .reason import FIRST_USE, reason
from .report import ProgramsTable, Reasons
from .spec import OUTCOMES, Asker, Event, Program

_EVENTS_KEPT = 10_000
_PROGRAMS_KEPT = 256

Looked = tuple[Event, Program]
"""A lookup, and the program that it gave."""


class Ledger:
    """Events, oldest first, and the latest program of each name and shapes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[Event] = deque(maxlen=_EVENTS_KEPT)
        self._latest: OrderedDict[Hashable, Program] = OrderedDict()
        self._why: dict[tuple[str, str], tuple[Event, Program]] = {}
        self._left: OrderedDict[str, None] = OrderedDict()  # hashes of what left
        self._count = 0

    def note(self, event: Event, program: Program, asker: Asker) -> None:
        """Write down a lookup, with the reason in words."""
        places = _places(program, asker.experiment)
        light = dataclasses.replace(
            program, executable=None, constants=(), inputs=(), outputs=(), out=None
        )
        with self._lock:
            # Of the same shapes if there is one: then only code can differ.
            before = _first(self._latest, places)
            left = program.hash in self._left
            words = reason(event.outcome, before, light, left=left)
            told = self._append(event, words, asker)
            if not asker.over():  # else a newer swap has been told of already
                self._take(told, light, places)
        asker.on_event(told, light)

    def _take(self, told: Event, light: Program, places: Iterable[Hashable]) -> None:
        """Make a lookup the latest of its program."""
        for place in places:
            self._latest[place] = light
            self._latest.move_to_end(place)
        while len(self._latest) > _PROGRAMS_KEPT:
            self._latest.popitem(last=False)
        self._why.pop((light.name, light.form), None)  # the latest comes last
        self._why[light.name, light.form] = told, light

    def evicted(self, name: str, digest: str, limit: int, asker: Asker) -> None:
        """Write down that a program has left."""
        words = f"{limit} programs are held (programs.limit); used longest ago"
        with self._lock:
            self._left[digest] = None
            while len(self._left) > _PROGRAMS_KEPT:
                self._left.popitem(last=False)
            self._append(Event(name, "evicted"), words, asker)

    def _append(self, event: Event, words: str, asker: Asker) -> Event:
        told = dataclasses.replace(
            event,
            reason=words,
            experiment=asker.experiment,
            run=asker.run,
            step=asker.step,
            at=time.time(),
        )
        self._events.append(told)
        self._count += 1
        return told

    def latest(self) -> list[Program]:
        """The programs looked up last, without their executables."""
        with self._lock:
            return list(self._latest.values())

    def events(self) -> list[Event]:
        """One record per lookup, oldest first."""
        with self._lock:
            return list(self._events)

    def outcomes(self) -> dict[str, int]:
        """How often each outcome came."""
        with self._lock:
            counted = Counter(event.outcome for event in self._events)
        return {name: counted[name] for name in (*OUTCOMES, "evicted")}

    def why(self) -> Reasons:
        """What the latest lookup of each program cost, and its cause in words."""
        with self._lock:
            latest = list(self._why.values())
        newest = {program.name: (event, program) for event, program in latest}
        return _reasons(
            event for event, program in latest if _goes_with(event, program, newest)
        )

    def count(self) -> int:
        """How many events there have been."""
        with self._lock:
            return self._count

    def table(self) -> ProgramsTable:
        """The programs of each experiment, summed up."""
        with self._lock:
            latest = [
                (name[0], program)
                for name, program in self._latest.items()
                if isinstance(name, tuple) and len(name) == 3
            ]
        return ProgramsTable.of(self.events(), latest)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._events.clear()
            self._latest.clear()
            self._why.clear()


def changes(looked: Iterable[Looked], before: Iterable[Program]) -> Reasons:
    """What lookups cost, and what differs from the programs that were in use before."""
    used: dict[Hashable, Program] = {}
    for program in before:
        used.update(dict.fromkeys(_places(program), program))
    told = []
    for event, program in looked:
        was = _first(used, _places(program))
        words = reason(event.outcome, was, program) if was else event.reason
        told.append(dataclasses.replace(event, reason=words))
    return _reasons(told)


def _places(program: Program, experiment: str = "") -> tuple[Hashable, ...]:
    """What a program may replace, the most alike first.

    New code may give other residuals and outputs: then the batch tells the shapes.
    """
    name = (experiment, program.name, program.form)
    return (*name, program.avals), (*name, "batch", program.batch), name


def _first(
    known: Mapping[Hashable, Program], places: Iterable[Hashable]
) -> Program | None:
    """The program in the first of the places that holds one."""
    return next((known[place] for place in places if place in known), None)


def _goes_with(event: Event, program: Program, newest: Mapping[str, Looked]) -> bool:
    """Whether a lookup is of the same code as the newest one of its program."""
    latest, other = newest[program.name]
    return event.experiment == latest.experiment and all(
        digest_of(content) == digest_of(other.contents[read])
        for read, content in program.contents.items()
        if read in other.contents
    )


def _reasons(events: Iterable[Event]) -> Reasons:
    """One line per program: its dearest outcome, and all causes that were found."""
    outcomes: dict[str, str] = {}
    causes: dict[str, dict[str, None]] = {}
    for event in events:  # the forms and shapes of one program count as one
        known = outcomes.get(event.program, "hit")
        outcomes[event.program] = max(known, event.outcome, key=OUTCOMES.index)
        if event.reason:
            causes.setdefault(event.program, {})[event.reason] = None
    lines = []
    for name, outcome in outcomes.items():
        words = list(causes.get(name, {}))
        told = [w for w in words if w != FIRST_USE] or words  # an edit says more
        lines.append(f"{name}: {outcome}" + (f", {'; '.join(told)}" if told else ""))
    return Reasons(sorted(lines, key=lambda line: ": hit" in line))
