"""The source of functions, as it was when somebody last had reason to remember it.

A file that is edited later does not change what is told of a function that still runs.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import weakref
from collections.abc import Iterable
from types import FunctionType

_texts: weakref.WeakKeyDictionary[FunctionType, str] = weakref.WeakKeyDictionary()
_ATTACHED = re.compile(r"@[\w.]+\.hook\s*$")


def remember(functions: Iterable[FunctionType]) -> None:
    """Read the sources of functions while they are what their files say."""
    for function in functions:
        if function not in _texts:
            _texts[function] = _read(function)


def text_of(function: FunctionType) -> str:
    """The source of a function, without `@Class.hook`; empty if it is not known."""
    known = _texts.get(function)
    return _read(function) if known is None else known


def _read(function: FunctionType) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError, SyntaxError):
        return ""
    first, _, rest = text.partition("\n")
    return rest if _ATTACHED.match(first) else text
