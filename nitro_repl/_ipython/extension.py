"""Loads `%nitro` into a shell and takes it out again.

After unload the shell has nothing of ours: no magic, matcher, resolver or thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from .. import _where
from .._code.files import files
from .._run import registry, ticker
from .._watch.auto import Auto
from .completer import make_matcher
from .magics import NitroMagics

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
        self.after_cell: Callable[..., None] = lambda *_: auto.after_cell()

    def add(self) -> None:
        self.shell.register_magics(self.magics)
        self.shell.Completer.custom_matchers.append(self.matcher)
        _where.register_cells(self.cells)
        files.register(self.names)
        self.shell.events.register("post_run_cell", self.after_cell)
        self.auto.after_cell()  # see what is imported as it is before an edit

    def remove(self) -> None:
        self.shell.events.unregister("post_run_cell", self.after_cell)
        files.unregister(self.names)
        _where.unregister_cells(self.cells)
        matchers = self.shell.Completer.custom_matchers
        if self.matcher in matchers:
            matchers.remove(self.matcher)
        # IPython has no way to unregister magics.
        registered = self.shell.magics_manager
        registered.registry.pop(type(self.magics).__name__, None)
        registered.magics["line"].pop("nitro", None)
        if self.magics in self.shell.configurables:
            self.shell.configurables.remove(self.magics)


def load(shell: InteractiveShell) -> None:
    """Give a shell `%nitro` and its completion; a second load changes nothing."""
    if id(shell) not in _loaded:
        if not _auto:
            _auto.append(Auto())
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
