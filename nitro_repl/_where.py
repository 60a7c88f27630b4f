"""Say where code stands, the way a notebook user would.

A place is `In [7], line 3` for a cell and `losses.py:12` for a file, never a
temporary path.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from types import CodeType, TracebackType

_IPYTHON_INPUT = re.compile(r"<ipython-input-(\d+)-")
_resolvers: list[Callable[[str], int | None]] = []
_setters: list[Callable[[str, str], str]] = []
_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def register_cells(resolve: Callable[[str], int | None]) -> None:
    """Add a function that knows the cell number of a code file name, or None."""
    _resolvers.append(resolve)


def unregister_cells(resolve: Callable[[str], int | None]) -> None:
    """Remove what `register_cells` added."""
    if resolve in _resolvers:
        _resolvers.remove(resolve)


def register_setters(resolve: Callable[[str, str], str]) -> None:
    """Add a function: a notebook's name and value in words -> `In [7]`, or ''."""
    _setters.append(resolve)


def unregister_setters(resolve: Callable[[str, str], str]) -> None:
    """Remove what `register_setters` added."""
    if resolve in _setters:
        _setters.remove(resolve)


def cell_that_set(name: str, text: str) -> str:
    """The cell that gave a notebook's name this value, or ''."""
    found = (resolve(name, text) for resolve in _setters)
    return next(filter(None, found), "")


def cell_of(filename: str) -> str:
    """`In [7]` when the file name is a notebook cell's, else an empty text."""
    for resolve in _resolvers:
        number = resolve(filename)
        if number is not None:
            return f"In [{number}]"
    match = _IPYTHON_INPUT.match(filename)
    if match:
        return f"In [{match.group(1)}]"
    if filename.startswith("<"):
        return filename
    return "a cell" if "ipykernel_" in filename else ""


def place_of(filename: str, line: int) -> str:
    """The place of one line."""
    cell = cell_of(filename)
    return f"{cell}, line {line}" if cell else f"{os.path.basename(filename)}:{line}"


def place(function: object) -> str:
    """The place where a function or method was defined, empty if it has none."""
    function = inspect.unwrap(getattr(function, "__func__", function))  # type: ignore[arg-type]
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return ""
    return place_of(code.co_filename, code.co_firstlineno)


def is_ours(filename: str) -> bool:
    """Whether a code file belongs to this package."""
    return os.path.abspath(filename).startswith(_PACKAGE + os.sep)


def user_place(traceback: TracebackType | None, library: tuple[str, ...]) -> str:
    """The innermost place of a traceback that is neither ours nor a library's.

    Args:
        traceback: Of the exception.
        library: Path fragments that mark library code.
    """
    found = ""
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if not is_ours(name) and not any(part in name for part in library):
            found = place_of(name, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found
