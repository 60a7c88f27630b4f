"""What JAX really traces, compiles and loads, by JAX's own events, not by ours.

Of all threads, from the start of the `with` to its end, and nothing after it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator

import jax.monitoring

TRACED = "/jax/core/compile/jaxpr_trace_duration"
COMPILED = "/jax/core/compile/backend_compile_duration"
FROM_DISK = "/jax/compilation_cache/cache_hits"
OURS = "nitro_"


class Compiles:
    """What happened inside `count_compiles`.

    Programs are counted by name: `loss` is what JAX calls `nitro_loss`. The mappings
    compare with plain dicts, so that pytest shows the difference; a name that is not in
    one counts 0.

    Attributes:
        compiled: XLA compiles of programs.
        loaded: Programs that JAX's persistent compilation cache had.
        traced: Traces of programs.
        others: XLA compiles of everything else, by the name of the function: single
            `jnp` calls outside of programs, functions jitted by hand.

    Example:
        >>> assert count.nothing  # no program was traced, compiled or loaded
        >>> assert count["forward"] == 0  # not compiled
        >>> assert count.compiled == {"loss": 1}  # only this one, once
        >>> assert count.total == 0  # XLA did not run at all
    """

    def __init__(self) -> None:
        self.compiled: Counter[str] = Counter()
        self.loaded: Counter[str] = Counter()
        self.traced: Counter[str] = Counter()
        self.others: Counter[str] = Counter()

    def __getitem__(self, program: str) -> int:
        """How often XLA compiled a program."""
        return self.compiled[program]

    @property
    def total(self) -> int:
        """XLA compiles of any kind, those of single `jnp` calls included."""
        return self.compiled.total() + self.others.total()

    @property
    def nothing(self) -> bool:
        """Whether no program was traced, compiled or loaded."""
        return not (self.compiled or self.loaded or self.traced)

    def __repr__(self) -> str:
        parts = [
            f"{what} {', '.join(f'{name} {times}x' for name, times in found.items())}"
            for what in ("traced", "compiled", "loaded", "others")
            if (found := getattr(self, what))
        ]
        return f"<Compiles: {'; '.join(parts) or 'nothing'}>"


@contextlib.contextmanager
def count_compiles() -> Iterator[Compiles]:
    """Count the traces and XLA compiles of everything that runs meanwhile.

    In all threads, so that a swap or a run in the background is counted too. May be
    nested; each counts for itself.

    Yields:
        The counts, which grow until the end of the `with`.

    Example:
        >>> with count_compiles() as count:
        ...     run.set(smoothing=0.2)
        ...     run.advance(1)
        >>> assert count.nothing
    """
    listener = _Listener()
    jax.monitoring.register_event_duration_secs_listener(listener.on_duration)
    jax.monitoring.register_event_listener(listener.on_event)
    try:
        yield listener.seen
    finally:
        listener.closed = True
        jax.monitoring.unregister_event_duration_listener(listener.on_duration)
        jax.monitoring.unregister_event_listener(listener.on_event)


class _Listener:
    """Counts events of every thread; a load from disk is told before its compile."""

    def __init__(self) -> None:
        self.seen = Compiles()
        self.closed = False
        self._lock = threading.Lock()
        self._loading: set[int] = set()  # threads in which a compile will be a load

    def on_event(self, event: str, **kwargs: str | int) -> None:
        if event == FROM_DISK:
            with self._lock:
                self._loading.add(threading.get_ident())

    def on_duration(
        self, event: str, duration_secs: float, **kwargs: str | int
    ) -> None:
        if event not in (TRACED, COMPILED) or self.closed:
            return
        name = str(kwargs.get("fun_name", "")).removeprefix("jit(").removesuffix(")")
        program = name.removeprefix(OURS)
        with self._lock:
            if event == TRACED:
                self.seen.traced.update([program] if name != program else [])
            elif self._was_loaded():
                self.seen.loaded.update([program] if name != program else [])
            elif name != program:
                self.seen.compiled[program] += 1
            else:
                self.seen.others[name] += 1

    def _was_loaded(self) -> bool:
        here = threading.get_ident()
        found = here in self._loading
        self._loading.discard(here)
        return found
