from __future__ import annotations

import types

import pytest

from nitro_repl._ipython import progress
from nitro_repl._ipython.progress import (
    NotebookLine,
    Screen,
    StartAndEnd,
    Toolbar,
    ToolbarLine,
)


class FakeApp:
    """A prompt session as far as the toolbar goes."""

    def __init__(self, toolbar=None):
        self.bottom_toolbar = toolbar
        self.drawn = 0
        self.app = self

    def invalidate(self):
        self.drawn += 1


@pytest.mark.parametrize(
    ("shell", "kind"),
    [
        ({"kernel": object(), "pt_app": None}, NotebookLine),
        ({"kernel": None, "pt_app": FakeApp()}, ToolbarLine),
        ({"pt_app": None}, StartAndEnd),
        ({}, StartAndEnd),
    ],
)
def test_each_shell_gets_the_best_line_it_can_show(shell, kind):
    assert type(Screen(types.SimpleNamespace(**shell)).line("r")) is kind


def test_a_notebook_line_is_one_output_updated_in_place(monkeypatch):
    shown = []

    class Handle:
        def update(self, line):
            shown.append(("update", repr(line)))

    def display(line, display_id):
        shown.append(("display", repr(line)))
        return Handle()

    monkeypatch.setattr(progress, "display", display)
    line = NotebookLine("digits-1")
    line.update("step 1")
    line.update("step 2")
    line.close("step 3  done")
    assert shown == [
        ("display", "digits-1  step 1"),
        ("update", "digits-1  step 2"),
        ("update", "digits-1  step 3  done"),
    ]


def test_a_notebook_line_is_escaped():
    line = progress._Line("</div><script>alert(1)</script>")
    assert "<script" not in line._repr_html_()
    assert repr(line) == "</div><script>alert(1)</script>"


def test_the_toolbar_shows_all_runs_and_is_given_back(capsys):
    app = FakeApp(toolbar="the user's own")
    toolbar = Toolbar(app)
    first, second = ToolbarLine(toolbar, "a"), ToolbarLine(toolbar, "b")
    first.update("step 1")
    second.update("step 5")
    assert app.bottom_toolbar() == "a  step 1\nb  step 5"
    first.close("done")
    assert app.bottom_toolbar() == "b  step 5"
    second.close("failed")
    assert app.bottom_toolbar == "the user's own"
    assert app.drawn == 4
    assert capsys.readouterr().out == "a  done\nb  failed\n"


def test_where_nothing_can_change_in_place_the_first_and_last_line_are_printed(capsys):
    line = StartAndEnd("r")
    line.update("step 1")
    line.update("step 2")
    line.close("step 3  done")
    assert capsys.readouterr().out == "r  step 1\nr  step 3  done\n"
