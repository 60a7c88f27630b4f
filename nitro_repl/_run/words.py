"""What may travel to a front end: texts of bounded length, finite numbers."""

from __future__ import annotations

import math
from typing import Any

from .._text import show

LINE = 300
BLOCK = 8000


def words(value: object, limit: int = LINE) -> str:
    """A text that UTF-8 can hold, cut at its end."""
    text = str(value).encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def number(value: Any) -> Any:
    """A number as JSON holds it; what is none, or not finite, in words."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return words(show(value))
