"""Curves on their way to a front end: what they are, and their numbers as buffers.

Sent as float64, so that nothing is lost on the way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._run.curves import Series, label
from .._run.words import words


def packed(curves: Iterable[Series]) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Series that point into buffers; curves with the same steps share theirs."""
    series: list[dict[str, Any]] = []
    buffers: list[bytes] = []
    steps: dict[int, tuple[int, np.ndarray]] = {}

    def put(array: np.ndarray) -> int:
        buffers.append(np.ascontiguousarray(array, "<f8").tobytes())
        return len(buffers) - 1

    for split, name, x, y in curves:
        if id(x) not in steps:
            steps[id(x)] = (put(x), x)
        series.append(
            {
                "split": words(split, 60),
                "name": words(name, 120),
                "label": words(label(split, name), 180),
                "x": steps[id(x)][0],
                "y": put(y),
            }
        )
    return series, buffers
