"""Curves as text: a line of blocks, or a chart of Braille dots.

Only finite values count; what has none is drawn as blanks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.text import Text

BLOCKS = "▁▂▃▄▅▆▇█"
_DOTS = ((0x40, 0x80), (0x04, 0x20), (0x02, 0x10), (0x01, 0x08))  # from the bottom
_FAR = 20  # times as high as low: then a log axis

Curve = tuple[np.ndarray, np.ndarray]
"""Steps and values."""


def is_log(low: float, high: float) -> bool:
    """Whether values from `low` to `high` are best seen on a log axis."""
    return low > 0 and high > _FAR * low


def limits(curves: Sequence[Curve]) -> tuple[float, float, float, float] | None:
    """First and last step, lowest and highest value; None without a finite value."""
    kept = [finite(curve) for curve in curves]
    kept = [(x, y) for x, y in kept if len(y)]
    if not kept:
        return None
    return (
        min(float(x.min()) for x, _ in kept),
        max(float(x.max()) for x, _ in kept),
        min(float(y.min()) for _, y in kept),
        max(float(y.max()) for _, y in kept),
    )


def finite(curve: Curve) -> Curve:
    """The points of a curve that can be drawn."""
    x, y = curve
    known = np.isfinite(y)
    return x[known], y[known]


def sparkline(curve: Curve, width: int = 24, span: Sequence[float] = ()) -> str:
    """A curve in one line of blocks, low to high.

    Args:
        curve: Steps and values.
        width: Characters.
        span: First and last step of the line, if not those of the curve.
    """
    found = limits([curve])
    if found is None:
        return " " * width
    first, last, low, high = found
    x, y = finite(curve)
    scale = np.log if is_log(low, high) else np.asarray
    heights = _columns(x, scale(y), width, *(span or (first, last)))
    known = heights[~np.isnan(heights)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    places = (heights - low) / ((high - low) or 1.0) * (len(BLOCKS) - 1)
    return "".join(" " if np.isnan(p) else BLOCKS[round(p)] for p in places)


def chart(
    curves: Sequence[Curve], styles: Sequence[str], width: int, height: int
) -> list[Text]:
    """Curves in one chart, each in its style; later ones lie above earlier ones.

    Args:
        curves: Steps and values of each.
        styles: Of each, as rich names them.
        width: Characters.
        height: Lines.
    """
    cells = np.zeros((height, width), int)
    colors = np.full((height, width), -1)
    found = limits(curves)
    for place, curve in enumerate(curves if found else ()):
        assert found is not None
        for column, low, high in _lines(finite(curve), found, 2 * width, 4 * height):
            for dot in range(low, high + 1):
                row, across = height - 1 - dot // 4, column // 2
                cells[row, across] |= _DOTS[dot % 4][column % 2]
                colors[row, across] = place
    return [
        Text.assemble(
            *(
                (chr(0x2800 + dots), styles[int(color)]) if dots else " "
                for dots, color in zip(line, hues, strict=True)
            ),
            no_wrap=True,
        )
        for line, hues in zip(cells.tolist(), colors.tolist(), strict=True)
    ]


def _columns(
    x: np.ndarray, y: np.ndarray, width: int, first: float, last: float
) -> np.ndarray:
    """The mean of each column; between known columns a straight line, else nan."""
    at = _place(x, first, last, width)
    inside = (x >= first) & (x <= last)
    count = np.bincount(at[inside], minlength=width)
    total = np.bincount(at[inside], y[inside], minlength=width)
    known = np.flatnonzero(count)
    if not len(known):
        return np.full(width, np.nan)
    means = total[known] / count[known]
    return np.interp(np.arange(width), known, means, left=np.nan, right=np.nan)


def _lines(
    curve: Curve, found: tuple[float, float, float, float], width: int, height: int
) -> list[tuple[int, int, int]]:
    """Column, lowest and highest dot of a curve; neighbours touch each other."""
    first, last, low, high = found
    x, y = curve
    if not len(y):
        return []
    scale = np.log if is_log(low, high) else np.asarray
    bottom, spread = float(scale(low)), float(scale(high) - scale(low))
    down = (scale(y) - bottom) / spread if spread else np.full(len(y), 0.5)
    dots = np.rint(down * (height - 1)).astype(int)
    at = np.maximum.accumulate(_place(x, first, last, width))
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    ends = np.append(starts[1:], len(at)) - 1
    columns = zip(
        at[starts].tolist(),
        np.minimum.reduceat(dots, starts).tolist(),
        np.maximum.reduceat(dots, starts).tolist(),
        dots[starts].tolist(),
        dots[ends].tolist(),
        strict=True,
    )
    lines: list[tuple[int, int, int]] = []
    before = 0
    for column, lowest, highest, first_dot, last_dot in columns:
        if lines:
            lines += _bridge(lines[-1][0], before, column, first_dot)
        lines.append((column, lowest, highest))
        before = last_dot
    return lines


def _bridge(start: int, begin: int, stop: int, end: int) -> list[tuple[int, int, int]]:
    """The columns of a straight line after `start`, up to and with `stop`."""
    steps = np.arange(start, stop + 1)
    dots = np.rint(np.interp(steps, [start, stop], [begin, end])).astype(int).tolist()
    return [
        (column, min(a, b), max(a, b))
        for column, a, b in zip(steps[1:].tolist(), dots, dots[1:], strict=False)
    ]


def _place(x: np.ndarray, first: float, last: float, width: int) -> np.ndarray:
    across = (x - first) / ((last - first) or 1.0) * (width - 1)
    return np.clip(np.rint(across), 0, width - 1).astype(int)
