"""The cache of compiled programs, one per process, shared by all handles.

A hit is provably the same program: same avals and settings, same content of everything
the trace read, nothing run that no name leads to. In doubt, trace and compare.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from typing import Any

from rich.console import RenderableType

from .._code.fingerprint import Fingerprint
from .._text import View
from ..errors import ProgramError
from . import persistent
from .candidate import Candidate, candidate, unsound
from .captured import constants_of, warn_of
from .key import Source, signature, trace_settings
from .ledger import Ledger
from .lift import placed, words
from .maker import Made, Maker
from .report import Reasons
from .shelf import Shelf
from .skeleton import Skeleton, skeleton
from .spec import Asker, Event, Program, Spec

LIMIT = 64


class ProgramCache(View):
    """All compiled programs of this process and the record of every lookup.

    Example:
        >>> nitro_repl.programs.stats()["compiled"]
        5
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._shelf = Shelf(limit)
        self._maker = Maker(self._shelf)
        self._ledger = Ledger()

    # ---- looking up

    def find(self, spec: Spec, source: Source, asker: Asker) -> Program:
        """The program for a spec: known, or traced and compared, or compiled.

        Raises:
            NitroError: The user's code failed to trace, or XLA to compile.
        """
        found = self.known(spec, source)
        if found is not None:
            self._ledger.note(Event(spec.name, "hit"), found, asker)
            return found
        asker.on_phase(f"compiling {spec.name}")
        source.spent = True
        traced = candidate(spec, source)
        if spec.then is not None:
            spec.then(traced.trace.out)
        warn_of(spec.name, traced.prints, constants_of(traced.closed))
        flat = skeleton(traced.closed)
        made = self._maker.make(spec, traced, flat, asker.experiment)
        program = _program(spec, traced, flat, made)
        if not program.unsound:
            self._shelf.keep(_base(spec, traced.model), program, traced.source)
        event = Event(
            spec.name,
            made.outcome,
            trace_s=traced.trace.seconds,
            lower_s=made.lower_s,
            compile_s=made.compile_s,
        )
        self._ledger.note(event, program, asker)
        self._evict(asker)
        return program

    def known(self, spec: Spec, source: Source) -> Program | None:
        """The program for a spec if content finds it; no lookup is noted."""
        return self._shelf.known(_base(spec, _model(spec, source)), source)

    def _evict(self, asker: Asker) -> None:
        for name, digest in self._shelf.evict():
            self._ledger.evicted(name, digest, self._shelf.limit, asker)

    # ---- telling

    @property
    def limit(self) -> int:
        """Most compiled programs to hold; what was used longest ago leaves first.

        Live runs keep the programs they hold. One that left compiles again when it is
        asked for.
        """
        return self._shelf.limit

    @limit.setter
    def limit(self, most: int) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ProgramError(
                f"the limit of programs cannot be {most!r}",
                where="programs.limit",
                fix=f"give a whole number from 1, as programs.limit = {LIMIT}",
            )
        self._shelf.limit = most
        self._evict(Asker())

    @property
    def persistent(self) -> str | None:
        """The folder that keeps programs for the next kernel; None keeps none.

        Example:
            >>> nitro_repl.programs.persistent = None
        """
        return persistent.folder()

    @persistent.setter
    def persistent(self, path: str | os.PathLike[str] | None) -> None:
        persistent.enable(path)

    def stats(self) -> dict[str, int]:
        """Counts: each outcome, `programs` known, `executables` held."""
        return {**self._ledger.outcomes(), **self._shelf.counts()}

    def events(self) -> list[Event]:
        """One record per lookup, oldest first."""
        return self._ledger.events()

    def latest(self) -> list[Program]:
        """The programs looked up last, without their executables."""
        return self._ledger.latest()

    def why(self) -> Reasons:
        """What the latest lookup of each program cost, and its cause in words."""
        return self._ledger.why()

    def count(self) -> int:
        """How many lookups there have been, those that `events` forgot too."""
        return self._ledger.count()

    def clear(self) -> None:
        """Forget every program and event; live runs keep the programs they hold."""
        self._shelf.clear()
        self._maker.clear()
        self._ledger.clear()

    def __rich__(self) -> RenderableType:
        return self._ledger.table().__rich__()


programs = ProgramCache()
"""The process-wide cache."""


def _program(
    spec: Spec, traced: Candidate, flat: Skeleton | None, made: Made
) -> Program:
    constants = [flat.constants[group[0]] for group in made.groups] if flat else []
    reads, model = traced.trace.reads, traced.model
    contents = {read: traced.source.content(read) for read in reads}
    if spec.follows is not None:
        contents = {**spec.follows.contents, **contents}
        model = model or spec.follows.model
    return Program(
        name=spec.name,
        form=spec.form,
        executable=made.executable,
        inputs=traced.inputs,
        outputs=traced.outputs,
        out=traced.trace.out,
        hash=made.hash,
        reads=reads,
        contents=contents,
        model=model,
        avals=signature(spec.fixed),
        batch=_batch(spec),
        unsound=unsound(traced, spec, shareable=made.shareable),
        constants=tuple(map(placed, constants)),
        lifted=tuple(map(words, constants)),
        memory=_memory(made.executable),
        meaning=(flat.key, flat.tokens) if flat is not None else made.hash,
        shareable=made.shareable,
        settings=trace_settings(),
        made=spec.made if model is not None else {},
    )


def _batch(spec: Spec) -> Hashable:
    if spec.follows is not None:
        return spec.follows.batch
    return signature(spec.arguments.get("batch"))


def _memory(executable: Any) -> int:
    """Bytes of code and scratch space; 0 where XLA does not say."""
    try:
        found = executable.memory_analysis()
        return int(found.generated_code_size_in_bytes + found.temp_size_in_bytes)
    except Exception:  # not every backend can
        return 0


def _model(spec: Spec, source: Source) -> Fingerprint | None:
    """Content of the model, taken once a look."""
    if spec.model is None:
        return None
    if spec.form not in source.models:
        source.models[spec.form] = spec.model()
    return source.models[spec.form]


def _base(spec: Spec, model: Fingerprint | None) -> Hashable:
    """All that decides a trace except what the view will be asked for."""
    content = model.digest if model is not None else None
    return (
        spec.name, spec.form, signature(spec.fixed), content, spec.extra, spec.donate,
        spec.options, trace_settings(),
    )  # fmt: skip
