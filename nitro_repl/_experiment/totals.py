"""The metrics of a pass over a split, added up batch by batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import jax
import numpy as np

from ..errors import MetricError
from .metric_values import Concat, MetricValue
from .metrics import as_metric, flat, nest, walk


class Totals:
    """The metrics of a pass over a split, batch by batch.

    Example:
        >>> totals = Totals()
        >>> totals.add({"loss": (20.0, 2)})
        >>> totals.add({"loss": (9.0, 1)})
        >>> round(totals.compute()["loss"], 3)
        9.667
    """

    def __init__(self, where: str = ""):
        self._where = where
        self._held: dict[tuple[str, ...], list[MetricValue]] = {}

    def add(self, values: Mapping[str, Any], rows: Collection[int] = ()) -> None:
        """Add one batch's metric values: a dict, nested or flat.

        A metric may be absent from some batches.

        Args:
            values: The metric values by name.
            rows: How many samples the batch has, if that is known.

        Raises:
            MetricError: A value is refused, or a metric is not of the kind,
                structure or shape that it had in earlier batches.
        """
        named = {
            path: as_metric("/".join(path), value, self._where, rows)
            for path, value in walk(values, (), self._where)
        }
        for path in named:
            self._check_path(path)
        # One transfer for all metrics; a list, since a dict would come back sorted.
        fetched = jax.device_get(list(named.values()))
        self._held |= {
            path: self._merged(path, value)
            for path, value in zip(named, fetched, strict=True)
        }

    def compute(self) -> dict[str, Any]:
        """The results so far, nested as they were reported.

        Returns:
            A float for each 0-d value, a numpy array for the others; a Mean over
            no sample is nan.
        """
        self._settle()
        return nest({path: value.compute() for path, (value,) in self._held.items()})

    def finished(self, final: Mapping[str, Any], where: str) -> dict[str, Any]:
        """What was made of `compute()`, flat; numbers of numpy and jax as Python's.

        Raises:
            MetricError: A Concat is still there as it was, or a metric value that
                nobody reduces.
        """
        named = flat(final, where)
        samples = [
            leaf
            for (value, *_) in self._held.values()
            if isinstance(value, Concat)
            for leaf in jax.tree.leaves(value.x)
        ]
        for name, value in named.items():
            if isinstance(value, MetricValue):
                raise MetricError(
                    f"Metric `{name}` is a {type(value).__name__} still.",
                    where=where,
                    fix="report it from `metrics`; here return the number itself",
                )
            if any(_is_part(leaf, samples) for leaf in jax.tree.leaves(value)):
                raise MetricError(
                    f"Metric `{name}` is a Concat that nothing reduced to a number.",
                    where=where,
                    fix="reduce it in finalize_metrics(self, totals, split), as in\n"
                    'return {"auroc": roc_auc_score(totals["label"], totals["score"])}',
                )
        return {name: _number(value) for name, value in named.items()}

    def _settle(self) -> None:
        """Make one value of the batches that wait."""
        self._held = {
            path: values if len(values) == 1 else [values[0].merge(*values[1:])]
            for path, values in self._held.items()
        }

    def _merged(self, path: tuple[str, ...], value: MetricValue) -> list[MetricValue]:
        held = self._held.get(path)
        if held is None:
            return [value.host()]
        try:
            if not value.piles_up:
                return [held[0].merge(value)]
            held[0].check(value)
        except MetricError as error:
            what = f"Metric `{'/'.join(path)}` changes between batches: {error.what}"
            raise MetricError(what, where=self._where, fix=error.fix) from None
        return [*held, value.host()]

    def _check_path(self, path: tuple[str, ...]) -> None:
        if path in self._held:
            return
        for known in self._held:
            shorter = min(len(known), len(path))
            if known[:shorter] == path[:shorter]:
                name = "/".join(path[:shorter])
                raise MetricError(
                    f"Metric `{name}` changes between batches: a value in one, a dict "
                    "in another.",
                    where=self._where,
                    fix="report it in the same form for every batch",
                )


def _number(value: Any) -> Any:
    """A single number as Python's own; anything else as it is."""
    scalar = isinstance(value, np.generic | np.ndarray | jax.Array)
    return value.item() if scalar and np.ndim(value) == 0 else value


def _is_part(leaf: Any, samples: list[Any]) -> bool:
    return isinstance(leaf, np.ndarray) and any(
        np.may_share_memory(leaf, one) for one in samples
    )
