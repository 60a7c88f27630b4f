"""What a user sees of a run that failed: their own frames, never ours."""

from __future__ import annotations

import linecache
import traceback

from .._programs.explain import LIBRARY
from .._where import is_ours, place_of
from ..errors import NitroError


def describe(error: BaseException) -> str:
    """The error with the user's frames and source lines."""
    origin = (
        error.__cause__ if isinstance(error, NitroError) and error.__cause__ else error
    )
    lines = [
        f"  {_place(frame)}, in {frame.name}\n    {_source(frame)}"
        for frame in traceback.extract_tb(origin.__traceback__)
        if not is_ours(frame.filename)
        and not any(part in frame.filename for part in LIBRARY)
    ]
    return "\n".join([*lines, f"{type(error).__name__}: {error}"])


def _place(frame: traceback.FrameSummary) -> str:
    return place_of(frame.filename, frame.lineno or 0)


def _source(frame: traceback.FrameSummary) -> str:
    return frame.line or linecache.getline(frame.filename, frame.lineno or 0).strip()
