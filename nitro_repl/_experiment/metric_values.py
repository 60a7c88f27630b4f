"""The kinds of metric value: how the batches of a pass add up.

Values are summed in float64 on the host and divided once, at the end.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import jax
import numpy as np

from ..errors import MetricError

Tree: TypeAlias = Any
"""An array, or a pytree of arrays."""


class MetricValue:
    """One batch's share of a metric, around an array or a pytree of arrays.

    Subclasses are frozen dataclasses registered as pytrees, so a traced hook may
    return them. `merge` and `compute` work on the host.
    """

    def host(self) -> MetricValue:
        """The same value with its own float64 numpy arrays."""
        raise NotImplementedError

    def merge(self, other: MetricValue) -> MetricValue:
        """The value of both batches together.

        Raises:
            MetricError: The other is of another kind, structure or shape.
        """
        raise NotImplementedError

    def compute(self) -> Any:
        """The result: a float for each 0-d array, a numpy array for the others."""
        raise NotImplementedError


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

    def host(self) -> Mean:
        """See `MetricValue`."""
        return Mean(_float64(self.total), _float64(self.count))

    def merge(self, other: MetricValue) -> Mean:
        """Add both up."""
        _check_alike(self, other)
        assert isinstance(other, Mean)
        return Mean(_add(self.total, other.total), _add(self.count, other.count))

    def compute(self) -> Any:
        """Divide; over no sample the mean is nan."""
        total, count = _float64(self.total), _float64(self.count)
        if _is_leaf(count):
            return jax.tree.map(lambda t: _result(_divide(t, count)), total)
        return jax.tree.map(lambda t, c: _result(_divide(t, c)), total, count)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Sum(MetricValue):
    """A sum over samples: counts, confusion matrices, histograms.

    Args:
        x: Sum over the samples of the batch; an array or a pytree of arrays.

    Example:
        >>> Sum(3).merge(Sum(4)).compute()
        7.0
    """

    x: Tree

    def host(self) -> Sum:
        """See `MetricValue`."""
        return Sum(_float64(self.x))

    def merge(self, other: MetricValue) -> Sum:
        """Add both up."""
        _check_alike(self, other)
        assert isinstance(other, Sum)
        return Sum(_add(self.x, other.x))

    def compute(self) -> Any:
        """The sum itself."""
        return jax.tree.map(_result, _float64(self.x))


def _check_alike(held: MetricValue, other: MetricValue) -> None:
    kind, other_kind = type(held).__name__, type(other).__name__
    if type(held) is not type(other):
        fix = "report the same kind of metric value for every batch"
        raise MetricError(f"{kind}, then {other_kind}.", fix=fix)
    if jax.tree.structure(held) != jax.tree.structure(other):
        fix = "report the same dict keys or nesting for every batch"
        raise MetricError(f"a {kind} around another structure.", fix=fix)
    leaves, others = jax.tree.leaves(held), jax.tree.leaves(other)
    for leaf, another in zip(leaves, others, strict=True):
        if np.shape(leaf) != np.shape(another):
            raise MetricError(
                f"shape {np.shape(leaf)}, then {np.shape(another)}.",
                fix="reduce over the samples first, so that the batch size is gone",
            )


def _is_leaf(tree: Tree) -> bool:
    return jax.tree_util.all_leaves([tree])


def _float64(tree: Tree) -> Tree:
    # A copy, since a hook may reuse the array that it returned.
    return jax.tree.map(lambda leaf: np.array(leaf, np.float64), tree)


def _add(mine: Tree, theirs: Tree) -> Tree:
    return jax.tree.map(
        lambda a, b: np.asarray(a, np.float64) + np.asarray(b, np.float64), mine, theirs
    )


def _divide(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(count == 0, np.nan, total / count)


def _result(leaf: np.ndarray) -> Any:
    return float(leaf) if np.ndim(leaf) == 0 else np.asarray(leaf)
