"""The points of one split as a panel draws them: all of them, or lows and highs.

Never more than `limit` points a curve, and no lowest or highest value is ever lost.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

LIMIT = 20_000
AXIS = ("step", "epoch")
"""Columns that are no curves."""


class Points:
    """Rows of a split, thinned evenly as they grow.

    Of each `rows` consecutive rows two are kept for each column, the lowest and the
    highest, in their order: at first of two rows, which is all of them; each time the
    limit is reached, of twice as many. The rows of the last, unfinished group are all
    kept.

    Args:
        limit: Most points a curve, a multiple of four.
    """

    def __init__(self, limit: int = LIMIT):
        self.limit = limit
        self.names: list[str] = []
        self.rows = 2
        self._kept = 0
        self._x = np.empty((limit, 0))  # room for all, `_kept` rows are in use
        self._y = np.empty((limit, 0))
        self._last_x = np.empty(0)
        self._last_y = np.empty((0, 0))

    def __len__(self) -> int:
        return self._kept + len(self._last_y)

    def append(self, columns: Mapping[str, np.ndarray]) -> None:
        """Add rows: a "step" and any other columns, new ones too."""
        self._take_names(columns)
        steps = np.asarray(columns["step"], np.float64)
        table = np.full((len(steps), len(self.names)), np.nan)
        for place, name in enumerate(self.names):
            if name in columns:
                table[:, place] = columns[name]
        self._last_x = np.concatenate([self._last_x, steps])
        self._last_y = np.concatenate([self._last_y, table])
        while len(self._last_y) >= self.rows:
            self._settle()

    def curves(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Steps and values of each column, float64; steps may be one shared array."""
        kept_x, kept_y = self._x[: self._kept], self._y[: self._kept]
        found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        x = np.empty(0)
        for place, name in enumerate(self.names):
            if not place or self.rows > 2:
                x = np.concatenate([kept_x[:, place], self._last_x])
            y = np.concatenate([kept_y[:, place], self._last_y[:, place]])
            found[name] = (x, y)
        return found

    def _take_names(self, columns: Mapping[str, np.ndarray]) -> None:
        new = [n for n in columns if n not in AXIS and n not in self.names]
        if not new:
            return
        self.names += new
        steps = self._x[:, :1]
        added = [steps] * len(new) if steps.size else [np.empty((self.limit, len(new)))]
        self._x = np.concatenate([self._x, *added], 1)
        self._y, self._last_y = (
            np.pad(y, ((0, 0), (0, len(new))), constant_values=np.nan)
            for y in (self._y, self._last_y)
        )

    def _settle(self) -> None:
        """Move whole groups of the last rows into what is kept."""
        room = (self.limit - self._kept) // 2
        groups = min(len(self._last_y) // self.rows, room)
        count = groups * self.rows
        x = np.broadcast_to(self._last_x[:count, None], (count, len(self.names)))
        x, y = lows_and_highs(x, self._last_y[:count], self.rows)
        self._keep(self._kept, x, y)
        self._last_x, self._last_y = self._last_x[count:], self._last_y[count:]
        if self._kept == self.limit:
            self._keep(0, *lows_and_highs(self._x, self._y, 4))
            self.rows *= 2

    def _keep(self, place: int, x: np.ndarray, y: np.ndarray) -> None:
        self._kept = place + len(y)
        self._x[place : self._kept], self._y[place : self._kept] = x, y


def lows_and_highs(
    x: np.ndarray, y: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest of each `size` rows, column by column, in order.

    Args:
        x: Steps, of the shape of `y`.
        y: Values, of shape (groups * size, columns); nan counts for nothing.
        size: Rows of a group.

    Returns:
        Steps and values, each of shape (2 * groups, columns).
    """
    groups = y.reshape(-1, size, y.shape[1])
    nan = np.isnan(groups)
    low = np.where(nan, np.inf, groups).argmin(1)
    high = np.where(nan, -np.inf, groups).argmax(1)
    # Of a flat group both are its first row: the second one is its last instead.
    high = np.where(low == high, np.where(low == 0, size - 1, 0), high)
    places = np.stack([np.minimum(low, high), np.maximum(low, high)], 1)
    shape = (-1, y.shape[1])
    taken_x = np.take_along_axis(x.reshape(groups.shape), places, 1).reshape(shape)
    return taken_x, np.take_along_axis(groups, places, 1).reshape(shape)
