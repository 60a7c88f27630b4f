"""Loads `%nitro` into a shell and takes it out again.

After unload the shell has nothing of ours: no magic, matcher, resolver or thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from .. import _where
from .._code.files import files
from .._programs import disk
from .._run import registry, ticker
from .completer import make_matcher
from .magics import NitroMagics

_loaded: dict[int, _Loaded] = {}


class _Loaded:
    """What one shell was given."""

    def __init__(self, shell: InteractiveShell):
        self.shell = shell
        self.magics = NitroMagics(shell)
        self.matcher: Any = make_matcher(lambda: shell.user_ns)
        self.cells: Callable[[str], int | None] = lambda name: _cell(shell, name)
        self.names: Callable[[], dict[str, Any]] = lambda: shell.user_ns
        self.after_cell: Callable[..., None] = lambda *_: _after_cell()

    def add(self) -> None:
        self.shell.register_magics(self.magics)
        self.shell.Completer.custom_matchers.append(self.matcher)
        _where.register_cells(self.cells)
        files.register(self.names)
        self.shell.events.register("post_run_cell", self.after_cell)
        disk.refresh(wait=False)

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
        loaded = _Loaded(shell)
        loaded.add()
        _loaded[id(shell)] = loaded


def unload(shell: InteractiveShell) -> None:
    """Take everything out of a shell again; live runs go on, and this says so."""
    loaded = _loaded.pop(id(shell), None)
    if loaded is None:
        return
    loaded.remove()
    ticker.stop_all()
    live = [run.id for run in registry.runs.values() if run.live]
    if live:
        print(  # noqa: T201  # the output of a cell
            f"still training in the background: {', '.join(live)}. End it with "
            "nitro_repl.current().stop(), or load the extension again"
        )


def _after_cell() -> None:
    """See what a cell imported as it is now, before it is edited."""
    disk.refresh(wait=False)


def _cell(shell: InteractiveShell, filename: str) -> int | None:
    """The number of the cell whose code has this file name."""
    kind, name = shell.compile.format_code_name(filename) or ("", "")
    number = name.removeprefix("In[").removesuffix("]")
    return int(number) if kind == "Cell" and number.isdigit() else None
