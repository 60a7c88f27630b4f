"""Trace user code to a jaxpr that no JAX cache can make stale, and say what it read.

Every trace runs in a fresh epoch of JAX's trace caches, so an edit under an inner jit,
a scan body or a checkpoint is always seen.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core

from .._code.recorder import Recorder
from .._code.references import code_info
from .._experiment.view import Read, Reads
from .conversion import converted_anew
from .explain import explained, kept_array
from .libraries import seen

_epoch = jax.make_user_context(default_value=None)
_epochs = itertools.count(1)
tracing = threading.RLock()
"""Held while user code is traced."""

Slot = tuple[Any, ...]
"""Names one array that a program takes or gives: `("params", 3)`."""


@dataclass(frozen=True)
class Trace:
    """One trace of a program.

    Attributes:
        jaxpr: The closed jaxpr, all inputs and outputs.
        slots: A slot per input variable, in order.
        out: The traced function's output, its leaves avals with weak types.
        reads: What the view was asked for.
        ran: Content digests of the user code objects that ran, with their names.
        seconds: Wall time.
    """

    jaxpr: core.ClosedJaxpr
    slots: tuple[Slot, ...]
    out: Any
    reads: tuple[Read, ...]
    ran: Mapping[str, str]
    seconds: float


def trace(
    name: str,
    function: Callable[[Any, Reads], Any],
    arguments: Mapping[str, Any],
    reads: Reads,
) -> Trace:
    """Trace `function(arguments, reads)`.

    Args:
        name: Program name; JAX sees `nitro_<name>`.
        function: Takes a pytree like `arguments` with tracers, and the record to fill.
        arguments: Groups of avals, by group name.
        reads: Filled while tracing.

    Raises:
        NitroError: The user's code failed; JAX errors are explained.
    """

    def run(groups: Any) -> Any:
        return function(groups, reads)

    run.__name__ = run.__qualname__ = f"nitro_{name}"
    started = time.perf_counter()
    with (
        tracing,
        _no_collection(),
        Recorder() as recorder,
        _epoch(next(_epochs)),
        converted_anew(),
        explained(name),
    ):
        traced = jax.jit(run).trace(dict(arguments))
    _leftovers.sweep()
    library = seen(recorder.modules, recorder.said)
    reads.add(library.kind, library.name)
    closed = traced.jaxpr
    avals = [_weak_struct(var.aval) for var in closed.jaxpr.outvars]
    out = jax.tree.unflatten(jax.tree.structure(traced.out_info), avals)
    slots = tuple(
        slot_of(path)
        for path, _ in jax.tree_util.tree_flatten_with_path(dict(arguments))[0]
    )
    if len(closed.jaxpr.invars) != len(slots):  # JAX takes such arrays in as inputs
        kept = closed.jaxpr.invars[: -len(slots)]
        raise kept_array(name, closed.jaxpr, kept)
    by_the_way = _listeners()
    ran = {d: recorder.names.get(d, "") for d in recorder.codes if d not in by_the_way}
    return Trace(closed, slots, out, tuple(reads), ran, time.perf_counter() - started)


def rehearse(
    name: str, function: Callable[[Any, Reads], Any], arguments: Mapping[str, Any]
) -> Any:
    """Trace as `trace` does, for what it refuses; nothing is kept or counted.

    Returns:
        The function's output, its leaves avals.
    """

    def run(groups: Any) -> Any:
        return function(groups, Reads())

    with tracing, _epoch(next(_epochs)), explained(name):
        return jax.eval_shape(run, dict(arguments))


_LEFT = 1024  # jaxprs that our epochs may leave in JAX's unbounded cache


class _Leftovers:
    """What traces of epochs that are over leave in JAX's one unbounded trace cache.

    Emptying it costs whoever traces next a few milliseconds and never a compile: the
    caches of executables, and of what a jit was traced to, are others.
    """

    def __init__(self) -> None:
        self._base = 0

    def sweep(self) -> None:
        """Empty the cache if it has grown by much; called while nothing is traced."""
        from jax._src.interpreters import partial_eval

        cache: Any = partial_eval.trace_to_jaxpr
        size = cache.cache_info().currsize
        self._base = min(self._base, size)
        if size - self._base > _LEFT:
            cache.cache_clear()
            self._base = 0


_leftovers = _Leftovers()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keep finalizers of the user's garbage from running in the middle of a trace.

    They would be taken for code of the trace, which no name leads to.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _listeners() -> frozenset[str]:
    """Content digests of the functions that JAX tells of its traces and compiles.

    They run in the middle of a trace and give nothing to it.
    """
    from jax._src import monitoring

    found: set[str] = set()
    for listener in (
        *monitoring.get_event_listeners(),
        *monitoring.get_event_duration_listeners(),
        *monitoring.get_event_time_span_listeners(),
        *monitoring.get_scalar_listeners(),
    ):
        function = getattr(listener, "__func__", listener)
        code = getattr(function, "__code__", None)
        if code is None:
            code = getattr(type(listener).__call__, "__code__", None)
        if code is not None:
            found |= code_info(code).codes
    return frozenset(found)


def epoch(number: int | None = None) -> Any:
    """A context in which JAX's trace caches are empty.

    Args:
        number: Of `new_epoch`: those caches then hold what was traced under it.
    """
    return _epoch(new_epoch() if number is None else number)


def new_epoch() -> int:
    """A number for trace caches that nothing has been traced under."""
    return next(_epochs)


def select(
    closed: core.ClosedJaxpr, outputs: list[int]
) -> tuple[core.ClosedJaxpr, list[int]]:
    """Keep some outputs of a jaxpr and only the inputs that are then used.

    Returns:
        The smaller jaxpr, and the positions of the inputs it kept.
    """
    jaxpr = closed.jaxpr
    outvars = [jaxpr.outvars[i] for i in outputs]
    used = {
        var
        for eqn in jaxpr.eqns
        for var in eqn.invars
        if not isinstance(var, core.Literal)
    }
    used |= {var for var in outvars if not isinstance(var, core.Literal)}
    kept = [i for i, var in enumerate(jaxpr.invars) if var in used]
    smaller = core.Jaxpr(
        jaxpr.constvars,
        [jaxpr.invars[i] for i in kept],
        outvars,
        jaxpr.eqns,
        jaxpr.effects,
        jaxpr.debug_info.with_unknown_names(),
    )
    return core.ClosedJaxpr(smaller, closed.consts), kept


def _weak_struct(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(
        aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False)
    )


def slot_of(path: tuple[Any, ...]) -> Slot:
    """The slot of a leaf, from its path in the groups of arguments."""
    return tuple(
        getattr(key, "key", getattr(key, "idx", getattr(key, "name", None)))
        for key in path
    )
