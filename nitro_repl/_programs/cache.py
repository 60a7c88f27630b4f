"""The cache of compiled programs, one per process, shared by all handles.

A hit is provably the same program: same avals and settings, same content of everything the
trace read, nothing run that the content walk did not reach. In doubt, trace and compare.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.extend import core
from rich.console import RenderableType

from .._code.fingerprint import Fingerprint
from .._experiment.view import Read, Reads
from .._text import View
from ..errors import ProgramError
from .key import Source, signature, trace_settings
from .lower import Lowered, lower
from .reason import reason
from .report import ProgramsTable, Reasons
from .spec import Asker, Event, Program, Spec
from .trace import Slot, Trace, select, trace

_ATTEMPTS = 2
_EVENTS_KEPT = 10_000


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
        self._latest: OrderedDict[tuple[str, str, str], Program] = OrderedDict()
        self._why: OrderedDict[str, str] = OrderedDict()

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
        traced, reads_source, model, moved = _trace_steadily(spec, source)
        closed, program_slots, outputs = _interface(spec, traced)
        lowered = lower(spec.name, closed, program_slots, spec.donate)
        executable, outcome, seconds = self._executable(spec.name, lowered)
        program = Program(
            spec.name, spec.form, executable, program_slots, outputs, traced.out, lowered.hash,
            traced.reads, {read: reads_source.content(read) for read in traced.reads},
            model, signature(_fixed(spec)), _unsound(traced, reads_source, model, moved, lowered),
        )  # fmt: skip
        self._keep(_base(spec, model), program, reads_source)
        event = Event(
            spec.name,
            outcome,
            trace_s=traced.seconds,
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
        key = (asker.experiment, program.name, program.form)
        with self._lock:
            before = self._latest.get(key)
            words = reason(event.outcome, before, program)
            self._latest[key] = program
            if event.outcome != "hit" or program.name not in self._why:
                self._why[program.name] = f"{program.name}: {event.outcome}" + (
                    f", {words}" if words else ""
                )
                self._why.move_to_end(program.name)
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
                **{name: outcomes[name] for name in ("hit", "retraced", "compiled")},
                "programs": programs,
                "executables": len(self._executables),
            }

    def events(self) -> list[Event]:
        """One record per lookup, oldest first."""
        with self._lock:
            return list(self._events)

    def why(self) -> Reasons:
        """Per program, the latest outcome that was not a hit, and its cause in words."""
        with self._lock:
            return Reasons(list(self._why.values()))

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
        spec.name, spec.form, signature(_fixed(spec)), content, spec.extra, spec.donate,
        trace_settings(),
    )  # fmt: skip


def _fixed(spec: Spec) -> dict[str, Any]:
    """The arguments that are there whatever is read: all but the Device fields."""
    return {group: tree for group, tree in spec.arguments.items() if group != "fields"}


def _trace_steadily(
    spec: Spec, source: Source
) -> tuple[Trace, Source, Fingerprint | None, tuple[str, ...]]:
    """Trace until nothing that was read changed meanwhile; say so if it never settles."""
    for _ in range(_ATTEMPTS):
        before, model_before = source.again(), spec.model() if spec.model else None
        traced = trace(spec.name, spec.function, spec.arguments, _Watched(before))
        after, model = source.again(), spec.model() if spec.model else None
        changed = [
            read.name
            for read in traced.reads
            if before.digest(read) != after.digest(read)
        ]
        if (
            model_before is not None
            and model is not None
            and model_before.digest != model.digest
        ):
            changed.append("the model")
        if not changed:
            return traced, after, model, ()
    return traced, after, model, (f"`{changed[0]}` changes while it is traced",)


class _Watched(Reads):
    """Reads that take the content at the moment of the read, before the code runs."""

    def __init__(self, source: Source):
        super().__init__()
        self._source = source

    def add(self, kind: str, name: str) -> None:
        super().add(kind, name)
        self._source.digest(Read(kind, name))


def _interface(
    spec: Spec, traced: Trace
) -> tuple[core.ClosedJaxpr, tuple[Slot, ...], tuple[Slot, ...]]:
    """Which outputs the executable gives itself, and where the others are found."""
    jaxpr = traced.jaxpr.jaxpr
    inputs = {var: slot for var, slot in zip(jaxpr.invars, traced.slots, strict=True)}
    own: list[int] = []
    seen: dict[Any, int] = {}
    outputs: list[Slot] = []
    for position, var in enumerate(jaxpr.outvars):
        shared = spec.share_inputs and not isinstance(var, core.Literal)
        if shared and var in inputs:
            outputs.append(inputs[var])
        elif shared and var in seen:
            outputs.append(("out", seen[var]))
        else:
            if not isinstance(var, core.Literal):
                seen[var] = len(own)
            outputs.append(("out", len(own)))
            own.append(position)
    closed, kept = select(traced.jaxpr, own)
    return closed, tuple(traced.slots[i] for i in kept), tuple(outputs)


def _unsound(
    traced: Trace,
    source: Source,
    model: Fingerprint | None,
    moved: tuple[str, ...],
    lowered: Lowered,
) -> tuple[str, ...]:
    """Why content cannot vouch for a trace; empty if it can."""
    reached: set[str] = set(model.codes) if model else set()
    for read in traced.reads:
        content = source.content(read)
        if isinstance(content, Fingerprint):
            reached |= content.codes
    suspects = [*source.unsound(traced.reads), *(model.unsound if model else ())]
    # A read of the clock in code that did not run cannot have reached the program.
    reasons = [
        reason for reason in suspects if not reason.code or reason.code in traced.ran
    ]
    reasons += moved
    reasons += [
        f"{name or 'a function'} ran but no name leads to it"
        for digest, name in traced.ran.items()
        if digest not in reached
    ]
    if not lowered.shareable:
        reasons.append("it calls back into Python")
    if _has_user_nodes(traced.out):
        reasons.append("it returns instances of a class of yours")
    return tuple(dict.fromkeys(reasons))


def _has_user_nodes(out: Any) -> bool:
    """Whether a tree holds containers whose class a user may define anew."""
    found = False

    def visit(node: Any) -> bool:
        nonlocal found
        module = type(node).__module__.partition(".")[0]
        library = module in {
            "builtins",
            "collections",
            "jax",
            "jaxlib",
            "numpy",
            "flax",
            "nitro_repl",
        }
        found = found or not library
        return False

    jax.tree.leaves(out, is_leaf=visit)
    return found


def _digest(content: Any) -> Hashable:
    return content.digest if isinstance(content, Fingerprint) else content
