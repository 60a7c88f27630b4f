"""Count what JAX really traces and compiles, by JAX's own events, not by ours."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import jax.monitoring

TRACED = "/jax/core/compile/jaxpr_trace_duration"
COMPILED = "/jax/core/compile/backend_compile_duration"
FROM_DISK = "/jax/compilation_cache/cache_hits"
OURS = "nitro_"


@dataclass
class Compiles:
    """What happened inside `count_compiles`, from all threads.

    Attributes:
        compiled: XLA compiles by program name ("loss" for `nitro_loss`).
        traced: Traces by program name.
        total: XLA compiles of any kind, those of eager `jnp` functions included.
        others: What the compiles that are not of our programs were called.
    """

    compiled: Counter[str] = field(default_factory=Counter)
    traced: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    from_disk: int = 0

    @property
    def total(self) -> int:
        """XLA compiles of any kind."""
        return self.compiled.total() + self.others.total() - self.from_disk

    @property
    def nothing_of_ours(self) -> bool:
        """Whether no program of ours was traced or compiled."""
        return not self.compiled and not self.traced


@contextlib.contextmanager
def count_compiles() -> Iterator[Compiles]:
    """Count traces and XLA compiles of everything that runs meanwhile.

    Example:
        >>> with count_compiles() as count:
        ...     run.set(smoothing=0.2)
        >>> count.total
        0
    """
    seen = Compiles()

    def on_duration(event: str, seconds: float, **details: object) -> None:
        name = str(details.get("fun_name", "")).removeprefix("jit(").removesuffix(")")
        if event == TRACED and name.startswith(OURS):
            seen.traced[name.removeprefix(OURS)] += 1
        elif event == COMPILED and name.startswith(OURS):
            seen.compiled[name.removeprefix(OURS)] += 1
        elif event == COMPILED:
            seen.others[name] += 1

    def on_event(event: str, **details: object) -> None:
        seen.from_disk += event == FROM_DISK

    jax.monitoring.register_event_duration_secs_listener(on_duration)
    jax.monitoring.register_event_listener(on_event)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(on_duration)
        jax.monitoring.unregister_event_listener(on_event)
