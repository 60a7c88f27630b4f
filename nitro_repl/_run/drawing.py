"""Curves as inline SVG: small, still, and readable on a white and on a dark page."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterable, Mapping

import numpy as np

from .._text import show
from .points import lows_and_highs
from .strokes import is_log

_WIDTH, _HEIGHT = 640, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 8, 18
_COLUMNS = 150  # points of a curve come in pairs for each
COLORS = ("#3b7dd8", "#d9772b", "#2f9e6e", "#9a5bd0", "#cf4a5a", "#1f97a8")

Curves = Mapping[str, tuple[np.ndarray, np.ndarray]]
"""Steps and values by label."""


def drawing(curves: Curves, *, bold: str = "") -> str:
    """The curves as inline SVG; on a log axis if all are positive and far apart.

    Args:
        curves: Steps and values by label.
        bold: The label of one that stands out.
    """
    known = [(x[ok], y[ok]) for x, y in curves.values() for ok in [np.isfinite(y)]]
    known = [(x, y) for x, y in known if len(x)]
    if not known:
        return ""
    low, high = min(y.min() for _, y in known), max(y.max() for _, y in known)
    scale = np.log10 if is_log(low, high) else np.asarray
    first, last = min(x[0] for x, _ in known), max(x[-1] for x, _ in known)
    bottom, top = float(scale(low)), float(scale(high))
    spread = top - bottom or abs(top) * 0.1 or 1.0
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    lines = []
    for place, (name, (x, y)) in enumerate(curves.items()):
        kept_x, kept_y = _thin(x[np.isfinite(y)], y[np.isfinite(y)])
        across = _LEFT + (kept_x - first) / ((last - first) or 1) * width
        down = _TOP + (top - scale(kept_y)) / spread * height
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
        color = COLORS[place % len(COLORS)]
        lines.append(
            f'<polyline fill="none" stroke="{color}" '
            f'stroke-width="{2.6 if name == bold else 1.3}" '
            f'points="{points}"/>'
        )
    marks = [
        _label(2, _TOP + 8, show(high)),
        _label(2, _TOP + height, show(low)),
        _label(_LEFT, _HEIGHT - 4, f"step {int(first):,}"),
        _label(_WIDTH - _RIGHT, _HEIGHT - 4, f"{int(last):,}", "end"),
    ]
    frame = (
        f'<rect x="{_LEFT}" y="{_TOP}" width="{width}" height="{height}" '
        'fill="none" stroke="currentColor" stroke-opacity=".25"/>'
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img" '
        f'aria-label="curves" xmlns="http://www.w3.org/2000/svg">{frame}'
        f"{''.join(lines)}{''.join(marks)}</svg>"
    )


def legend(names: Iterable[str]) -> str:
    """The labels of curves in their colours."""
    spans = [
        f'<span style="color:{color}">— {html.escape(name)}</span>'
        for name, color in zip(names, itertools.cycle(COLORS), strict=False)
    ]
    return f"<div>{' &nbsp; '.join(spans)}</div>"


def _thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size = math.ceil(len(x) / _COLUMNS)
    if size <= 2:
        return x, y
    whole = len(x) // size * size
    kept_x, kept_y = lows_and_highs(x[:whole, None], y[:whole, None], size)
    return (
        np.concatenate([kept_x[:, 0], x[whole:][-1:]]),
        np.concatenate([kept_y[:, 0], y[whole:][-1:]]),
    )


def _label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="10" fill="currentColor" '
        f'fill-opacity=".7" text-anchor="{anchor}">{html.escape(text)}</text>'
    )
