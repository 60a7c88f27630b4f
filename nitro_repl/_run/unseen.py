"""Programs whose trace reads what no look without tracing can compare.

An edit of that is seen by a swap, or at auto 2: who looks at a run is told.
"""

from __future__ import annotations

from collections.abc import Iterable

from .._programs.report import unknown
from .._programs.spec import Program
from .log import Log


def unseen(programs: Iterable[Program]) -> dict[str, str]:
    """By name of such a program, what its state is, in words."""
    found: dict[str, tuple[str, ...]] = {}
    for program in programs:
        if program.unseen:
            found[program.name] = (*found.get(program.name, ()), *program.unseen)
    return {name: unknown(reasons) for name, reasons in found.items()}


def tell_unseen(programs: Iterable[Program], log: Log) -> None:
    """Say once in a run of each reason which programs it concerns."""
    by_reason: dict[str, dict[str, None]] = {}
    for program in programs:
        for reason in program.unseen:
            by_reason.setdefault(reason, {})[f"`{program.name}`"] = None
    for reason, names in by_reason.items():
        log.tell_once(
            reason,
            f"nitro: {', '.join(names)} cannot be compared without tracing ({reason}): "
            "an edit of what that reads is seen by a swap, or after a cell at auto 2",
        )
