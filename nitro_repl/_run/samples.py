"""One batch taken apart into its samples, each with its outputs and its loss.

A sample's loss is that of a batch of this sample alone, in one compiled shape; that is
its own only if the loss of a batch is made of those, which is checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from .._experiment.metrics import Mean, MetricValue
from ..errors import DataError, HookError
from .batches import check_batch, private_arrays
from .evaluation import At, Evaluation, State
from .padding import majority

_SAME = 1e-2  # relative; a loss may be computed in bfloat16


@dataclass(order=True)
class Sample:
    """One sample; ordered by how bad it is.

    Attributes:
        rank: What it is ordered by.
        index: Position in its split.
        fields: What `visualize` asks for of the batch.
        outputs: Of `forward`, None without predictions.
        loss: Where the worst are asked for.
    """

    rank: float
    index: int = field(compare=False)
    fields: dict[str, Any] = field(compare=False)
    outputs: Any = field(compare=False)
    loss: float | None = field(compare=False, default=None)


class Batch:
    """The samples of one batch.

    Args:
        evaluation: Gives programs and hooks.
        state: One boundary's numbers.
        batch: As the loader gave it.
        at: Which batch of which split.
        hooks: The compiled hooks to call: "forward" for outputs, "loss" too to rank.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        state: State,
        batch: Any,
        at: At,
        hooks: tuple[str, ...],
    ):
        self._evaluation, self._state, self._at = evaluation, state, at
        self._ranked = "loss" in hooks
        check_batch(batch, at.split)
        programs = evaluation.programs
        shown = programs.batch_fields.eval("visualize", batch, at.split)
        self._shown = {name: np.asarray(batch[name]) for name in shown}
        names = {
            n
            for hook in hooks
            for n in programs.batch_fields.eval(hook, batch, at.split)
        }
        self._arrays = private_arrays(batch, at.split, sorted(names))
        self._outputs, self.rows = None, 0
        if hooks:
            outputs, self.rows = evaluation.outputs(state, self._arrays, at)
            self._outputs = jax.device_get(outputs)
        known = [*self._arrays.values(), *self._shown.values()]
        self.rows = self.rows or majority(known)
        self._check_outputs()

    def samples(self, start: int) -> Iterator[Sample]:
        """The samples, of which the first is number `start` of the split."""
        for row in range(self.rows):
            fields = {n: self._of(array, row) for n, array in self._shown.items()}
            outputs = jax.tree.map(lambda leaf, r=row: leaf[r], self._outputs)
            mean = _mean(self._loss(row)) if self._ranked else None
            loss = None if mean is None else float(mean.compute())
            yield Sample(_rank(mean), start + row, fields, outputs, loss)

    def check_loss(self) -> None:
        """Refuse a loss of which no sample has its own share.

        Raises:
            HookError: The loss of the batch is not the mean of its samples' losses.
        """
        own = [_mean(self._loss(row)) for row in range(self.rows)]
        total = sum(mean.total for mean in own)
        count = sum(mean.count for mean in own)
        whole = _number(self._judged(self._outputs, self._arrays))
        mean = total / count if count else math.nan
        if math.isclose(mean, whole, rel_tol=_SAME, abs_tol=1e-5):
            return
        if math.isnan(mean) or math.isnan(whole):
            return  # that is what the worst are looked at for
        raise HookError(
            f"the loss of a batch is {whole:.4g}, the mean of its samples' losses "
            f"{mean:.4g}: they have none of their own to rank by",
            where=f"loss, render(worst=...), split `{self._at.split}`",
            fix="return nitro.Mean(total, count) from a loss with weights or masks;\n"
            "one that compares samples (in-batch negatives) cannot rank them",
        )

    def _check_outputs(self) -> None:
        for path, leaf in jax.tree_util.tree_leaves_with_path(self._outputs):
            if np.ndim(leaf) == 0 or len(leaf) != self.rows:
                name = jax.tree_util.keystr(path)
                raise DataError(
                    f"Output {f'`{name}` ' if name else ''}has shape {np.shape(leaf)}, "
                    f"not one row for each of the {self.rows} samples.",
                    where=f"render, split `{self._at.split}`",
                    fix="return one row for each sample from `forward`, or draw the\n"
                    "data alone: render(predictions=False)",
                )

    def _of(self, array: np.ndarray, row: int) -> Any:
        return array[row] if self._is_per_sample(array) else array

    def _is_per_sample(self, array: Any) -> bool:
        return np.ndim(array) > 0 and np.shape(array)[0] == self.rows

    def _loss(self, row: int) -> Any:
        """The loss of a batch of one sample."""
        one = slice(row, row + 1)
        arrays: Mapping[str, Any] = {
            name: np.asarray(array)[one] if self._is_per_sample(array) else array
            for name, array in self._arrays.items()
        }
        return self._judged(jax.tree.map(lambda leaf: leaf[one], self._outputs), arrays)

    def _judged(self, outputs: Any, arrays: Mapping[str, Any]) -> Any:
        given = self._evaluation.judged(
            self._state, outputs, arrays, self._at, hooks=("loss",)
        )
        return jax.device_get(given["loss"])


def _rank(mean: Any) -> float:
    """How bad a sample is: most if its loss is nan, least if it does not count."""
    if mean is None or mean.count == 0:
        return -math.inf
    loss = float(mean.compute())
    return math.inf if math.isnan(loss) else loss


def _mean(loss: Any) -> Any:
    return loss.host() if isinstance(loss, MetricValue) else Mean(float(loss), 1)


def _number(loss: Any) -> float:
    return float(_mean(loss).compute())
