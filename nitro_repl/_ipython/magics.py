"""The line magic `%nitro`: one line, one verb, the same object as the Python call.

A line that cannot be read is one line of error; a verb that is refused shows what,
where and fix.
"""

from __future__ import annotations

from typing import Any

import traitlets
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import (
    Magics,
    line_magic,
    magics_class,
    output_can_be_silenced,
)
from IPython.display import display

from .._run import invoke
from .._run.help import help_text
from .._run.invoke import Arguments
from .._run.ticker import REFRESH_S, terminal_line
from .._run.verb import Verb
from .._watch.auto import Auto
from ..errors import MagicError
from .dash import Dash, watch
from .parser import parse, usage_line
from .progress import Screen

_DRAWING_S = 0.5  # between two drawings of a dashboard: one costs some 20 ms


@magics_class
class NitroMagics(Magics):
    """The `%nitro` magic of one shell."""

    refresh = traitlets.Float(
        REFRESH_S, help="Seconds between two updates of a progress line, at least."
    ).tag(config=True)

    def __init__(self, shell: InteractiveShell, auto: Auto):
        super().__init__(shell)
        self.auto = auto
        self.screen = Screen(shell)

    @output_can_be_silenced
    @line_magic
    def nitro(self, line: str) -> Any:
        """Replaced by the generated help when the extension is loaded."""
        shell = self.shell
        assert shell is not None
        try:
            verb, arguments = parse(line, shell.user_ns)
            result = _SPECIAL.get(verb.name, _plain)(self, verb, arguments)
        except MagicError as error:
            raise UsageError(usage_line(error)) from None
        return result

    def invoke(self, verb: Verb, arguments: Arguments) -> Any:
        """Carry out a verb with the user's variables."""
        assert self.shell is not None
        return invoke.invoke(verb, arguments, self.shell.user_ns)


# IPython shows this text for `%nitro?`.
NitroMagics.nitro.__doc__ = help_text()


def _plain(magics: NitroMagics, verb: Verb, arguments: Arguments) -> Any:
    result = magics.invoke(verb, arguments)
    if result is None and verb.target == "run":
        _say(invoke.chosen_run(arguments))
    return result


def _train(magics: NitroMagics, verb: Verb, arguments: Arguments) -> Any:
    run = magics.invoke(verb, arguments)
    magics.screen.follow(run, magics.refresh)
    return run


def _dash(magics: NitroMagics, verb: Verb, arguments: Arguments) -> None:
    run = invoke.chosen_run(arguments)
    if magics.screen.panel(run, magics.refresh) or watch(
        run, max(magics.refresh, _DRAWING_S)
    ):
        return
    display(Dash(run).now())


def _wait(magics: NitroMagics, verb: Verb, arguments: Arguments) -> Any:
    run = invoke.chosen_run(arguments)
    with terminal_line(run):
        result = magics.invoke(verb, arguments)
    _say(run)
    return result


def _auto(magics: NitroMagics, verb: Verb, arguments: Arguments) -> Any:
    for number in arguments.words:
        magics.auto.set(number)
    return magics.auto.level


def _say(run: Any) -> None:
    print(f"{run.id}  {run.progress()}")  # noqa: T201  # the output of a cell


_SPECIAL = {
    "train": _train,
    "dash": _dash,
    "wait": _wait,
    "auto": _auto,
}
