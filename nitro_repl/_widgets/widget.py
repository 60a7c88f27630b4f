"""The anywidgets: no traits of their own, so that they hold no state to sync."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget

from .assets import script, style


class PanelWidget(anywidget.AnyWidget):
    """The front end's half of a panel.

    Args:
        title: Its text where no widget can be shown.
        on_message: Called with each message of a front end, on any thread.
    """

    _esm = script("panel")
    _css = style()

    def __init__(self, title: str, on_message: Callable[[Any], None]):
        super().__init__()
        self._title = title
        self.on_msg(lambda _, content, buffers: on_message(content))

    def __repr__(self) -> str:
        return self._title


class OverlayWidget(PanelWidget):
    """The front end's half of a comparison; takes what `PanelWidget` does."""

    _esm = script("overlay")
