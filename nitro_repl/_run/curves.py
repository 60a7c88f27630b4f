"""The curves of a run for whoever draws them: all of them, or what is new.

What is drawn is what the history has, unless it was thinned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .points import AXIS, LIMIT, Points

Series = tuple[str, str, np.ndarray, np.ndarray]
"""Split, name, steps and values of one curve."""


class Curves:
    """Reads the history of one run.

    Args:
        history: Has `splits()`, `count(split)` and `columns(split, since)`.
        limit: Most points a curve, a multiple of four.
    """

    def __init__(self, history: Any, limit: int = LIMIT):
        self._history = history
        self._limit = limit
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
                self._splits.setdefault(split, Points(self._limit)).append(columns)
                self._new[split] = columns
        return kept

    def results(self) -> dict[str, dict[str, float]]:
        """The last of the new rows of each split that is evaluated."""
        return {
            split: {name: float(column[-1]) for name, column in columns.items()}
            for split, columns in self._new.items()
            if split != "train"
        }

    def new(self) -> list[Series]:
        """The rows taken in last; curves with the same steps share them."""
        return [
            (split, name, columns["step"], column)
            for split, columns in self._new.items()
            for name, column in columns.items()
            if name not in AXIS
        ]

    def all(self) -> list[Series]:
        """All that is kept; curves with the same steps may share them."""
        return [
            (split, name, x, y)
            for split, points in self._splits.items()
            for name, (x, y) in points.curves().items()
        ]

    def labelled(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Steps and values by label, the losses first."""
        curves = {label(split, name): (x, y) for split, name, x, y in self.all()}
        return {name: curves[name] for name in losses_first(curves)}

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


def is_loss(name: str) -> bool:
    """Whether a column is a loss, and so is better when it is lower."""
    return name == "loss" or name.endswith("_loss")


def losses_first(names: Iterable[str]) -> list[str]:
    """The same names in another order."""
    return sorted(names, key=lambda name: not is_loss(name))
