from __future__ import annotations

import enum
import typing

import pytest

from nitro_repl import Device, Experiment, GraphConst


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
