"""Evaluation and prediction: one eval program, padded ragged batches, numpy out.

Metrics never see padding, and a number is a mean over samples, never over batches.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from .._experiment.base import Experiment
from .._experiment.hooks import Hooks
from .._experiment.metrics import Mean, MetricValue
from .._experiment.totals import Totals
from .._programs.explain import hooks_explained
from .._programs.metrics import on_device
from .._programs.program_set import ProgramSet
from .._programs.rows import with_rows
from .._programs.step import EvalStep
from ..errors import HookError
from .batches import (
    batch_arrays,
    batch_rows,
    check_batch,
    pad_batch,
    private_arrays,
    slice_outputs,
)
from .columns import COLUMNS, check_free
from .feed import close_iterator, open_epoch
from .live_self import live_self
from .padding import Padding, majority

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


@dataclass(frozen=True)
class At:
    """Which batch of which split: what randomness in evaluation is a function of."""

    split: str
    index: int


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

    @classmethod
    def of(cls, programs: ProgramSet, padding: Padding | None) -> Evaluation:
        """The evaluation of what programs were made from."""
        plan = programs.blueprint
        return cls(plan.experiment, plan.hooks, programs, padding)

    def evaluate(self, state: State, loader: Any, split: str) -> dict[str, Any]:
        """Loss and metrics over all batches of a loader.

        Returns:
            Floats by name, the loss as `<split>_loss`; a metric around an array
            gives a numpy array.
        """
        where = f"metrics, split `{split}`"
        losses, totals = Totals("loss"), Totals(where)
        host = self.host(state)
        with hooks_explained(f"the loader of `{split}`"):
            iterator = open_epoch(loader, 0)
        index = 0
        try:
            while (batch := self.next_batch(iterator, split)) is not None:
                loss, metrics, rows = self._batch(state, host, batch, At(split, index))
                losses.add({} if loss is None else {"loss": loss})
                totals.add(metrics, rows)
                index += 1
                self.between()
        finally:
            close_iterator(iterator)
        told: dict[str, Any] = {}
        if self.hooks.defines("loss"):
            told[f"{split}_loss"] = losses.compute().get("loss", float("nan"))
        computed = totals.compute()
        check_free(computed, told, where)
        with hooks_explained("finalize_metrics"):
            final = self.hooks.call(
                host, "finalize_metrics", {**computed, **told}, split
            )
        if not isinstance(final, Mapping):
            raise HookError(
                f"`finalize_metrics` returned {type(final).__name__}, not a dict",
                where=f"{type(self.experiment).__name__}.finalize_metrics",
                fix="return the dict of metrics",
            )
        named = totals.finished(final, where)
        check_free(named, COLUMNS, where)
        return {**told, **named}

    def prepare(
        self, batch: Mapping[str, jax.ShapeDtypeStruct], split: str, last: int | None
    ) -> None:
        """Make the programs for the batches of a split; nothing is computed.

        Args:
            batch: Avals of a whole batch.
            split: Name of the split.
            last: Rows of its last batch, where they are known.
        """
        whole = majority([*batch.values()])
        for rows in dict.fromkeys((whole, last or whole)):
            self._prepare_width(with_rows(batch, rows, whole), split)

    def _prepare_width(self, batch: Mapping[str, Any], split: str) -> None:
        names = self.programs.batch_fields.eval("forward", batch, split)
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
            names = self.programs.batch_fields.eval(hook, batch, split)
            make(outputs, {name: batch[name] for name in names})

    def predict(self, state: State, batch: Any) -> Any:
        """Outputs of one batch as numpy arrays."""
        names = self.programs.batch_fields.eval("forward", batch, "predict")
        arrays = batch_arrays(batch, "predict", names)
        outputs, rows, padded = self._forward(state, arrays, At("predict", 0))
        return slice_outputs(jax.device_get(outputs), rows, padded, "predict, pad_eval")

    def predict_all(self, state: State, loader: Any) -> Any:
        """Outputs of all batches of a loader, joined on the first axis."""
        parts = [self.predict(state, batch) for batch in loader]
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    def next_batch(self, iterator: Any, split: str) -> Any:
        """The next batch of a loader, None after the last."""
        with hooks_explained(f"the loader of `{split}`"):
            return next(iterator, None)

    def _batch(
        self, state: State, host: Experiment, batch: Any, at: At
    ) -> tuple[MetricValue | None, Mapping[str, Any], set[int]]:
        """The loss, the metrics, and how many samples they are of."""
        split = at.split
        check_batch(batch, split)
        names = self.programs.batch_fields.compiled(split, batch)
        arrays = private_arrays(batch, split, names)
        real, rows = self.outputs(state, arrays, at)
        made = self.judged(state, real, arrays, at)
        given = [*arrays.values(), *jax.tree.leaves(real)]
        loss = made.get("loss")
        if not isinstance(loss, MetricValue | None):
            samples = rows or majority(given)
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

    def host(self, state: State) -> Experiment:
        """The `self` of hooks that run on the host."""
        return live_self(self.experiment, self.programs.blueprint.fields, state.fields)

    def outputs(self, state: State, arrays: Mapping[str, Any], at: At) -> Any:
        """Outputs of the real rows, on the device or the host, and how many rows.

        Without padding the number is 0: it is not known which axis is of samples.
        """
        outputs, rows, padded = self._forward(state, arrays, at)
        if self._through_host(rows, padded):
            outputs = jax.device_get(outputs)
        return slice_outputs(outputs, rows, padded, f"eval, split `{at.split}`"), rows

    def judged(
        self,
        state: State,
        outputs: Any,
        arrays: Mapping[str, Any],
        at: At,
        hooks: Iterable[str] = (),
    ) -> dict[str, Any]:
        """What compiled code makes of the outputs of real rows, by hook.

        Args:
            state: One boundary's numbers.
            outputs: Of `forward`, on the device or the host.
            arrays: Fields of the batch.
            at: Which batch it is.
            hooks: "loss" and "metrics", as far as they are compiled; all if not given.
        """
        judges = self._judges()
        judges = {hook: judges[hook] for hook in hooks or judges}
        fields = {
            hook: self.programs.batch_fields.eval(hook, arrays, at.split)
            for hook in judges
        }
        wanted = {name for names in fields.values() for name in names}
        placed = _place({name: arrays[name] for name in wanted}, state.device)
        leaves = jax.device_put(jax.tree.leaves(outputs), state.device)
        given = jax.tree.unflatten(jax.tree.structure(outputs), leaves)
        found: dict[str, Any] = {}
        for hook, make in judges.items():
            batch = {name: placed[name] for name in fields[hook]}
            step = make(given, batch)
            out = step((*batch.values(), *_clock(state, at), *state.fields, *leaves))
            found[hook] = jax.tree.unflatten(jax.tree.structure(step.out), out)
        return found

    def _judges(self) -> dict[str, Callable[..., EvalStep]]:
        """What makes the programs that take outputs, by hook."""
        judges: dict[str, Callable[..., EvalStep]] = {}
        if self.hooks.defines("loss"):
            judges["loss"] = self.programs.value
        if on_device(self.programs.blueprint):
            judges["metrics"] = self.programs.metrics
        return judges

    def _forward(
        self, state: State, arrays: Mapping[str, Any], at: At
    ) -> tuple[Any, int, int]:
        """Outputs on the device, with the rows that are real and those there are."""
        split = at.split
        names = self.programs.batch_fields.eval("forward", arrays, split)
        chosen: Any = {name: arrays[name] for name in names}
        rows = padded = 0
        if self.padding is not None:
            padded = self.padding.rows(chosen, batch_rows(chosen, split))
            chosen, rows = pad_batch(chosen, padded, split)
        placed = _place(chosen, state.device)
        step = self.programs.evaluation(placed)
        inputs = (*state.fields, *state.params, *state.state)
        leaves = step((*placed.values(), *_clock(state, at), *inputs))
        return jax.tree.unflatten(jax.tree.structure(step.out), leaves), rows, padded

    def _metrics(
        self, host: Experiment, outputs: Any, batch: Mapping[str, Any], split: str
    ) -> Mapping[str, Any]:
        names = self.programs.batch_fields.eval("metrics", batch, split)
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


def _clock(state: State, at: At) -> Arrays:
    split = np.uint32(zlib.crc32(at.split.encode()))
    return (np.uint32(at.index), state.key, split)


def _place(arrays: Mapping[str, Any], device: Any) -> dict[str, Any]:
    names = sorted(arrays)
    return dict(
        zip(
            names, jax.device_put([arrays[name] for name in names], device), strict=True
        )
    )
