"""The kinds of metric value: how the batches of a pass add up.

Numbers are added up in float64 on the host and divided once, at the end; the samples
of a Concat keep their order and dtype.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import jax
import numpy as np

from ..errors import MetricError

Tree: TypeAlias = Any
"""An array, or a pytree of arrays."""


class MetricValue:
    """One batch's share of a metric, around an array or a pytree of arrays.

    Subclasses are frozen dataclasses registered as pytrees, so a traced hook may
    return them. All methods work on the host.

    Attributes:
        piles_up: Whether it grows with the samples, so that batches are best merged
            all at once.
    """

    piles_up: ClassVar[bool] = False

    def host(self) -> Self:
        """The same value with its own numpy arrays."""
        raise NotImplementedError

    def merge(self, *others: MetricValue) -> Self:
        """The value of all batches together, in this order.

        Raises:
            MetricError: One is of another kind, structure or shape.
        """
        raise NotImplementedError

    def compute(self) -> Any:
        """The result: a float for each 0-d array, a numpy array for the others."""
        raise NotImplementedError

    def check(self, other: MetricValue) -> None:
        """Refuse a value of another kind, structure or shape."""
        kind, other_kind = type(self).__name__, type(other).__name__
        if type(self) is not type(other):
            fix = "report the same kind of metric value for every batch"
            raise MetricError(f"{kind}, then {other_kind}.", fix=fix)
        if jax.tree.structure(self) != jax.tree.structure(other):
            fix = "report the same dict keys or nesting for every batch"
            raise MetricError(f"a {kind} around another structure.", fix=fix)
        leaves, others = jax.tree.leaves(self), jax.tree.leaves(other)
        for leaf, another in zip(leaves, others, strict=True):
            self._check_shape(np.shape(leaf), np.shape(another))

    def _check_shape(self, held: tuple[int, ...], other: tuple[int, ...]) -> None:
        if held != other:
            raise MetricError(
                f"shape {held}, then {other}.",
                fix="reduce over the samples first, so that the batch size is gone",
            )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Mean(MetricValue):
    """A mean over samples, exact whatever the batch sizes.

    Args:
        total: Sum over the samples of the batch; an array or a pytree of arrays.
        count: Number of samples, or the sum of their weights: one for all of
            `total`, or a pytree like it.

    Example:
        >>> first, second = Mean(20.0, 2), Mean(9.0, 1)
        >>> round(first.merge(second).compute(), 3)
        9.667
    """

    total: Tree
    count: Tree

    def host(self) -> Self:
        """See `MetricValue`."""
        return type(self)(_float64(self.total), _float64(self.count))

    def merge(self, *others: MetricValue) -> Self:
        """Add all up."""
        return _folded(np.add, self, others)

    def compute(self) -> Any:
        """Divide; over no sample the mean is nan."""
        total, count = _float64(self.total), _float64(self.count)
        if _is_leaf(count):
            return jax.tree.map(lambda t: _result(_divide(t, count)), total)
        return jax.tree.map(lambda t, c: _result(_divide(t, c)), total, count)


class _Folded(MetricValue):
    """A value whose batches are folded into one by a numpy function of two arrays."""

    x: Tree
    _fold: ClassVar[Any] = None

    def __init__(self, x: Tree): ...

    def host(self) -> Self:
        """See `MetricValue`."""
        return type(self)(_float64(self.x))

    def merge(self, *others: MetricValue) -> Self:
        """Fold all into one."""
        return _folded(self._fold, self, others)

    def compute(self) -> Any:
        """The value itself."""
        return jax.tree.map(_result, _float64(self.x))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Sum(_Folded):
    """A sum over samples: counts, confusion matrices, histograms.

    Args:
        x: Sum over the samples of the batch; an array or a pytree of arrays.

    Example:
        >>> Sum(3).merge(Sum(4)).compute()
        7.0
    """

    x: Tree
    _fold = np.add


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Max(_Folded):
    """The largest value over all samples, elementwise; nan if one of them is.

    Args:
        x: Largest over the samples of the batch; an array or a pytree of arrays.

    Example:
        >>> Max(3).merge(Max(4), Max(1)).compute()
        4.0
    """

    x: Tree
    _fold = np.maximum


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Min(_Folded):
    """The smallest value over all samples, elementwise; nan if one of them is.

    Args:
        x: Smallest over the samples of the batch; an array or a pytree of arrays.

    Example:
        >>> Min(3).merge(Min(4), Min(1)).compute()
        1.0
    """

    x: Tree
    _fold = np.minimum


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Concat(MetricValue):
    """All samples in order, without padding: for AUROC, R^2 and what else needs all.

    `finalize_metrics` reduces it: it gets the joined arrays, each with its own dtype.

    Args:
        x: One row for each sample of the batch, the samples on the first axis; an
            array or a pytree of arrays.

    Example:
        >>> first, second = Concat(np.array([1, 2])), Concat(np.array([3]))
        >>> first.merge(second).compute()
        array([1, 2, 3])
    """

    x: Tree
    piles_up: ClassVar[bool] = True

    def host(self) -> Self:
        """See `MetricValue`."""
        return type(self)(jax.tree.map(_own, self.x))

    def merge(self, *others: MetricValue) -> Self:
        """Join all on the first axis."""
        for other in others:
            self.check(other)
        trees = [value.x for value in (self, *others) if isinstance(value, Concat)]
        return type(self)(jax.tree.map(lambda *parts: np.concatenate(parts), *trees))

    def compute(self) -> Any:
        """The joined arrays."""
        return self.x

    def _check_shape(self, held: tuple[int, ...], other: tuple[int, ...]) -> None:
        if held[1:] != other[1:]:
            raise MetricError(
                f"a row of shape {held[1:]} for each sample, then {other[1:]}.",
                fix="give the rows of all samples one shape, padded if need be",
            )


Value = TypeVar("Value", bound=MetricValue)


def _folded(fold: Any, first: Value, others: Sequence[MetricValue]) -> Value:
    merged: Any = first.host()
    for other in others:
        first.check(other)
        merged = jax.tree.map(
            lambda a, b: fold(a, np.asarray(b, np.float64)), merged, other
        )
    return merged


def _is_leaf(tree: Tree) -> bool:
    return jax.tree_util.all_leaves([tree])


def _float64(tree: Tree) -> Tree:
    # A copy, since a hook may reuse the array that it returned.
    return jax.tree.map(lambda leaf: np.array(leaf, np.float64), tree)


def _own(leaf: Any) -> np.ndarray:
    """A copy, in a dtype that numpy itself knows."""
    array = np.array(leaf)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _divide(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(count == 0, np.nan, total / count)


def _result(leaf: np.ndarray) -> Any:
    return float(leaf) if np.ndim(leaf) == 0 else np.asarray(leaf)
