"""What a run does about a step that was not finite: take it back, or pass over it.

The programs have changed nothing in such a step; here the host takes note of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import numpy as np

from ..errors import NonFiniteError
from .culprit import find_culprit
from .feed import Position
from .pending import Bad, Pending

if TYPE_CHECKING:
    from .loop import Loop

_RESUME = """run.culprit has the batch. Edit the code and run.swap(), or run.set(...),
then run.resume(); run.set(on_nonfinite="skip") passes over such steps"""
_GO_ON = """edit the code, run.swap(), then run.handle.train() goes on from
there; or, for another value: run.handle.train(background=True,
paused=True), run.set(...), run.resume()"""


def take_back(loop: Loop, taken: Pending, bad: Bad) -> None:
    """Take back the steps that changed nothing and say which one was first.

    Raises:
        NonFiniteError: The run is to stop, or nobody could resume it.
    """
    loop.pending.clear()
    loop.step, loop.epoch = taken.step - 1, taken.epoch
    loop.feed.restore(Position(taken.epoch, taken.batch))
    loop.carry = loop.carry._replace(
        bad=jax.device_put(np.zeros((), bool), loop.values.device)
    )
    loop.culprit = find_culprit(loop, taken, bad.name, settled=True)
    loop.record.journal.record(
        "not finite", step=loop.step, by="guard", after=str(loop.culprit)
    )
    pauses = loop.on_nonfinite == "pause" and loop.attended
    error = NonFiniteError(
        f"{bad.name} is {bad.value} at step {taken.step}; parameters, optimizer and "
        f"model state are those of step {loop.step}",
        where=f"step {taken.step}, epoch {taken.epoch}; first in {loop.culprit.tensor}",
        fix=_RESUME if pauses else _GO_ON,
    )
    if not pauses:
        raise error
    loop.paused, loop.trouble = True, error
    loop.on_phase("paused")
    loop.advance.end(error)
    loop.record.log.tell(f"paused: {error}", bad=True)


def pass_over(loop: Loop, taken: Pending, bad: Bad) -> None:
    """Keep the batch of a step that changed nothing; say so the first time."""
    first = loop.culprit is None
    loop.culprit = find_culprit(loop, taken, bad.name, settled=False)
    if first:
        loop.record.log.tell(
            f"step {taken.step} is skipped: {loop.culprit.tensor} is not finite. "
            "Such steps are nan in the history; run.culprit is the last one."
        )
