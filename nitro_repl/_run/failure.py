"""What a user sees of a run that failed: their own frames, never ours."""

from __future__ import annotations

from .._programs.frames import user_frames
from .._text import said
from ..errors import NitroError


def describe(error: BaseException) -> str:
    """The error with the user's frames and source lines."""
    if isinstance(error, NitroError) and error.frames:
        lines = error.frames
    else:
        cause = error.__cause__ if isinstance(error, NitroError) else None
        lines = user_frames((cause or error).__traceback__)
    return "\n".join([*lines, said(error)])
