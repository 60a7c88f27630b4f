"""Edits of functions: their source runs again where it came from, as an edited cell.

A method is replaced in its class; afterwards every name stands for what it stood for.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import itertools
import linecache
import types
from collections.abc import Callable
from typing import Any

from .._where import place
from ..errors import EditError
from ._text import replaced, short

_numbers = itertools.count(1)
_MISSING: Any = object()


def edit_function(target: Any, old: str, new: str) -> tuple[str, Callable[[], None]]:
    """Edit a function, a method or an attached hook.

    Returns:
        What was edited, and how to put it back.
    """
    function = _function_in(target)
    if function is None or function.__name__ == "<lambda>":
        raise EditError(
            f"a {type(target).__name__} cannot be edited",
            where=f"edit({short(target)}, ...)",
            fix="give a function or a method that has a name, a module, or a path",
        )
    source = _source(function)
    text = replaced(source, old, new, place(function) or function.__qualname__)
    if function.__qualname__ == function.__name__:
        undo = _run_in_namespace(function, source, text)
    else:
        undo = _set_in_class(function, text)
    return f"{function.__qualname__}()", undo


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
        text = inspect.getsource(function)
    except (OSError, TypeError):
        text = ""
    if not _defines(text, function.__code__.co_name):
        raise EditError(
            f"the source of `{function.__qualname__}` is not known",
            where=place(function),
            fix="define it in a file or in a cell of IPython",
        )
    return text


def _defines(text: str, name: str) -> bool:
    """Whether it is the source of such a function.

    Python 3.13 takes the text of `python -c` for that of all code in `<string>`.
    """
    try:
        body = _parsed(text).body
    except SyntaxError:
        return False
    made = body[0] if body else None
    return (
        isinstance(made, ast.FunctionDef | ast.AsyncFunctionDef) and made.name == name
    )
