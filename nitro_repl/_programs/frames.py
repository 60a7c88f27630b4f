"""The user's own frames of an exception, with their source lines.

Neither ours nor a library's: they help nobody.
"""

from __future__ import annotations

import linecache
import os
import site
import sysconfig
import traceback
from types import TracebackType

from .._where import is_ours, place_of

LIBRARY = tuple({
    sysconfig.get_paths()["stdlib"], sysconfig.get_paths()["purelib"],
    *site.getsitepackages(), f"{os.sep}site-packages{os.sep}", "<frozen",
})  # fmt: skip
"""Path fragments of code that is not the user's."""


def is_users(filename: str) -> bool:
    """Whether the user wrote the code of this file or cell."""
    return not is_ours(filename) and not any(part in filename for part in LIBRARY)


def user_frames(tb: TracebackType | None) -> tuple[str, ...]:
    """The frames of a traceback that are the user's, outermost first."""
    return tuple(
        f"  {place_of(frame.filename, frame.lineno or 0)}, in {frame.name}\n"
        f"    {_source(frame)}"
        for frame in traceback.extract_tb(tb)
        if is_users(frame.filename)
    )


def _source(frame: traceback.FrameSummary) -> str:
    return frame.line or linecache.getline(frame.filename, frame.lineno or 0).strip()
