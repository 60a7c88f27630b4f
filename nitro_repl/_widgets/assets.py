"""The scripts and the style of the widgets, from the files beside this one.

A script is several files read as one module: no bundler, no import, no network.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_CHARTS = ("dom.js", "points.js", "axes.js", "chart.js", "together.js", "link.js")
SCRIPTS = {
    "panel": (*_CHARTS, "charts.js", "values.js", "strips.js", "panel.js"),
    "overlay": (*_CHARTS, "overlay.js"),
}
_STATIC = Path(__file__).parent / "static"


@cache
def script(name: str = "panel") -> str:
    """The ESM of a widget: "panel" of one run, "overlay" of several."""
    return "\n".join(_read(part) for part in SCRIPTS[name])


@cache
def style() -> str:
    """The CSS of all of them."""
    return _read("panel.css")


def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
