"""Edits of files on disk: whole files are put in the place of others.

Python never takes what it compiled from one for the other, though both were written
within one second.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import pathlib
import shutil
import sys
import tempfile
import tokenize
import types
from collections.abc import Callable
from typing import Any

from .._programs import disk
from ..errors import EditError
from ._text import replaced

_YOUNGER_NS = 2_000_000_000  # Python trusts compiled files by whole seconds


def edit_file(target: Any, old: str, new: str) -> tuple[str, Callable[[], None]]:
    """Edit the file of a module, of a module's name or of a path.

    Returns:
        What was edited, and how to put it back.
    """
    path = _file_of(target)
    disk.refresh()  # what is imported is known as it was
    before, stat = path.read_bytes(), path.stat()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(before).readline)
    text = replaced(before.decode(encoding), old, new, path.name)
    after = text.encode(encoding)
    younger = max(stat.st_mtime_ns + _YOUNGER_NS, path.stat().st_ctime_ns)
    _write(path, after, younger)

    def undo() -> None:
        if path.read_bytes() != after:
            raise EditError(
                f"{path.name} was written after this edit; it is left as it is",
                where=str(path),
                fix="undo the newest edit of a file first",
            )
        _write(path, before, stat.st_mtime_ns)
        disk.refresh()

    return path.name, undo


def _write(path: pathlib.Path, content: bytes, mtime_ns: int) -> None:
    """Replace a file as a whole, with its mode kept and this time of change."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(number, "wb") as file:
            file.write(content)
        shutil.copymode(path, name)
        os.utime(name, ns=(mtime_ns, mtime_ns))
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _file_of(target: Any) -> pathlib.Path:
    """The file of a module, a module's name or a path, through links."""
    if isinstance(target, types.ModuleType):
        found, said = getattr(target, "__file__", None), target.__name__
    elif (
        isinstance(target, str) and not target.endswith(".py") and os.sep not in target
    ):
        found, said = _file_of_name(target), target
    else:
        found, said = os.fspath(target), os.fspath(target)
    if not found or not os.path.isfile(found):
        raise EditError(
            f"there is no source file for `{said}`",
            where=f"edit({said!r}, ...)",
            fix="give an imported module, its full name, or the path of a file",
        )
    return pathlib.Path(os.path.realpath(found))


def _file_of_name(name: str) -> str | None:
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__file__", None)
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(name)
        return spec.origin if spec is not None else None
    return None
