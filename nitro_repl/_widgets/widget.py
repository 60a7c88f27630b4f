"""The anywidget of a panel: no traits of its own, so that it holds no state to sync."""

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

    _esm = script()
    _css = style()

    def __init__(self, title: str, on_message: Callable[[Any], None]):
        super().__init__()
        self._title = title
        self.on_msg(lambda _, content, buffers: on_message(content))

    def __repr__(self) -> str:
        return self._title
