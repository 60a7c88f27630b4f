"""A step whose numbers are still on the device, and what they say once read.

What a row of the history holds, and what of it was not finite, is decided here alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from typing import Any, NamedTuple

import jax
import numpy as np

from .._experiment.metrics import numbers, together
from .._programs.nnx_optimizers import was_called
from .._programs.step import Report, TrainStep


class Bad(NamedTuple):
    """What was not finite, in words, and its value."""

    name: str
    value: float


class Pending(NamedTuple):
    """A step whose numbers are still on the device.

    Attributes:
        step: Its number, from 1.
        epoch: Its epoch, from 0; likewise `batch` in that.
        report: What it told.
        program: What made it.
        values: The numbers that it was made with, by name.
        batches: Its micro-batches.
        inputs: Leaves of the Device fields, then the hyperparameters.
    """

    step: int
    epoch: int
    batch: int
    report: Report
    program: TrainStep
    values: Mapping[str, float]
    batches: tuple[Mapping[str, Any], ...]
    inputs: tuple[Any, ...]

    def wait(self) -> None:
        """Wait until the device has made it; what failed is said when it is read."""
        with suppress(jax.errors.JaxRuntimeError):
            self.report.numbers.block_until_ready()

    def read(self) -> tuple[dict[str, float], Bad | None]:
        """Its row of the history, and what was not finite."""
        step = self.program
        loss, guarded, *norms = np.asarray(self.report.numbers).tolist()
        row = {"step": self.step, "epoch": self.epoch, "loss": loss}
        named = zip(step.norms, norms, strict=True)
        row |= {name: norm for name, norm in named if was_called(norm)}
        if any(self.report.metrics):
            tree = jax.tree.structure(step.metrics)
            parts = [jax.tree.unflatten(tree, leaves) for leaves in self.report.metrics]
            row |= numbers(together(parts))
        if not step.manual:
            row["grad_norm"] = guarded
        row.update(self.values)
        fine = isfinite(loss) and isfinite(guarded)
        return row, None if fine else self._bad(row, guarded)

    def _bad(self, row: Mapping[str, float], guarded: float) -> Bad:
        step = self.program
        if not isfinite(row["loss"]):
            return Bad("the loss", row["loss"])
        if not step.manual:
            return Bad("a gradient", guarded)
        for name in step.metrics:
            if not isfinite(row[name]):
                return Bad(f"`{name}` of train_step", row[name])
        for name in step.norms:
            if not isfinite(row.get(name, 0.0)):
                of = name.rpartition(".")[0]
                return Bad("a gradient" + (f" of `{of}`" if of else ""), row[name])
        return Bad("an update of a parameter or an optimizer", guarded)
