"""Where a global got the value that it has: a line of its file, or a notebook's cell.

Said only if the value there is the one in question; else nothing is said.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator

from .._where import cell_that_set, place_of
from .origin import is_user_file
from .readable import text_of


def assigned(module: str, name: str, text: str) -> str:
    """Where a global was assigned, in words, or ''.

    Args:
        module: Name of its module.
        name: Its name there; `Config.gain` is an attribute of a class.
        text: The value, as `text_of` writes it.
    """
    cell = cell_that_set(name, text) if module == "__main__" else ""
    path = getattr(sys.modules.get(module), "__file__", None)
    if cell or not isinstance(path, str) or not path.endswith(".py"):
        return cell
    line = _line_in(path, name, text) if is_user_file(path) else None
    return place_of(path, line) if line else ""


def _line_in(path: str, name: str, text: str) -> int | None:
    """The last line that assigns the name; None if it assigns something else."""
    linecache.checkcache(path)
    try:
        body = ast.parse("".join(linecache.getlines(path))).body
    except SyntaxError:  # it was saved in the middle of an edit
        return None
    *outer, name = name.split(".")
    for cls in outer:
        classes = [one for one in body if isinstance(one, ast.ClassDef)]
        body = [line for one in classes if one.name == cls for line in one.body]
    found = list(_assignments(body, name))
    if not found or found[-1].value is None:
        return None
    try:
        value = ast.literal_eval(found[-1].value)
    except ValueError:  # computed
        return found[-1].lineno
    return found[-1].lineno if text_of(value) == text else None


def _assignments(
    body: list[ast.stmt], name: str
) -> Iterator[ast.Assign | ast.AnnAssign]:
    for one in body:
        if isinstance(one, ast.Assign):
            targets = one.targets
        elif isinstance(one, ast.AnnAssign):
            targets = [one.target]
        else:
            continue
        if any(isinstance(t, ast.Name) and t.id == name for t in targets):
            yield one
