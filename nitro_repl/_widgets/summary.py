"""The static form of a panel: an output of its own, for a notebook without a kernel.

Text from users is escaped; the page that shows it runs nothing.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._run.drawing import Curves, drawing, legend
from .._text import show

_FLAGS = 12


class Summary:
    """What is left of a panel in a saved notebook.

    Args:
        run: The id of the run.
        line: Its progress, in one line.
        curves: Steps and values by label, drawn together; none for the line alone.
        numbers: Last values by label.
        changes: What was changed, oldest first, with its step.
        error: What ended the run.
    """

    def __init__(
        self,
        run: str,
        line: str,
        *,
        curves: Curves | None = None,
        numbers: Mapping[str, object] | None = None,
        changes: Sequence[Mapping[str, Any]] = (),
        error: str = "",
    ):
        self._run = run
        self._line = line
        self._curves = curves or {}
        self._numbers = numbers or {}
        self._changes = changes
        self._error = error

    def __repr__(self) -> str:
        return f"{self._run}  {self._line}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None):
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        parts = [_tag("div", repr(self), "white-space:pre-wrap")]
        if self._curves:
            parts += [drawing(self._curves), legend(self._curves)]
        if self._numbers:
            rows = ((name, show(value)) for name, value in self._numbers.items())
            parts.append(_table(rows))
        if self._changes:
            parts.append(_list(self._changes))
        if self._error:
            parts.append(_tag("pre", self._error, "color:#cf4a5a;white-space:pre-wrap"))
        style = "font:13px ui-monospace,Menlo,Consolas,monospace;max-width:640px"
        name = html.escape(self._run, quote=True)
        body = "".join(parts)
        return f'<div class="nitro-summary nitro-{name}" style="{style}">{body}</div>'


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>"
        for name, value in rows
    )
    return f"<table>{cells}</table>"


def _list(changes: Sequence[Mapping[str, Any]]) -> str:
    left = len(changes) - _FLAGS
    lines = [f"… {left} earlier changes"] if left > 0 else []
    lines += [f"step {c['step']:,}  {c['text']}" for c in changes[-_FLAGS:]]
    return "".join(_tag("div", line, "white-space:pre-wrap") for line in lines)


def _tag(name: str, text: str, style: str) -> str:
    return f'<{name} style="{style}">{html.escape(text)}</{name}>'
