"""One edit of user code, as a user would make it, and its undoing.

A text that stands once is replaced; nothing is changed when that is not so, and after
`undo` all names and files are what they were.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import difflib
import importlib.util
import inspect
import io
import itertools
import linecache
import os
import pathlib
import shutil
import sys
import tempfile
import tokenize
import types
from collections.abc import Callable
from typing import Any, Self

from .._programs import disk
from .._where import place
from ..errors import EditError

_numbers = itertools.count(1)
_MISSING: Any = object()
_YOUNGER_NS = 2_000_000_000  # Python trusts compiled files by whole seconds


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
        return _edit_file(_file_of(target), old, new)
    return _edit_function(target, old, new)


# ---- files


def _edit_file(path: pathlib.Path, old: str, new: str) -> Edit:
    disk.refresh()  # what is imported is known as it was
    before, stat = path.read_bytes(), path.stat()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(before).readline)
    text = _replaced(before.decode(encoding), old, new, path.name)
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

    return Edit(path.name, undo)


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


def _is_module_name(target: str) -> bool:
    return not target.endswith(".py") and os.sep not in target


def _file_of_name(name: str) -> str | None:
    module = sys.modules.get(name)
    if module is not None:
        return getattr(module, "__file__", None)
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(name)
        return spec.origin if spec is not None else None
    return None


# ---- functions


def _edit_function(target: Any, old: str, new: str) -> Edit:
    function = _function_in(target)
    if function is None or function.__name__ == "<lambda>":
        raise EditError(
            f"a {type(target).__name__} cannot be edited",
            where=f"edit({_short(target)}, ...)",
            fix="give a function or a method that has a name, a module, or a path",
        )
    source = _source(function)
    text = _replaced(source, old, new, place(function) or function.__qualname__)
    if function.__qualname__ == function.__name__:
        undo = _run_in_namespace(function, source, text)
    else:
        undo = _set_in_class(function, text)
    return Edit(f"{function.__qualname__}()", undo)


def _run_in_namespace(
    function: types.FunctionType, source: str, text: str
) -> Callable[[], None]:
    names, name = function.__globals__, function.__name__
    saved = names.get(name, _MISSING)
    filename = _remember(text, name)
    _run(_parsed(text), function, filename, names)

    def undo() -> None:
        if source.lstrip().startswith("@"):
            # A decorator may have put it elsewhere too, as `@Digits.hook` does.
            first_line = function.__code__.co_firstlineno
            _run(_parsed(source, first_line), function, None, names)
        if saved is _MISSING:
            names.pop(name, None)
        else:
            names[name] = saved
        linecache.cache.pop(filename, None)

    return undo


def _set_in_class(function: types.FunctionType, text: str) -> Callable[[], None]:
    owner, name = _owner(function), function.__name__
    saved = vars(owner)[name]
    filename = _remember(text, name)
    made: dict[str, Any] = {}
    _run(_with_class(_parsed(text), name), function, filename, made)
    member = made["make"](owner)
    inside = _function_in(member)
    if inside is not None:
        inside.__qualname__ = function.__qualname__
    setattr(owner, name, member)

    def undo() -> None:
        setattr(owner, name, saved)
        linecache.cache.pop(filename, None)

    return undo


def _with_class(module: ast.Module, name: str) -> ast.Module:
    """Wrap a method: `super()` takes its class from a cell of what is around it."""
    outer = ast.parse(f"def make(__class__):\n    return {name}")
    make = outer.body[0]
    assert isinstance(make, ast.FunctionDef)
    make.body[:0] = module.body
    return outer


def _owner(function: types.FunctionType) -> type:
    """The class whose body defined a function."""
    first, *rest, name = function.__qualname__.split(".")
    found = function.__globals__.get(first)
    for part in rest:
        found = getattr(found, part, None)
    held = vars(found).get(name) if isinstance(found, type) else None
    if not isinstance(found, type) or _function_in(held) is not function:
        raise EditError(
            f"`{function.__qualname__}` is not what its module holds under that name",
            where=place(function),
            fix="edit a function that a module, or a class of a module, defines\n"
            "under its own name, or the module itself",
        )
    return found


def _function_in(member: Any) -> types.FunctionType | None:
    """The function that a member of a class is made of."""
    member = getattr(member, "fget", getattr(member, "__func__", member))
    found = inspect.unwrap(member) if callable(member) else None
    return found if isinstance(found, types.FunctionType) else None


def _run(
    module: ast.Module,
    function: types.FunctionType,
    filename: str | None,
    into: dict[str, Any],
) -> None:
    """Execute what was parsed where the function came from; names go to `into`."""
    flags = function.__code__.co_flags & __future__.annotations.compiler_flag
    code = compile(
        module,
        filename or function.__code__.co_filename,
        "exec",
        flags=flags,
        dont_inherit=True,
    )
    exec(code, function.__globals__, into)


def _parsed(text: str, first_line: int = 1) -> ast.Module:
    """A definition, as indented as it stands: its texts of many lines stay."""
    if not text[:1].isspace():
        return ast.increment_lineno(ast.parse(text), first_line - 1)
    module = ast.parse(f"if 1:\n{text}")
    module.body = getattr(module.body[0], "body")  # noqa: B009
    return ast.increment_lineno(module, first_line - 2)


def _remember(text: str, name: str) -> str:
    """Let tracebacks show the lines of an edit; the file name it has."""
    filename = f"<edit {next(_numbers)} of {name}>"
    lines = text.splitlines(keepends=True)
    linecache.cache[filename] = (len(text), None, lines, filename)
    return filename


def _source(function: types.FunctionType) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        raise EditError(
            f"the source of `{function.__qualname__}` is not known",
            where=place(function),
            fix="define it in a file or in a cell of IPython",
        ) from None


# ---- text


def _replaced(source: str, old: str, new: str, where: str) -> str:
    lines = [source.count("\n", 0, at) + 1 for at in _places(source, old)]
    if len(lines) == 1:
        return source.replace(old, new)
    if not lines:
        close = difflib.get_close_matches(old, map(str.strip, source.splitlines()), n=1)
        near = f"; did you mean {close[0]!r}?" if close else ""
        raise EditError(
            f"the text {_short(old)} is not there",
            where=where,
            fix=f"give it as it stands, spaces and quotes included{near}",
        )
    raise EditError(
        f"the text {_short(old)} is there {len(lines)} times",
        where=f"{where}, lines {', '.join(map(str, lines[:8]))} of its source",
        fix="give more of the text around the one that is meant",
    )


def _places(source: str, old: str) -> list[int]:
    at, found = source.find(old) if old else -1, []
    while at >= 0:
        found.append(at)
        at = source.find(old, at + 1)
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
