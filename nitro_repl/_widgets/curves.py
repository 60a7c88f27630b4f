"""The curves of a run on their way to a front end: all of them, or what is new.

Sent as float64: what a front end has is what the history has, unless it was thinned.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .plain import words
from .points import AXIS, Points

Series = list[dict[str, Any]]


class Curves:
    """Reads the history of one run.

    Args:
        history: Has `splits()`, `count(split)` and `columns(split, since)`.
    """

    def __init__(self, history: Any):
        self._history = history
        self._splits: dict[str, Points] = {}
        self._read: dict[str, int] = {}
        self._new: dict[str, dict[str, np.ndarray]] = {}

    def read(self) -> bool:
        """Take in the new rows; false if earlier ones are gone, as after a rewind."""
        self._new = {}
        kept = True
        for split in self._history.splits():
            count, read = self._history.count(split), self._read.get(split, 0)
            if count < read:
                kept, read = False, 0
                del self._splits[split]
            if count > read:
                columns = self._history.columns(split, read)
                self._read[split] = read + len(columns["step"])
                self._splits.setdefault(split, Points()).append(columns)
                self._new[split] = columns
        return kept

    def results(self) -> dict[str, dict[str, float]]:
        """The last of the new rows of each split that is evaluated."""
        return {
            split: {name: float(column[-1]) for name, column in columns.items()}
            for split, columns in self._new.items()
            if split != "train"
        }

    def new(self) -> tuple[Series, list[bytes]]:
        """The rows taken in last, as series and buffers."""
        packed = _Packed()
        for split, columns in self._new.items():
            for name, column in columns.items():
                if name not in AXIS:
                    packed.add(split, name, columns["step"], column)
        return packed.series, packed.buffers

    def all(self) -> tuple[Series, list[bytes]]:
        """All that is kept, as series and buffers."""
        packed = _Packed()
        for split, points in self._splits.items():
            for name, (x, y) in points.curves().items():
                packed.add(split, name, x, y)
        return packed.series, packed.buffers

    def drawn(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Steps and values of the losses, by label, for a static form."""
        return {
            label(split, name): curve
            for split, points in self._splits.items()
            for name, curve in points.curves().items()
            if name == "loss" or name.endswith("_loss")
        }

    def last(self) -> dict[str, float]:
        """The last value of each curve, by label."""
        return {
            label(split, name): float(value)
            for split in list(self._splits)
            for name, value in self._history.last(split).items()
            if name not in AXIS
        }


def label(split: str, name: str) -> str:
    """What a curve is called: the columns of evaluations with their split."""
    own = split == "train" or name.startswith(f"{split}_")
    return name if own else f"{split} {name}"


class _Packed:
    """Series that point into buffers; curves with the same steps share theirs."""

    def __init__(self) -> None:
        self.series: Series = []
        self.buffers: list[bytes] = []
        self._steps: dict[int, tuple[int, np.ndarray]] = {}

    def add(self, split: str, name: str, x: np.ndarray, y: np.ndarray) -> None:
        if id(x) not in self._steps:
            self._steps[id(x)] = (self._put(x), x)
        self.series.append(
            {
                "split": words(split, 60),
                "name": words(name, 120),
                "label": words(label(split, name), 180),
                "x": self._steps[id(x)][0],
                "y": self._put(y),
            }
        )

    def _put(self, array: np.ndarray) -> int:
        self.buffers.append(np.ascontiguousarray(array, "<f8").tobytes())
        return len(self.buffers) - 1
