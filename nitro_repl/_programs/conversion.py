"""Numpy arrays of 64 bits enter a trace with the numbers that they hold now.

JAX converts such an array to 32 bits once, and gives the same conversion again for as
long as a jaxpr holds it: what was changed in place meanwhile would be traced as it was.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from jax._src import dtypes
from jax._src.literals import TypedNdArray


@contextlib.contextmanager
def converted_anew() -> Iterator[None]:
    """Have this thread convert each array once in the body, whatever JAX remembers."""
    usual: Any = dtypes.canonicalize_value
    here = threading.get_ident()
    made: dict[int, tuple[Any, Any]] = {}  # with the array, so that no other has its id

    def convert(value: Any) -> Any:
        if not isinstance(value, np.ndarray) or threading.get_ident() != here:
            return usual(value)
        if isinstance(value, TypedNdArray | np.ma.MaskedArray):
            return usual(value)
        dtype = dtypes.canonicalize_dtype(value.dtype)
        if dtype == value.dtype:
            return usual(value)  # a view, which holds what the array holds
        if id(value) not in made:
            made[id(value)] = (value, usual(np.array(value, dtype)))
        return made[id(value)][1]

    dtypes.canonicalize_value = convert
    try:
        yield
    finally:
        dtypes.canonicalize_value = usual
