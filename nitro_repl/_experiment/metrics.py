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
    pairs = walk(values, (), where)
    return nest({path: as_metric("/".join(path), v, where, rows) for path, v in pairs})


def flat(values: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Join the keys of nested dicts with "/", as loggers and columns want them.

    Raises:
        MetricError: Two of them are the same then, or one is no string.
    """
    found: dict[str, Any] = {}
    for path, value in walk(values, (), where):
        name = "/".join(path)
        if name in found:
            raise MetricError(
                f"Two metrics are called `{name}`.",
                where=where,
                fix="rename one: the keys of nested dicts are joined with /",
            )
        found[name] = value
    return found


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


def walk(
    values: Any, path: tuple[str, ...], where: str
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What a hook reports, each value with the keys that lead to it.

    Raises:
        MetricError: It is not a dict with string keys.
    """
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
            yield from walk(value, (*path, key), where)
        else:
            yield (*path, key), value


def nest(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Values by their keys, as nested dicts again."""
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
