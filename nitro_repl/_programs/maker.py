"""Makes the executable of a trace: shares one that is compiled, or has XLA compile it.

Constants that were tweaked are inputs of it, so that their next values share it too.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ProgramError
from . import persistent
from .candidate import Candidate
from .key import trace_settings
from .lift import Groups, groups_of, lift
from .lower import Lowered, lower
from .shelf import Shelf, Variant
from .skeleton import Skeleton
from .spec import Spec
from .tweaks import Tweaks


@dataclass(frozen=True)
class Made:
    """An executable for one trace, and what it took to get it.

    Attributes:
        groups: Constants of the trace that it takes as inputs.
    """

    executable: Any
    hash: str
    outcome: str
    groups: Groups = ()
    shareable: bool = True
    lower_s: float = 0.0
    compile_s: float = 0.0


class Maker:
    """Makes executables, each once.

    Args:
        shelf: Where they are found and kept.
    """

    def __init__(self, shelf: Shelf):
        self._shelf = shelf
        self._tweaks = Tweaks()

    def make(
        self, spec: Spec, traced: Candidate, flat: Skeleton | None, experiment: str
    ) -> Made:
        """Share what is compiled, constants apart; else lower and compile.

        Args:
            spec: What the trace is of.
            traced: The trace.
            flat: Its skeleton, if it has one.
            experiment: Class name: tweaks of one say nothing of another.
        """
        if flat is None:
            return self._compiled(spec, _lowered(spec, traced, traced.closed))
        key, name = _family(spec, traced, flat), (experiment, spec.name, spec.form)
        known = self._shelf.variant(key, flat.tokens)
        if known is not None:
            self._tweaks.learn(name, flat, known.groups)
            return Made(known.executable, known.hash, "rebound", known.groups)
        lowered, groups = self._with_inputs(spec, traced, flat, key, name)
        made = self._compiled(spec, lowered, groups)
        if made.shareable:
            self._tweaks.learn(name, flat, groups)
            variant = Variant(flat.tokens, groups, made.hash, made.executable)
            self._shelf.add_variant(key, variant)
        return made

    def clear(self) -> None:
        """Forget which constants were tweaked."""
        self._tweaks.clear()

    def _with_inputs(
        self,
        spec: Spec,
        traced: Candidate,
        flat: Skeleton,
        key: Hashable,
        name: Hashable,
    ) -> tuple[Lowered, Groups]:
        """The trace lowered, those of its constants inputs that are tweaked."""
        changed = self._shelf.changed(key, flat.tokens)
        again = self._tweaks.again(name, flat)
        lowered, groups = _lifted(spec, traced, flat, {**again, **changed})
        if again and not self._shelf.holds(lowered.hash):
            # An edit of nothing that XLA sees needs no compile to keep the inputs.
            plain, own = _lifted(spec, traced, flat, changed)
            if self._shelf.holds(plain.hash):
                return plain, own
        return lowered, groups

    def _compiled(self, spec: Spec, lowered: Lowered, groups: Groups = ()) -> Made:
        """Compile, or share what is compiled or being compiled under the same hash."""

        def made(executable: Any, outcome: str, seconds: float) -> Made:
            return Made(
                executable, lowered.hash, outcome, groups, lowered.shareable,
                lowered.seconds, seconds,
            )  # fmt: skip

        if not lowered.shareable:
            return made(*_compile(spec.name, lowered))
        future, mine = self._shelf.reserve(spec.name, lowered.hash)
        if not mine:
            return made(future.result(), "retraced", 0.0)
        try:
            executable, outcome, seconds = _compile(spec.name, lowered)
        except BaseException as error:
            self._shelf.drop(lowered.hash)
            future.set_exception(error)
            raise
        future.set_result(executable)
        return made(executable, outcome, seconds)


def _lifted(
    spec: Spec, traced: Candidate, flat: Skeleton, inputs: Mapping[int, Hashable]
) -> tuple[Lowered, Groups]:
    """The trace lowered with these constants as inputs, if it can be."""
    groups, closed = groups_of(flat, inputs), traced.closed
    if groups:
        try:
            closed = lift(closed, flat, groups)
        except Exception:  # where no input can stand they stay constants
            groups = ()
    return _lowered(spec, traced, closed, groups), groups


def _lowered(
    spec: Spec, traced: Candidate, closed: Any, groups: Groups = ()
) -> Lowered:
    slots = (*traced.inputs, *(("constant", i) for i in range(len(groups))))
    return lower(spec.name, closed, slots, spec.donate, spec.options)


def _compile(name: str, lowered: Lowered) -> tuple[Any, str, float]:
    """The executable, whether XLA made it or it came from disk, and seconds."""
    started = time.perf_counter()
    try:
        with persistent.compiling() as found:
            executable = lowered.compile()
    except Exception as error:
        raise ProgramError(
            f"XLA could not compile `{name}`: {str(error).strip()[:300]}",
            where=f"program `{name}`",
            fix="undo the last edit, or make the shapes smaller if memory ran out",
        ) from error
    outcome = "loaded" if found.loaded else "compiled"
    return executable, outcome, time.perf_counter() - started


def _family(spec: Spec, traced: Candidate, flat: Skeleton) -> Hashable:
    """What programs share that may differ in constants."""
    donated = tuple(slot[0] in spec.donate for slot in traced.inputs)
    return (spec.name, donated, spec.options, trace_settings(), flat.key)
