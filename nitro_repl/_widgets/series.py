"""Curves on their way to a front end: what they are, and their numbers as buffers.

Sent as float64, so that nothing is lost on the way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._run.curves import Series, label
from .._run.words import words


class Packed:
    """Series that point into buffers; curves with the same steps share theirs.

    Attributes:
        series: What each curve is, with the places of its buffers.
        buffers: Steps and values.
    """

    def __init__(self) -> None:
        self.series: list[dict[str, Any]] = []
        self.buffers: list[bytes] = []
        # The array beside its place: while it is held, no other has its id.
        self._steps: dict[int, tuple[int, np.ndarray]] = {}

    def add(self, curves: Iterable[Series], **about: Any) -> Packed:
        """Add curves, with what else is to be said of each; gives itself."""
        for split, name, x, y in curves:
            if id(x) not in self._steps:
                self._steps[id(x)] = (self._put(x), x)
            self.series.append(
                {
                    "split": words(split, 60),
                    "name": words(name, 120),
                    "label": words(label(split, name), 180),
                    "x": self._steps[id(x)][0],
                    "y": self._put(y),
                    **about,
                }
            )
        return self

    def _put(self, array: np.ndarray) -> int:
        self.buffers.append(np.ascontiguousarray(array, "<f8").tobytes())
        return len(self.buffers) - 1
