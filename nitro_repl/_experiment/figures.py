"""How a figure becomes a file, whatever library drew it; none of them is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import HookError

_VERBS = ("savefig", "write_image", "save")


def save(figure: Any, stem: Any) -> Path:
    """Save a figure of matplotlib, Plotly, Pillow or the like as a PNG file.

    Args:
        figure: Anything with `savefig`, `write_image` or `save`; of matplotlib's Axes
            the figure that they are in.
        stem: Path of the file without its suffix.

    Returns:
        The path of the file.

    Raises:
        HookError: It has none of these methods.
    """
    figure = whole(figure)
    path = Path(f"{stem}.png")
    for verb in _VERBS:
        if callable(write := getattr(figure, verb, None)):
            write(str(path))
            return path
    raise HookError(
        f"`visualize` returned {type(figure).__name__}, which cannot save itself",
        where="save_figure",
        fix="return a figure with `savefig`, `write_image` or `save`, or write\n"
        "def save_figure(self, figure, stem): ... return the path",
    )


def whole(figure: Any) -> Any:
    """The figure; of Axes, the figure that they are in."""
    parent = getattr(figure, "figure", None)
    own = any(hasattr(figure, verb) for verb in _VERBS)
    return parent if not own and hasattr(parent, "savefig") else figure
