"""Evaluation and prediction: one eval program, padded ragged batches, numpy out.

Metrics never see padding, and a number is a mean over samples, never over batches.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from .._experiment.base import Experiment
from .._experiment.hooks import Hooks
from .._experiment.metrics import Mean, MetricValue, Totals
from .._programs.explain import hooks_explained
from .._programs.metrics import on_device
from .._programs.program_set import ProgramSet, with_rows
from .._programs.step import EvalStep
from ..errors import HookError, MetricError
from .batches import (
    batch_arrays,
    batch_rows,
    check_batch,
    pad_batch,
    private_arrays,
    slice_outputs,
)
from .feed import close_iterator, open_epoch
from .live_self import live_self

Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class State:
    """One boundary's numbers, as evaluation needs them.

    Attributes:
        params: Parameter leaves; likewise `state`.
        fields: Leaves of the Device fields.
        key: The run's random key.
        device: Where all this is.
        step: Optimizer steps done.
    """

    params: Arrays
    state: Arrays
    fields: Arrays
    key: Any
    device: Any
    step: int = 0


_COLUMNS = {"step", "epoch", "split"}  # that a row of the history has anyway
_MOST_PADDING = 16  # times the real rows: after that a program of their own is better


class Padding:
    """How many rows a ragged batch is padded to, so that it needs no new program.

    Args:
        rows: Of a whole batch.
    """

    def __init__(self, rows: int):
        self._whole = rows
        self._met: dict[Any, set[int]] = {}

    def rows(self, batch: Mapping[str, Any], rows: int) -> int:
        """The fewest rows met before that are enough, within reason."""
        kind = tuple((n, a.shape[1:], a.dtype) for n, a in sorted(batch.items()))
        met = self._met.setdefault(kind, set())
        enough = [known for known in met if rows <= known <= _MOST_PADDING * rows]
        padded = min(enough, default=max(rows, self._whole))
        met.add(padded)
        return padded


@dataclass
class Evaluation:
    """Evaluates one experiment.

    Attributes:
        padding: How ragged batches are padded, if they are.
        between: Called between two batches.
    """

    experiment: Experiment
    hooks: Hooks
    programs: ProgramSet
    padding: Padding | None = None
    between: Callable[[], None] = lambda: None

    def evaluate(self, state: State, loader: Any, split: str) -> dict[str, Any]:
        """Loss and metrics over all batches of a loader.

        Returns:
            Floats by name, the loss as `<split>_loss`; a metric around an array
            gives a numpy array.
        """
        where = f"metrics, split `{split}`"
        losses, totals = Totals("loss"), Totals(where)
        host = self._host(state)
        iterator = open_epoch(loader, 0)
        index = 0
        try:
            while (batch := self._next(iterator, split)) is not None:
                loss, metrics, rows = self._batch(state, host, batch, split, index)
                losses.add({"loss": loss})
                totals.add(metrics, rows)
                index += 1
                self.between()
        finally:
            close_iterator(iterator)
        loss = {f"{split}_loss": losses.compute().get("loss", float("nan"))}
        computed = totals.compute()
        with hooks_explained("finalize_metrics"):
            final = self.hooks.call(
                host, "finalize_metrics", {**computed, **loss}, split
            )
        if not isinstance(final, Mapping):
            raise HookError(
                f"`finalize_metrics` returned {type(final).__name__}, not a dict",
                where=type(self.experiment).__name__,
                fix="return the dict of metrics",
            )
        named = totals.finished(final, where)
        for name in _COLUMNS & named.keys():
            raise MetricError(
                f"Metric `{name}` has the name of a column that each row has.",
                where=where,
                fix=f"name it otherwise, for example `{name}_metric`",
            )
        return {**loss, **named}

    def prepare(self, batch: Mapping[str, jax.ShapeDtypeStruct], split: str) -> None:
        """Make the programs for whole batches of these shapes; nothing is computed."""
        names = self.programs.eval_names("forward", batch, split)
        chosen = {name: batch[name] for name in names}
        rows = padded = 0
        if self.padding is not None:
            rows = batch_rows(chosen, split)
            padded = self.padding.rows(chosen, rows)
            chosen = with_rows(chosen, padded, rows)
        outputs = with_rows(self.programs.evaluation(chosen).out, rows, padded)
        if self._through_host(rows, padded):
            outputs = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), outputs
            )
        for hook, make in self._judges().items():
            names = self.programs.eval_names(hook, batch, split)
            make(outputs, {name: batch[name] for name in names})

    def predict(self, state: State, batch: Any) -> Any:
        """Outputs of one batch as numpy arrays."""
        names = self.programs.eval_names("forward", batch, "predict")
        arrays = batch_arrays(batch, "predict", names)
        outputs, rows, padded = self._forward(state, arrays, "predict", 0)
        return slice_outputs(jax.device_get(outputs), rows, padded, "predict, pad_eval")

    def predict_all(self, state: State, loader: Any) -> Any:
        """Outputs of all batches of a loader, joined on the first axis."""
        parts = [self.predict(state, batch) for batch in loader]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    def _next(self, iterator: Any, split: str) -> Any:
        with hooks_explained(f"the loader of `{split}`"):
            return next(iterator, None)

    def _batch(
        self, state: State, host: Experiment, batch: Any, split: str, index: int
    ) -> tuple[MetricValue, Mapping[str, Any], set[int]]:
        """The loss, the metrics, and how many samples they are of."""
        check_batch(batch, split)
        names = self.programs.compiled_eval_names(batch, split)
        arrays = private_arrays(batch, split, names)
        outputs, rows, padded = self._forward(state, arrays, split, index)
        if self._through_host(rows, padded):
            outputs = jax.device_get(outputs)
        real = slice_outputs(outputs, rows, padded, f"eval, split `{split}`")
        made = self._judged(state, real, arrays, split, index)
        given = [*arrays.values(), *jax.tree.leaves(real)]
        loss = made["loss"]
        if not isinstance(loss, MetricValue):
            samples = rows or _samples(given)
            loss = Mean(np.asarray(loss, np.float64) * samples, samples)
        metrics = made.get("metrics", {})
        if self._metrics_on_host:
            metrics = self._metrics(host, real, {**batch, **arrays}, split)
        lengths = {np.shape(array)[0] for array in given if np.ndim(array)}
        return loss, metrics, {rows} if rows else lengths

    @property
    def _metrics_on_host(self) -> bool:
        return self.hooks.defines("metrics") and not on_device(self.programs.blueprint)

    def _through_host(self, rows: int, padded: int) -> bool:
        """Whether outputs come to the host before they are judged."""
        return self._metrics_on_host or rows != padded

    def _host(self, state: State) -> Experiment:
        """The `self` of hooks that run on the host."""
        return live_self(self.experiment, self.programs.blueprint.fields, state.fields)

    def _judges(self) -> dict[str, Callable[..., EvalStep]]:
        """What makes the programs that take outputs, by hook."""
        judges = {"loss": self.programs.value}
        if on_device(self.programs.blueprint):
            judges["metrics"] = self.programs.metrics
        return judges

    def _forward(
        self, state: State, arrays: Mapping[str, Any], split: str, index: int
    ) -> tuple[Any, int, int]:
        """Outputs on the device, with the rows that are real and those there are."""
        names = self.programs.eval_names("forward", arrays, split)
        chosen: Any = {name: arrays[name] for name in names}
        rows = padded = 0
        if self.padding is not None:
            padded = self.padding.rows(chosen, batch_rows(chosen, split))
            chosen, rows = pad_batch(chosen, padded, split)
        placed = _place(chosen, state.device)
        step = self.programs.evaluation(placed)
        clock = self._clock(state, split, index)
        leaves = step(
            (*placed.values(), *clock, *state.fields, *state.params, *state.state)
        )
        return jax.tree.unflatten(jax.tree.structure(step.out), leaves), rows, padded

    def _judged(
        self,
        state: State,
        outputs: Any,
        arrays: Mapping[str, Any],
        split: str,
        index: int,
    ) -> dict[str, Any]:
        """What compiled code makes of the outputs of the real rows, by hook."""
        judges = self._judges()
        names = {hook: self.programs.eval_names(hook, arrays, split) for hook in judges}
        wanted = {name for each in names.values() for name in each}
        placed = _place({name: arrays[name] for name in wanted}, state.device)
        leaves = jax.device_put(jax.tree.leaves(outputs), state.device)
        given = jax.tree.unflatten(jax.tree.structure(outputs), leaves)
        clock = self._clock(state, split, index)
        found: dict[str, Any] = {}
        for hook, make in judges.items():
            fields = {name: placed[name] for name in names[hook]}
            step = make(given, fields)
            out = step((*fields.values(), *clock, *state.fields, *leaves))
            found[hook] = jax.tree.unflatten(jax.tree.structure(step.out), out)
        return found

    def _metrics(
        self, host: Experiment, outputs: Any, batch: Mapping[str, Any], split: str
    ) -> Mapping[str, Any]:
        names = self.programs.eval_names("metrics", batch, split)
        given = {name: np.asarray(batch[name]) for name in names}
        with hooks_explained(f"metrics, split `{split}`"):
            made = self.hooks.call(host, "metrics", outputs, **given)
        if not isinstance(made, Mapping):
            raise HookError(
                f"`metrics` returned {type(made).__name__}, not a dict",
                where=f"{type(self.experiment).__name__}.metrics, split `{split}`",
                fix='return {"acc": nitro.Mean(right.sum(), len(right))}',
            )
        return made

    @staticmethod
    def _clock(state: State, split: str, index: int) -> Arrays:
        return (np.uint32(index), state.key, np.uint32(zlib.crc32(split.encode())))


def _samples(arrays: Sequence[Any]) -> int:
    """The rows of a batch that is not padded: the length that most arrays have."""
    lengths = Counter(np.shape(array)[0] for array in arrays if np.ndim(array))
    return max(lengths, key=lengths.__getitem__, default=1)


def _place(arrays: Mapping[str, Any], device: Any) -> dict[str, Any]:
    names = sorted(arrays)
    return dict(
        zip(
            names, jax.device_put([arrays[name] for name in names], device), strict=True
        )
    )
