from __future__ import annotations

import enum
import typing

import pytest

from nitro_repl import Device, Experiment, GraphConst
from tests.cells import DATA, IMPORTS, LOSS, TINY, until

TRAIN = "run = %nitro train Tiny --paused --run-dir None --logger None\nrun.advance(2)"


class Color(enum.Enum):
    RED = "red"
    BLUE = 2


class Digits(Experiment):
    width: GraphConst[int] = 128
    smoothing: Device[float] = 0.05
    note: str = ""
    mode: typing.Literal["fast", "exact"] = "fast"
    color: Color = Color.RED
    path: str | None = None
    anything: typing.Any = None


@pytest.fixture
def namespace():
    """The user's variables, as a notebook has them."""
    return {"Digits": Digits, "experiment": Digits(width=64), "batch": {"x": [1]}}


@pytest.fixture(scope="session")
def bare_shell():
    """The one IPython shell of the test process."""
    from IPython.testing.globalipapp import start_ipython

    return start_ipython()


@pytest.fixture
def shell(bare_shell):
    """A shell with the extension loaded, and its own variables."""
    bare_shell.reset(new_session=False)
    bare_shell.run_line_magic("load_ext", "nitro_repl")
    yield bare_shell
    bare_shell.run_line_magic("unload_ext", "nitro_repl")


class Console:
    """A shell with a live run, and what was said since the last look."""

    def __init__(self, shell, capsys):
        self.shell = shell
        self.capsys = capsys
        self.text = ""

    def cell(self, source):
        """Run a cell; what was said by its end."""
        self.capsys.readouterr()
        self.text = ""
        self.shell.run_cell(source).raise_error()
        return self.said()

    def said(self):
        """All that was said since the last cell began."""
        out, err = self.capsys.readouterr()
        self.text += out + err
        return self.text

    def waits_for(self, words):
        """Wait until something is said, in whatever thread."""
        until(lambda: words in self.said())
        return self.text

    @property
    def run(self):
        return self.shell.user_ns["run"]

    def settled(self):
        """The run, when no swap is on its way."""
        until(lambda: not self.run.swapping)
        return self.run


@pytest.fixture
def console(shell, capsys):
    made = Console(shell, capsys)
    for source in (IMPORTS, DATA, LOSS, TINY, TRAIN):
        made.cell(source)
    yield made
    shell.run_cell("for run in list(nitro.runs.values()):\n    run.stop()")
