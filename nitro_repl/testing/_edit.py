"""One edit of user code, as a user would make it, and its undoing.

A text that stands once is replaced; nothing is changed when that is not so, and after
`undo` all names and files are what they were.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from typing import Any, Self

from ._files import edit_file
from ._functions import edit_function


class Edit:
    """An edit that was made; leaving a `with` undoes it.

    Attributes:
        where: What was edited, in words.
    """

    def __init__(self, where: str, undo: Callable[[], None]):
        self.where = where
        self._undo: Callable[[], None] | None = undo

    def undo(self) -> None:
        """Put back what was edited; a second call does nothing."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"<Edit of {self.where}{'' if self._undo else ', undone'}>"


def edit(target: Any, old: str, new: str) -> Edit:
    """Edit code now; `with` or `Edit.undo` puts it back.

    Args:
        target: A module, its name or the path of a file: the text is replaced on disk,
            at once and as a whole, and programs see it at the next lookup. Or a
            function, a method or an attached hook: its source, decorators included,
            runs again in the namespace that it came from, as an edited cell would.
        old: A text that stands in the source exactly once.
        new: What to put there.

    Returns:
        The edit.

    Raises:
        EditError: The text is not found or found more than once, or the target has no
            source that can run again.

    Example:
        >>> with edit("losses", "gamma=2.0", "gamma=3.0"):
        ...     run.swap()
        >>> undone_later = edit(Digits.loss, "0.5", "0.7")
    """
    if isinstance(target, str | os.PathLike | types.ModuleType):
        return Edit(*edit_file(target, old, new))
    return Edit(*edit_function(target, old, new))
