"""The cache of compiled programs, one per process, shared by all handles.

A hit is provably the same program: same avals and settings, same content of everything
the trace read, nothing run that no name leads to. In doubt, trace and compare.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from rich.console import RenderableType

from .._code.fingerprint import Fingerprint
from .._experiment.view import Read
from .._text import View
from ..errors import ProgramError
from .candidate import candidate, unsound
from .key import Source, signature, trace_settings
from .lower import Lowered, lower
from .reason import reason
from .report import ProgramsTable, Reasons
from .spec import Asker, Event, Program, Spec

_EVENTS_KEPT = 10_000
_COST = {"hit": 0, "retraced": 1, "compiled": 2}


@dataclass
class _Entry:
    """Programs of one name and one set of avals, by what they read."""

    by_reads: dict[tuple[Read, ...], dict[tuple[Hashable, ...], Program]] = field(
        default_factory=dict
    )


class ProgramCache(View):
    """All compiled programs of this process and the record of every lookup.

    Example:
        >>> nitro_repl.programs.stats()["compiled"]
        5
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entries: dict[Hashable, _Entry] = {}
        self._executables: dict[str, Future[Any]] = {}
        self._events: list[Event] = []
        self._latest: dict[Hashable, Program] = {}
        self._why: dict[tuple[str, str], tuple[str, str]] = {}

    # ---- looking up

    def find(self, spec: Spec, source: Source, asker: Asker) -> Program:
        """The program for a spec: known, or traced and compared, or compiled.

        Raises:
            NitroError: The user's code failed to trace, or XLA to compile.
        """
        model = spec.model() if spec.model is not None else None
        found = self._known(_base(spec, model), source)
        if found is not None:
            self._note(Event(spec.name, "hit"), found, asker)
            return found
        asker.on_phase(f"compiling {spec.name}")
        made = candidate(spec, source)
        lowered = lower(spec.name, made.closed, made.inputs, spec.donate)
        executable, outcome, seconds = self._executable(spec.name, lowered)
        program = Program(
            name=spec.name,
            form=spec.form,
            executable=executable,
            inputs=made.inputs,
            outputs=made.outputs,
            out=made.trace.out,
            hash=lowered.hash,
            reads=made.trace.reads,
            contents={read: made.source.content(read) for read in made.trace.reads},
            model=made.model,
            avals=signature(spec.fixed),
            unsound=unsound(made, lowered),
        )
        self._keep(_base(spec, made.model), program, made.source)
        event = Event(
            spec.name,
            outcome,
            trace_s=made.trace.seconds,
            lower_s=lowered.seconds,
            compile_s=seconds,
        )
        self._note(event, program, asker)
        return program

    def is_current(
        self, program: Program, model: Fingerprint | None, source: Source
    ) -> bool:
        """Whether the code that a program was made from still says the same."""
        if (
            program.model is not None
            and model is not None
            and program.model.digest != model.digest
        ):
            return False
        return all(
            source.digest(read) == _digest(content)
            for read, content in program.contents.items()
        )

    def _known(self, base: Hashable, source: Source) -> Program | None:
        with self._lock:
            entry = self._entries.get(base)
            candidates = list(entry.by_reads.items()) if entry else []
        for reads, programs in reversed(candidates):
            found = programs.get(tuple(source.digest(read) for read in reads))
            if found is not None:
                return found
        return None

    def _keep(self, base: Hashable, program: Program, source: Source) -> None:
        if program.unsound:
            return
        digests = tuple(source.digest(read) for read in program.reads)
        with self._lock:
            entry = self._entries.setdefault(base, _Entry())
            entry.by_reads.setdefault(program.reads, {})[digests] = program

    def _executable(self, name: str, lowered: Lowered) -> tuple[Any, str, float]:
        """Compile, or share what is compiled or being compiled under the same hash."""
        mine: Future[Any] = Future()
        with self._lock:
            theirs = self._executables.get(lowered.hash) if lowered.shareable else None
            if theirs is None and lowered.shareable:
                self._executables[lowered.hash] = mine
        if theirs is not None:
            return theirs.result(), "retraced", 0.0
        started = time.perf_counter()
        try:
            executable = lowered.compile()
        except Exception as error:
            with self._lock:
                self._executables.pop(lowered.hash, None)
            failure = ProgramError(
                f"XLA could not compile `{name}`: {str(error).strip()[:300]}",
                where=f"program `{name}`",
                fix="undo the last edit, or make the shapes smaller if memory ran out",
            )
            mine.set_exception(failure)
            raise failure from error
        mine.set_result(executable)
        return executable, "compiled", time.perf_counter() - started

    def _note(self, event: Event, program: Program, asker: Asker) -> None:
        name = (asker.experiment, program.name, program.form)
        key = (*name, program.avals)
        with self._lock:
            # Of the same shapes if there is one: then only code can differ.
            before = self._latest.get(key) or self._latest.get(name)
            words = reason(event.outcome, before, program)
            self._latest[key] = self._latest[name] = program
            self._why[program.name, program.form] = (event.outcome, words)
            self._events.append(
                Event(
                    event.program,
                    event.outcome,
                    words,
                    event.trace_s,
                    event.lower_s,
                    event.compile_s,
                    asker.experiment,
                    asker.run,
                    asker.step,
                )
            )
            del self._events[:-_EVENTS_KEPT]

    # ---- telling

    def stats(self) -> dict[str, int]:
        """Counts: each outcome, `programs` known, `executables` held."""
        with self._lock:
            outcomes = Counter(event.outcome for event in self._events)
            programs = sum(
                len(found)
                for entry in self._entries.values()
                for found in entry.by_reads.values()
            )
            return {
                **{name: outcomes[name] for name in _COST},
                "programs": programs,
                "executables": len(self._executables),
            }

    def events(self) -> list[Event]:
        """One record per lookup, oldest first."""
        with self._lock:
            return list(self._events)

    def why(self) -> Reasons:
        """What the latest lookup of each program cost, and its cause in words."""
        with self._lock:
            latest = list(self._why.items())
        worst: dict[str, tuple[str, str]] = {}
        for (name, _), found in latest:  # the forms of one program count as one
            held = worst.get(name, ("hit", ""))
            worst[name] = max(held, found, key=lambda f: _COST[f[0]])
        lines = [
            f"{name}: {outcome}" + (f", {words}" if words else "")
            for name, (outcome, words) in worst.items()
        ]
        return Reasons(sorted(lines, key=lambda line: ": hit" in line))

    def clear(self) -> None:
        """Forget every program and event; live runs keep the programs they hold."""
        with self._lock:
            self._entries.clear()
            self._executables.clear()
            self._events.clear()
            self._latest.clear()
            self._why.clear()

    def __rich__(self) -> RenderableType:
        return ProgramsTable.of(self.events()).__rich__()


programs = ProgramCache()
"""The process-wide cache."""


def _base(spec: Spec, model: Fingerprint | None) -> Hashable:
    """All that decides a trace except what the view will be asked for."""
    content = model.digest if model is not None else None
    return (
        spec.name, spec.form, signature(spec.fixed), content, spec.extra, spec.donate,
        trace_settings(),
    )  # fmt: skip


def _digest(content: Any) -> Hashable:
    return content.digest if isinstance(content, Fingerprint) else content
