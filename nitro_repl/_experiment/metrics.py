"""Metrics: what a hook reports for each batch, read, checked and added up.

A result depends on the samples alone, never on how they were cut into batches.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import MetricError
from .metric_values import (
    Concat as Concat,
    Max as Max,
    Mean as Mean,
    MetricValue as MetricValue,
    Min as Min,
    Sum as Sum,
)

_PAIR = (
    "return `nitro.Mean(total, count)`: a sum over samples and how many they are,\n"
    "or `nitro.Sum(x)` to add the batches up"
)


def as_metric(
    name: str, value: Any, where: str = "", rows: Collection[int] = ()
) -> MetricValue:
    """Read what a hook reports under one name; safe on tracers.

    Args:
        name: The metric's name, for the error.
        value: A metric value, a pair `(total, count)` or a pair `(x, None)`.
        where: The hook and split, for the error.
        rows: How many samples the batch has, if that is known; more than one number
            where the arrays of a batch differ in length.

    Returns:
        The metric value: a pair `(total, count)` is a Mean, `(x, None)` a Sum.

    Raises:
        MetricError: The value says not how to add up over batches, is not made of
            numbers, or is a Concat of something else than one row for each sample.
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
    if isinstance(value, Concat):
        _check_samples(name, value, where, rows)
    return value


def as_metrics(
    values: Any, where: str = "", rows: Collection[int] = ()
) -> dict[str, Any]:
    """Read all that a hook reports: a dict of metric values, nested or flat.

    Raises:
        MetricError: It is not a dict with string keys, or a value is refused.
    """
    pairs = _walk(values, (), where)
    return _nest({path: as_metric("/".join(path), v, where, rows) for path, v in pairs})


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Join the keys of nested dicts with "/", as loggers and columns want them."""
    return {"/".join(path): value for path, value in _walk(values, (), "")}


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The results of one batch's metric values and scalars, flat.

    Args:
        values: A dict, nested or flat, of metric values around 0-d arrays, and of 0-d
            arrays.
    """
    found: dict[str, float] = {}
    for name, value in flat(values).items():
        result = value.host().compute() if isinstance(value, MetricValue) else value
        for path, leaf in jax.tree_util.tree_leaves_with_path(result):
            inner = jax.tree_util.keystr(path, simple=True, separator="/")
            found[f"{name}/{inner}" if inner else name] = float(np.asarray(leaf))
    return found


def together(batches: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What several micro-batches reported, as of one: values added up, scalars' mean.

    Args:
        batches: Dicts of one structure, of metric values and 0-d arrays.
    """
    if len(batches) == 1:
        return batches[0]

    def merged(*values: Any) -> Any:
        if not isinstance(values[0], MetricValue):
            return np.mean([np.asarray(value, np.float64) for value in values], axis=0)
        return functools.reduce(lambda a, b: a.merge(b), [v.host() for v in values])

    return jax.tree.map(
        merged, *batches, is_leaf=lambda value: isinstance(value, MetricValue)
    )


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
        self._settle()
        return _nest({path: value.compute() for path, (value,) in self._held.items()})

    def finished(self, final: Mapping[str, Any], where: str) -> dict[str, Any]:
        """What was made of `compute()`, flat; numbers of numpy and jax as Python's.

        Raises:
            MetricError: A Concat is still there as it was, or a metric value that
                nobody reduces.
        """
        named = flat(final)
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


def _check_samples(name: str, value: Concat, where: str, rows: Collection[int]) -> None:
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(value)]
    lengths = {shape[0] for shape in shapes if shape}
    if all(shapes) and len(lengths) == 1 and (not rows or lengths <= set(rows)):
        return
    got = ", ".join(map(str, shapes[:4])) if shapes else "no array"
    many = f" of the {next(iter(rows))} samples" if len(rows) == 1 else " sample"
    raise MetricError(
        f"Metric `{name}` is a Concat of {got}: not one row for each{many}.",
        where=where,
        fix="give it arrays with one row for each sample, unreduced, as in\n"
        'nitro.Concat({"score": scores, "label": label})',
    )


def _describe(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if value.shape == ():
            return f"a bare scalar ({value.dtype})"
        return f"a bare array of shape {tuple(value.shape)} ({value.dtype})"
    if isinstance(value, bool | int | float):
        return f"a bare scalar ({value!r})"
    return "None" if value is None else f"a value of type `{type(value).__name__}`"
