"""The script and the style of the panel, from the files beside this one.

The script is several files read as one module: no bundler, no import, no network.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

SCRIPTS = ("dom.js", "points.js", "axes.js", "chart.js", "charts.js", "values.js")
SCRIPTS += ("strips.js", "link.js", "panel.js")
_STATIC = Path(__file__).parent / "static"


@cache
def script() -> str:
    """The ESM of the widget."""
    return "\n".join(_read(name) for name in SCRIPTS)


@cache
def style() -> str:
    """Its CSS."""
    return _read("panel.css")


def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
