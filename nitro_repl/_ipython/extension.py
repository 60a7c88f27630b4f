"""Loads `%nitro` into a shell and takes it out again.

After unload the shell has nothing of ours: no magic, matcher, resolver or thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from .. import _where
from .._code.files import files
from .._run import binding, registry, ticker
from .._run.comparison import Comparison
from .._text import folded
from .._watch.auto import Auto
from .._widgets import overlay, panel
from . import dash
from .completer import make_matcher
from .magics import NitroMagics
from .notebook import show_comparison
from .setters import Setters
from .subclasses import Subclasses

_loaded: dict[int, _Loaded] = {}
_auto: list[Auto] = []  # one, while any shell has the extension


class _Loaded:
    """What one shell was given."""

    def __init__(self, shell: InteractiveShell, auto: Auto):
        self.shell = shell
        self.auto = auto
        self.magics = NitroMagics(shell, auto)
        self.matcher: Any = make_matcher(lambda: shell.user_ns)
        self.cells: Callable[[str], int | None] = lambda name: _cell(shell, name)
        self.names: Callable[[], dict[str, Any]] = lambda: shell.user_ns
        self.setters = Setters(lambda: shell.user_ns)
        self.subclasses = Subclasses(lambda: shell.user_ns)
        self.in_cell = False

    def before_cell(self, *_: Any) -> None:
        """A cell begins."""
        self.in_cell = True
        self.setters.before_cell()
        self.subclasses.before_cell()
        self.auto.before_cell()

    def after_cell(self, result: Any = None) -> None:
        """A cell has ended."""
        self.in_cell = False
        number = getattr(result, "execution_count", None)
        self.setters.after_cell(number or 0)
        self.auto.after_cell()
        if self.auto.level.number:
            self.subclasses.after_cell()
        if self.is_notebook:
            panel.settle()
            overlay.settle()

    def show(self, view: binding.Binding) -> None:
        """Show what a handle was set up with under the cell that made it."""
        if self.in_cell:
            formatter: Any = self.shell.display_formatter
            data, metadata = formatter.format(view)
            if "text/html" in data:  # long: it would push the panel out of sight
                data["text/html"] = folded(
                    f"{view.experiment}: fields, settings and data", data["text/html"]
                )
            self.shell.display_pub.publish(data, metadata)

    @property
    def is_notebook(self) -> bool:
        """Whether there is a front end that may draw more than text."""
        return getattr(self.shell, "kernel", None) is not None

    @property
    def _displays(self) -> Any:
        """What shows objects of a type in a way of their own."""
        formatter: Any = self.shell.display_formatter
        return formatter.ipython_display_formatter

    def add(self) -> None:
        self.shell.register_magics(self.magics)
        self.shell.Completer.custom_matchers.append(self.matcher)
        _where.register_cells(self.cells)
        _where.register_setters(self.setters.cell_of)
        files.register(self.names)
        self.shell.events.register("pre_run_cell", self.before_cell)
        self.shell.events.register("post_run_cell", self.after_cell)
        binding.audience.append(self.show)
        if self.is_notebook:
            self._displays.for_type(Comparison, show_comparison)
        self.auto.after_cell()  # see what is imported as it is before an edit

    def remove(self) -> None:
        binding.audience.remove(self.show)
        self._displays.type_printers.pop(Comparison, None)
        self.shell.events.unregister("pre_run_cell", self.before_cell)
        self.shell.events.unregister("post_run_cell", self.after_cell)
        files.unregister(self.names)
        _where.unregister_cells(self.cells)
        _where.unregister_setters(self.setters.cell_of)
        matchers = self.shell.Completer.custom_matchers
        if self.matcher in matchers:
            matchers.remove(self.matcher)
        # IPython has no way to unregister magics.
        registered = self.shell.magics_manager
        registered.registry.pop(type(self.magics).__name__, None)
        registered.magics["line"].pop("nitro", None)
        if self.magics in self.shell.configurables:
            self.shell.configurables.remove(self.magics)


def _moved() -> None:
    """The user's code may have moved: tell who shows that."""
    panel.moved()
    dash.moved()


def load(shell: InteractiveShell) -> None:
    """Give a shell `%nitro` and its completion; a second load changes nothing."""
    if id(shell) not in _loaded:
        if not _auto:
            _auto.append(Auto(_moved))
        loaded = _Loaded(shell, _auto[0])
        loaded.add()
        _loaded[id(shell)] = loaded


def unload(shell: InteractiveShell) -> None:
    """Take everything out of a shell again; live runs go on, and this says so."""
    loaded = _loaded.pop(id(shell), None)
    if loaded is None:
        return
    loaded.remove()
    if not _loaded:
        _auto.pop().close()
    ticker.stop_all()
    overlay.close_all()
    panel.close_all()
    live = [run.id for run in registry.runs.values() if run.live]
    if live:
        print(  # noqa: T201  # the output of a cell
            f"still training in the background: {', '.join(live)}. End it with "
            "nitro_repl.current().stop(), or load the extension again"
        )


def _cell(shell: InteractiveShell, filename: str) -> int | None:
    """The number of the cell whose code has this file name."""
    kind, name = shell.compile.format_code_name(filename) or ("", "")
    number = name.removeprefix("In[").removesuffix("]")
    return int(number) if kind == "Cell" and number.isdigit() else None
