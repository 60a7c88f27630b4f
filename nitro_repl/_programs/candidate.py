"""A program traced but not yet compiled, and whether content can vouch for its trace.

What the content walk cannot account for is said, never passed over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core

from .._code.fingerprint import Fingerprint, Reason, fingerprint
from .._code.gone import HELD, IMPORTED
from .._experiment.view import Read, Reads
from .explain import gone_error, kept_error
from .key import KEPT_TRACER, Source
from .spec import UNREACHED, Spec
from .trace import Slot, Trace, select, trace


@dataclass(frozen=True)
class Candidate:
    """One trace of a spec.

    Attributes:
        trace: The trace.
        source: What the view answered with, as it is after the trace.
        model: Content of the model, likewise.
        moved: What changed while it was traced, in words.
        doubts: Why content cannot vouch for it, as it was before the trace.
        closed: The jaxpr to lower: own outputs and used inputs only.
        inputs: A slot per input of it.
        outputs: Where each leaf of the traced output is found.
    """

    trace: Trace
    source: Source
    model: Fingerprint | None
    moved: tuple[str, ...]
    doubts: tuple[Reason, ...]
    closed: core.ClosedJaxpr
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]

    @property
    def prints(self) -> tuple[Fingerprint, ...]:
        """The content of all that it read."""
        contents = (self.source.content(read) for read in self.trace.reads)
        found = (*contents, self.model)
        return tuple(one for one in found if isinstance(one, Fingerprint))


def candidate(spec: Spec, source: Source) -> Candidate:
    """Trace a spec, once more if something that it read changed meanwhile."""
    made = _attempt(spec, source)
    return _attempt(spec, source) if made.moved else made


def _attempt(spec: Spec, source: Source) -> Candidate:
    before, model_before = source.again(), spec.model() if spec.model else None
    _ = before.replaced  # what stands in libraries before the code runs
    traced = trace(spec.name, spec.function, spec.arguments, _Watched(before))
    after, model = source.again(), spec.model() if spec.model else None
    moved = [
        moves(read)
        for read in traced.reads
        if before.digest(read) != after.digest(read)
    ]
    if model_before and model and model_before.digest != model.digest:
        moved.append("the model changes while it is traced")
    found = (*after.unsound(traced.reads), *_doubts(model))
    _check_kept(spec.name, found)
    _check_gone(spec.name, [reason for reason in found if reason.code in traced.ran])
    closed, inputs, outputs = _interface(spec, traced)
    doubts = (
        *before.unsound(traced.reads),
        *_doubts(model_before),
    )
    return Candidate(
        traced, after, model, tuple(moved), doubts, closed, inputs, outputs
    )


def _doubts(model: Fingerprint | None) -> tuple[Reason, ...]:
    return model.unsound if model is not None else ()


def _check_kept(name: str, doubts: Iterable[Reason]) -> None:
    """Refuse code that keeps arrays of its trace, before anyone uses them."""
    for reason in doubts:
        if reason.startswith(KEPT_TRACER):
            raise kept_error(name, reason.removeprefix(f"{KEPT_TRACER} in "))


def _check_gone(name: str, ran: Iterable[Reason]) -> None:
    """Refuse code that ran although its file defines it no longer."""
    for reason in ran:
        if reason.startswith((IMPORTED, HELD)):
            raise gone_error(reason, f"program `{name}`")


def moves(read: Read) -> str:
    """The reason of a trace that changes what it reads."""
    if read.kind == "library":
        return "what stands in a library changes while it is traced"
    return f"`{read.name}` changes while it is traced"


def unsound(made: Candidate, spec: Spec, *, shareable: bool) -> tuple[str, ...]:
    """Why content cannot vouch for a trace; empty if it can."""
    traced, prints = made.trace, made.prints
    followed = spec.follows.codes if spec.follows is not None else frozenset()
    reached = followed.union(*(content.codes for content in prints))
    # A read of the clock in code that did not run cannot have reached the program.
    reasons: list[str] = [r for r in made.doubts if not r.code or r.code in traced.ran]
    reasons += made.moved
    reasons += [
        f"{name or 'a function'} {UNREACHED}"
        for digest, name in traced.ran.items()
        if digest not in reached
    ]
    reasons += _taken_for_one(prints)
    if not shareable:
        reasons.append("it calls back into Python")
    if _has_user_nodes(traced.out):
        reasons.append("it returns instances of a class of yours")
    return tuple(dict.fromkeys(reasons))


def _taken_for_one(prints: Iterable[Fingerprint]) -> list[str]:
    """Classes that content cannot tell apart, as `is` and isinstance do.

    A value may be of a class whose cell has run again since: in a fresh session both
    would be one class, and the trace another.
    """
    by_name: dict[str, dict[int, type]] = defaultdict(dict)
    for reference in (one for content in prints for one in content.classes):
        cls = reference()
        if cls is not None:
            by_name[cls.__qualname__][id(cls)] = cls
    return [
        f"values of an older class `{name}` are in use; run their cells again too"
        for name, same in by_name.items()
        if len(same) > len({fingerprint(cls).digest for cls in same.values()})
    ]


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
