"""Evaluation of "val" between two steps of a run.

It uses one boundary's numbers throughout, whatever is set or loaded meanwhile; pause
and stop are heard between its batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ..errors import StaleError
from .evaluation import Evaluation
from .loop import Loop
from .padding import Padding, last_rows
from .record import Record


class Validation:
    """Evaluates a split on the worker and records the result.

    Args:
        loader: The split "val".
        record: Where the row goes.
        padding: How ragged batches are padded, if they are.
        first: Avals of its first batch.
    """

    def __init__(
        self,
        loader: Any,
        record: Record,
        padding: Padding | None,
        first: Mapping[str, jax.ShapeDtypeStruct],
    ):
        self._loader = loader
        self._record = record
        self._padding = padding
        self._first = first
        self._told = ""

    def prepare(self, loop: Loop) -> None:
        """Make its programs now, of the code that the run begins with."""
        last = last_rows(self._loader)
        self._evaluation(loop).prepare(self._first, "val", last)

    def __call__(self, loop: Loop) -> None:
        """Evaluate at this boundary, unless the run is stopped meanwhile."""
        evaluation = self._evaluation(loop)
        evaluation.between = lambda: self._between(loop)
        loop.on_phase("evaluating")
        try:
            result = evaluation.evaluate(loop.state(), self._loader, "val")
        except _StopError:
            return
        except StaleError as error:  # the run goes on; a mixed number would mislead
            if str(error) != self._told:
                self._told = str(error)
                said = f"no evaluation at step {loop.step}: {error}"
                self._record.log.tell(said, bad=True)
            return
        numbers = {k: float(v) for k, v in result.items() if _is_number(v)}
        self._record.row("val", {"step": loop.step, "epoch": loop.epoch, **numbers})

    def _evaluation(self, loop: Loop) -> Evaluation:
        return Evaluation.of(loop.programs, self._padding)

    @staticmethod
    def _between(loop: Loop) -> None:
        while (command := loop.mailbox.take(urgent=True)) is not None:
            loop.obey(command)
        loop.rest()
        if loop.stopping:
            raise _StopError
        loop.on_phase("evaluating")


def _is_number(value: Any) -> bool:
    """Whether it goes into a row; finalize_metrics may give texts and arrays too."""
    kinds = bool | int | float | np.generic | np.ndarray | jax.Array
    return isinstance(value, kinds) and np.ndim(value) == 0 and bool(np.isreal(value))


class _StopError(Exception):
    """The run is to stop in the middle of an evaluation."""
