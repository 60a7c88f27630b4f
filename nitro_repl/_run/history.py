"""The numbers of a run: rows in, columns out, one table for each split.

A column is as long as its table; where a row had no value it holds nan.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Mapping

import numpy as np

# Rows wait in a deque, whose `append` needs no lock, and are moved into the columns
# so many at a time, which costs far less than one by one.
_BLOCK = 256


class History:
    """Rows of floats by split; any thread may append and read."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._lock = threading.Lock()

    def append(self, split: str, row: Mapping[str, float]) -> None:
        """Add a row: a "step" and any other columns, new ones too."""
        table = self._tables.get(split)
        if table is None:
            with self._lock:
                table = self._tables.setdefault(split, _Table())
        table.waiting.append(dict(row))
        if len(table.waiting) >= _BLOCK:
            with self._lock:
                table.settle()

    def splits(self) -> tuple[str, ...]:
        """The splits that have had a row, in the order of their first one."""
        with self._lock:
            return tuple(self._tables)

    def count(self, split: str) -> int:
        """The number of rows."""
        with self._lock:
            table = self._tables.get(split)
            return len(table) if table else 0

    def columns(self, split: str, since: int = 0) -> dict[str, np.ndarray]:
        """Copies of the columns, in order of appearance.

        Args:
            split: Name of the split; one without rows has no columns.
            since: Leave out so many rows at the start.

        Returns:
            Name -> float64 of shape (rows,), nan where a row had no value.
        """
        with self._lock:
            table = self._tables.get(split)
            return table.columns(since) if table else {}

    def rows(self, split: str, since: int = 0) -> list[dict[str, float]]:
        """The rows as dicts with every column, nan where a row had no value."""
        columns = self.columns(split, since)
        values = zip(*(column.tolist() for column in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in values]

    def last(self, split: str) -> dict[str, float]:
        """The last row; empty if there is none."""
        with self._lock:
            table = self._tables.get(split)
            columns = table.columns(-1) if table else {}
        return {
            name: float(column[0]) for name, column in columns.items() if len(column)
        }


class _Table:
    """Columns with room to grow, and the rows that are not in them yet."""

    def __init__(self) -> None:
        self._columns: dict[str, np.ndarray] = {}
        self._size = 0
        self.waiting: deque[dict[str, float]] = deque()

    def __len__(self) -> int:
        return self._size + len(self.waiting)

    def columns(self, since: int) -> dict[str, np.ndarray]:
        self.settle()
        window = slice(*slice(since, None).indices(self._size))
        return {name: column[window].copy() for name, column in self._columns.items()}

    def settle(self) -> None:
        """Move the waiting rows into the columns; more may come meanwhile."""
        rows = [self.waiting.popleft() for _ in range(len(self.waiting))]
        end = self._size + len(rows)
        for name in dict.fromkeys(itertools.chain(self._columns, *rows)):
            values = (row.get(name, np.nan) for row in rows)
            filled = np.fromiter(values, np.float64, len(rows))
            self._room(name, end)[self._size : end] = filled
        self._size = end

    def _room(self, name: str, size: int) -> np.ndarray:
        column = self._columns.get(name)
        if column is not None and len(column) >= size:
            return column
        grown = np.full(max(2 * size, _BLOCK), np.nan)
        if column is not None:
            grown[: self._size] = column[: self._size]
        self._columns[name] = grown
        return grown
