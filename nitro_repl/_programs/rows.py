"""Trees of avals whose first axis is the rows of a batch."""

from __future__ import annotations

from typing import Any

import jax


def differ_in_rows(one: Any, two: Any) -> bool:
    """Whether two trees of avals are alike but for the length of the first axis."""
    first, second = jax.tree.leaves(one), jax.tree.leaves(two)
    return jax.tree.structure(one) == jax.tree.structure(two) and all(
        a.shape[1:] == b.shape[1:] and a.ndim == b.ndim and a.dtype == b.dtype
        for a, b in zip(first, second, strict=True)
    )


def rows_of(tree: Any) -> int:
    """The length of the first axis of a tree of avals; 0 if it has none."""
    return next((leaf.shape[0] for leaf in jax.tree.leaves(tree) if leaf.shape), 0)


def with_rows(tree: Any, rows: int, padded: int) -> Any:
    """The tree of avals with `rows` where its leaves have `padded` rows."""

    def cut(leaf: Any) -> jax.ShapeDtypeStruct:
        shape = leaf.shape
        if shape and shape[0] == padded:
            shape = (rows, *shape[1:])
        weak = bool(getattr(leaf, "weak_type", False))
        return jax.ShapeDtypeStruct(shape, leaf.dtype, weak_type=weak)

    return jax.tree.map(cut, tree)


def as_weak_as(aval: Any, other: Any) -> jax.ShapeDtypeStruct:
    """An aval with the weak type of another."""
    weak = bool(getattr(other, "weak_type", False))
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=weak)
