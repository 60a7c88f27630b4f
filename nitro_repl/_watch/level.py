"""How far an edit is followed: 0, 1 or 2, and what each means."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from .._text import View

LEVELS = {
    0: "edits are followed silently",
    1: "after each cell and each saved file, programs that became stale are named",
    2: "after each cell and each saved file, live runs swap to the edited code",
}


class Level(View):
    """One level, as `%nitro auto` shows it."""

    def __init__(self, number: int):
        self.number = number

    def __rich__(self) -> RenderableType:
        return Text(f"auto {self.number}: {LEVELS[self.number]}")
