"""Panels and comparisons under the cell that runs now, where a kernel can show one."""

from __future__ import annotations

from typing import Any

from IPython.display import display, update_display

from .._run.comparison import Comparison
from .._text import said, warn
from .._widgets.overlay import overlay_of
from .._widgets.panel import panel_of


def show_panel(run: Any, refresh: float) -> bool:
    """Show the panel of a run; false, after a warning, where that cannot be.

    Args:
        run: The run.
        refresh: Seconds between two lines of text, where no browser draws it.
    """
    try:
        # Imported here: it brings in ipywidgets, which only a notebook needs.
        from .._widgets.widget import PanelWidget

        panel_of(run, _show, PanelWidget, refresh).show()
    except Exception as error:
        warn(f"no panel, a line of text instead: {said(error)}")
        return False
    return True


def show_comparison(found: Comparison) -> None:
    """Show a comparison that moves, or, after a warning, one that does not."""
    try:
        from .._widgets.widget import OverlayWidget

        overlay_of(found, _show, OverlayWidget).show()
    except Exception as error:
        warn(f"a comparison that stands still: {said(error)}")
        display(found._repr_mimebundle_(), raw=True)


def _show(thing: Any, *, display_id: str | None = None, update: bool = False) -> None:
    if update:
        update_display(thing, display_id=display_id)
    else:
        display(thing, display_id=display_id)
