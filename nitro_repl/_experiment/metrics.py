"""Metrics: what a hook reports for each batch, read, checked and added up.

A result depends on the samples alone, never on how they were cut into batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import MetricError
from .metric_values import Mean as Mean, MetricValue as MetricValue, Sum as Sum

_PAIR = (
    "return `nitro.Mean(total, count)`: a sum over samples and how many they are,\n"
    "or `nitro.Sum(x)` to add the batches up"
)


def as_metric(name: str, value: Any, where: str = "") -> MetricValue:
    """Read what a hook reports under one name; safe on tracers.

    Args:
        name: The metric's name, for the error.
        value: A metric value, a pair `(total, count)` or a pair `(x, None)`.
        where: The hook and split, for the error.

    Returns:
        The metric value: a pair `(total, count)` is a Mean, `(x, None)` a Sum.

    Raises:
        MetricError: The value says not how to add up over batches, or is not
            made of numbers.
    """
    if type(value) is tuple and len(value) == 2:
        total, count = value
        value = Sum(total) if count is None else Mean(total, count)
    if not isinstance(value, MetricValue):
        what = f"Metric `{name}` is {_describe(value)}, which does not say how batches"
        raise MetricError(f"{what} combine.", where=where, fix=_PAIR)
    _check_numbers(name, value, where)
    if isinstance(value, Mean):
        _check_count(name, value, where)
    return value


def as_metrics(values: Any, where: str = "") -> dict[str, Any]:
    """Read all that a hook reports: a dict of metric values, nested or flat.

    Raises:
        MetricError: It is not a dict with string keys, or a value is refused.
    """
    pairs = _walk(values, (), where)
    return _nest({path: as_metric("/".join(path), v, where) for path, v in pairs})


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Join the keys of nested dicts with "/", as loggers and columns want them."""
    return {"/".join(path): value for path, value in _walk(values, (), "")}


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
        self._held: dict[tuple[str, ...], MetricValue] = {}

    def add(self, values: Mapping[str, Any]) -> None:
        """Add one batch's metric values: a dict, nested or flat.

        A metric may be absent from some batches.

        Raises:
            MetricError: A value is refused, or a metric is not of the kind,
                structure or shape that it had in earlier batches.
        """
        named = {
            path: as_metric("/".join(path), value, self._where)
            for path, value in _walk(values, (), self._where)
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
        return _nest({path: value.compute() for path, value in self._held.items()})

    def _merged(self, path: tuple[str, ...], value: MetricValue) -> MetricValue:
        held = self._held.get(path)
        if held is None:
            return value.host()
        try:
            return held.merge(value)
        except MetricError as error:
            what = f"Metric `{'/'.join(path)}` changes between batches: {error.what}"
            raise MetricError(what, where=self._where, fix=error.fix) from None

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


def _walk(
    values: Any, path: tuple[str, ...], where: str
) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not isinstance(values, Mapping):
        raise MetricError(
            f"Metrics are {_describe(values)}, not a dict.",
            where=where,
            fix='return a dict, as in {"acc": nitro.Mean(correct, len(label))}',
        )
    for key, value in values.items():
        if not isinstance(key, str):
            what = f"Metric name {key!r} is {_describe(key)}, not a string."
            raise MetricError(what, where=where, fix=f'name it "{key}"')
        if isinstance(value, Mapping):
            yield from _walk(value, (*path, key), where)
        else:
            yield (*path, key), value


def _nest(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in values.items():
        place = nested
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    return nested


def _check_numbers(name: str, value: MetricValue, where: str) -> None:
    for leaf in jax.tree.leaves(value):
        dtype = getattr(leaf, "dtype", None)
        if dtype is None:
            good = isinstance(leaf, bool | int | float)
        else:
            good = any(
                jnp.issubdtype(dtype, kind)
                for kind in (np.floating, np.integer, np.bool_)
            )
        if not good:
            raise MetricError(
                f"Metric `{name}` holds {_describe(leaf)}; a "
                f"{type(value).__name__} is made of real numbers.",
                where=where,
                fix="give it numbers or arrays of numbers",
            )


def _check_count(name: str, value: Mean, where: str) -> None:
    if jax.tree_util.all_leaves([value.count]):
        return
    if jax.tree.structure(value.count) != jax.tree.structure(value.total):
        raise MetricError(
            f"Metric `{name}`: the count of its Mean is built unlike the total.",
            where=where,
            fix="give one count for all, or a count for each leaf of the total",
        )


def _describe(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if value.shape == ():
            return f"a bare scalar ({value.dtype})"
        return f"a bare array of shape {tuple(value.shape)} ({value.dtype})"
    if isinstance(value, bool | int | float):
        return f"a bare scalar ({value!r})"
    return "None" if value is None else f"a value of type `{type(value).__name__}`"
