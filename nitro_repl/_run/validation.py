"""Evaluation of "val" between two steps of a run.

It uses one boundary's numbers throughout, whatever is set or loaded meanwhile; pause
and stop are heard between its batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .evaluation import Evaluation, Padding
from .loop import Loop
from .record import Record


class Validation:
    """Evaluates a split on the worker and records the result.

    Args:
        loader: The split "val".
        record: Where the row goes.
        padding: How ragged batches are padded, if they are.
    """

    def __init__(self, loader: Any, record: Record, padding: Padding | None):
        self._loader = loader
        self._record = record
        self._padding = padding

    def __call__(self, loop: Loop) -> None:
        """Evaluate at this boundary, unless the run is stopped meanwhile."""
        plan = loop.programs.blueprint
        evaluation = Evaluation(
            plan.experiment, plan.hooks, loop.programs, self._padding
        )
        evaluation.between = lambda: self._between(loop)
        loop.on_phase("evaluating")
        try:
            result = evaluation.evaluate(loop.state(), self._loader, "val")
        except _StopError:
            return
        numbers = {k: float(v) for k, v in result.items() if np.ndim(v) == 0}
        self._record.row("val", {"step": loop.step, "epoch": loop.epoch, **numbers})

    @staticmethod
    def _between(loop: Loop) -> None:
        while (command := loop.mailbox.take(urgent=True)) is not None:
            loop.obey(command)
        loop.rest()
        if loop.stopping:
            raise _StopError
        loop.on_phase("evaluating")


class _StopError(Exception):
    """The run is to stop in the middle of an evaluation."""
