"""Where IPython shows how a run is doing.

A notebook gets the panel, or else one output that is updated in place; a terminal its
bottom toolbar, anything else a line at the start and one at the end.
"""

from __future__ import annotations

import html
import itertools
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from .._run.ticker import Sink, Ticker
from .notebook import show_panel

_STYLE = "white-space:pre;font:13px ui-monospace,Menlo,Consolas,monospace"


class Screen:
    """The front end of one shell, for all its runs."""

    def __init__(self, shell: InteractiveShell):
        self._shell = shell
        self._toolbar: Toolbar | None = None

    def follow(self, run: Any, refresh: float) -> None:
        """Show a run that was started, until it ends.

        Args:
            run: The run.
            refresh: Seconds between two lines of text, at least.
        """
        if not self.panel(run, refresh):
            Ticker(run, self.line(run.id), refresh).start()

    def panel(self, run: Any, refresh: float) -> bool:
        """Show the panel of a run, again or for the first time; false without one."""
        return self._is_notebook and show_panel(run, refresh)

    @property
    def _is_notebook(self) -> bool:
        return getattr(self._shell, "kernel", None) is not None

    def line(self, run_id: str) -> Sink:
        """The best place that this shell has for a line that changes."""
        if self._is_notebook:
            return NotebookLine(run_id)
        app = getattr(self._shell, "pt_app", None)
        if app is None:
            return StartAndEnd(run_id)
        self._toolbar = self._toolbar or Toolbar(app)
        return ToolbarLine(self._toolbar, run_id)


class NotebookLine:
    """An output of the cell that started the run, updated by its display id."""

    def __init__(self, run_id: str):
        self._run_id = run_id
        self._handle: Any = None

    def update(self, line: str) -> None:
        """Make the output, or change it."""
        shown = _Line(f"{self._run_id}  {line}")
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)

    close = update


class StartAndEnd:
    """Two printed lines, for a terminal where nothing can change in place."""

    def __init__(self, run_id: str):
        self._run_id = run_id
        self._started = False

    def update(self, line: str) -> None:
        """Print the first line only."""
        if not self._started:
            print(f"{self._run_id}  {line}")  # noqa: T201  # the output of a cell
        self._started = True

    def close(self, line: str) -> None:
        """Print the last line."""
        print(f"{self._run_id}  {line}")  # noqa: T201  # the output of a cell


class Toolbar:
    """The bottom toolbar of a terminal IPython, shared by all live runs."""

    def __init__(self, app: Any):
        self._app = app
        self._lines: dict[int, str] = {}
        self._before: Any = None

    def put(self, key: int, line: str) -> None:
        """Show a line, above those of other runs."""
        if not self._lines:
            self._before = self._app.bottom_toolbar
            self._app.bottom_toolbar = self.text
        self._lines[key] = line
        self._app.app.invalidate()

    def drop(self, key: int) -> None:
        """Take a line away; the last one gives the toolbar back."""
        if self._lines.pop(key, None) is not None and not self._lines:
            self._app.bottom_toolbar = self._before
        self._app.app.invalidate()

    def text(self) -> str:
        """All lines."""
        return "\n".join(list(self._lines.values()))


class ToolbarLine:
    """One run's line in the toolbar; its last line is printed and stays."""

    _numbers = itertools.count()

    def __init__(self, toolbar: Toolbar, run_id: str):
        self._toolbar = toolbar
        self._run_id = run_id
        self._key = next(self._numbers)

    def update(self, line: str) -> None:
        """Change the line in the toolbar."""
        self._toolbar.put(self._key, f"{self._run_id}  {line}")

    def close(self, line: str) -> None:
        """Leave the toolbar and print the last line."""
        self._toolbar.drop(self._key)
        print(f"{self._run_id}  {line}")  # noqa: T201  # the output of a cell


class _Line:
    """One line of text that shows alike in every front end."""

    def __init__(self, line: str):
        self._line = line

    def __repr__(self) -> str:
        return self._line

    def _repr_html_(self) -> str:
        return f'<div style="{_STYLE}">{html.escape(self._line)}</div>'
