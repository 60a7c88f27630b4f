"""How many rows the batches of an evaluation have, and are padded to.

A ragged batch is padded to rows that a program is made for, never so far that most of
its work is for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .loader import ArrayLoader

_MOST = 16  # times the real rows: after that a program of their own is better


class Padding:
    """How many rows a ragged batch is padded to, so that it needs no new program.

    Args:
        rows: Of a whole batch.
    """

    def __init__(self, rows: int):
        self._whole = rows
        self._met: dict[Any, set[int]] = {}

    def rows(self, batch: Mapping[str, Any], rows: int) -> int:
        """The fewest rows met before that are enough, within reason."""
        kind = tuple((n, a.shape[1:], a.dtype) for n, a in sorted(batch.items()))
        met = self._met.setdefault(kind, set())
        enough = [known for known in met if rows <= known <= _MOST * rows]
        padded = min(enough, default=max(rows, self._whole))
        met.add(padded)
        return padded


def majority(arrays: Sequence[Any]) -> int:
    """The rows of a batch that is not padded: the length that most arrays have."""
    lengths = Counter(np.shape(array)[0] for array in arrays if np.ndim(array))
    return max(lengths, key=lengths.__getitem__, default=1)


def last_rows(loader: Any) -> int | None:
    """Rows of the last batch of a loader, where that is known without reading it."""
    if isinstance(loader, ArrayLoader):
        return loader.last_rows
    if isinstance(loader, list | tuple) and isinstance(loader[-1], Mapping):
        return majority([*loader[-1].values()])
    return None
