"""The panel of a run under the cell that runs now, where the kernel can show one."""

from __future__ import annotations

from typing import Any

from IPython.display import display, update_display

from .._text import said, warn
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


def _show(thing: Any, *, display_id: str | None = None, update: bool = False) -> None:
    if update:
        update_display(thing, display_id=display_id)
    else:
        display(thing, display_id=display_id)
