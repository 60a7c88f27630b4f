"""What to look up in the cache, what comes out, and what is told about it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._code.fingerprint import Fingerprint
from .._code.walk import Reason
from .._experiment.view import Read, Reads
from .trace import Slot

OUTCOMES = ("hit", "rebound", "retraced", "loaded", "compiled")
"""What a lookup can give, cheapest first."""

UNREACHED = "ran but no name leads to it"

_keys = itertools.count(1)


@dataclass(frozen=True)
class Spec:
    """A program to find or make.

    Attributes:
        name: One of the names of the programs table; JAX sees `nitro_<name>`.
        form: Tells apart programs of one name ("train", "value").
        function: Traced with (groups of arguments, the record of reads).
        arguments: Groups of avals; an array's slot is (group, *path).
        model: Takes the content of the model's structure, if it holds the model.
        extra: What else decides the trace (an output tree, the identity of residuals).
        donate: Groups whose buffers the program may reuse.
        share_inputs: Leave out outputs that are inputs; the caller has them already.
        options: Of the compiler, by name.
        made: What the model was made from, by what `build_model` read.
        follows: The program whose content `extra` stands for.
        then: Called with what a trace gives, before it is compiled; may refuse it.
    """

    name: str
    function: Callable[[Any, Reads], Any]
    arguments: Mapping[str, Any]
    form: str = ""
    model: Callable[[], Fingerprint] | None = None
    extra: Hashable = None
    donate: frozenset[str] = frozenset()
    share_inputs: bool = False
    follows: Program | None = None
    options: tuple[tuple[str, Any], ...] = ()
    made: Mapping[Read, Any] = field(default_factory=dict[Read, Any])
    then: Callable[[Any], None] | None = None

    @property
    def fixed(self) -> dict[str, Any]:
        """The arguments that are there whatever is read: all but the Device fields."""
        return {name: tree for name, tree in self.arguments.items() if name != "fields"}


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled program and how to call it.

    Attributes:
        executable: JAX's `Compiled`; takes the arrays of `inputs`, then `constants`,
            and gives a tuple.
        inputs: A slot per input, in order.
        outputs: Per leaf of `out`, its place: ("out", k) or the slot of an input.
        out: The traced output; its leaves are avals.
        hash: Of the StableHLO.
        reads: What the trace read from the view.
        contents: The content behind each read, and that of the program it follows.
        batch: Avals of the batch that it is for, or that what it follows is for.
        unsound: Why it must always be traced again, empty if it need not.
        constants: Numbers of the code that are inputs, on the device.
        lifted: The same in words, with their places.
        memory: Bytes of code and scratch space.
        meaning: Of its trace, constants included: equal for equal programs.
        shareable: False if it calls back into Python.
        settings: JAX's, and what else decides an executable.
        made: What its model was made from.
        key: A number of its own.
    """

    name: str
    form: str
    executable: Any
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    out: Any
    hash: str
    reads: tuple[Read, ...]
    contents: Mapping[Read, Any]
    model: Fingerprint | None = None
    avals: Hashable = None
    batch: Hashable = None
    unsound: tuple[str, ...] = ()
    constants: tuple[Any, ...] = ()
    lifted: tuple[str, ...] = ()
    memory: int = 0
    meaning: Hashable = None
    shareable: bool = True
    settings: Hashable = None
    made: Mapping[Read, Any] = field(default_factory=dict[Read, Any])
    key: int = field(default_factory=lambda: next(_keys))

    def computes(self, other: Program) -> bool:
        """Whether another program is this one, numbers and all."""
        return self.meaning == other.meaning and self.shareable

    @property
    def unseen(self) -> tuple[str, ...]:
        """Why an edit of what its trace reads may not be seen without tracing."""
        named = tuple(one for one in self.unsound if isinstance(one, Reason))
        return named or tuple(one for one in self.unsound if one.endswith(UNREACHED))

    @property
    def codes(self) -> frozenset[str]:
        """Digests of the code that its content holds."""
        found = (*self.contents.values(), self.model)
        prints = [one for one in found if isinstance(one, Fingerprint)]
        return frozenset().union(*(one.codes for one in prints))


@dataclass(frozen=True)
class Event:
    """One lookup.

    Attributes:
        outcome: One of `OUTCOMES`, or "evicted".
        reason: What caused it, in words.
        trace_s: Seconds spent tracing; likewise `lower_s`, `compile_s`.
        experiment: Class name.
        run: Run id, empty outside a run.
        step: Step of the run at the lookup.
        at: Seconds since the epoch.
    """

    program: str
    outcome: str
    reason: str = ""
    trace_s: float = 0.0
    lower_s: float = 0.0
    compile_s: float = 0.0
    experiment: str = ""
    run: str = ""
    step: int | None = None
    at: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Asker:
    """Who looks a program up, for the events.

    Attributes:
        on_phase: Told what is done.
        on_event: Told of each lookup and the program that it gave.
        over: Whether nobody waits for the program any more.
    """

    experiment: str = ""
    run: str = ""
    step: int | None = None
    on_phase: Callable[[str], None] = field(default=lambda phase: None, compare=False)
    on_event: Callable[[Event, Program], None] = field(
        default=lambda event, program: None, compare=False
    )
    over: Callable[[], bool] = field(default=lambda: False, compare=False)
