"""When two values of a field are the same; never raises, whatever they hold."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import jax
import numpy as np


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays by all that they hold."""
    if one is other:
        return True
    if _is_array(one) or _is_array(other):
        return _is_array(one) and _is_array(other) and _same_arrays(one, other)
    if type(one) is type(other) and isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    try:
        return bool(one == other)
    except Exception:  # a class of the user's may do anything
        return False


def hashed(value: Any) -> Hashable:
    """The same for values that are the same; None for what has no hash."""
    try:
        return hash(value)
    except Exception:  # arrays, lists, dicts
        return None


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | jax.Array)


def _same_arrays(one: Any, other: Any) -> bool:
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    if jax.dtypes.issubdtype(one.dtype, jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    return np.array_equal(np.asarray(one), np.asarray(other))
