from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from nitro_repl._run.dashboard import Dashboard, allot

X = np.arange(100.0)


def value(name, now, **about):
    row = {"value": now, "next": now, "default": now, "changed": False, "follows": ""}
    return {"name": name, **row, "bounds": None, "log": False, "doc": "", **about}


def program(name, outcome="compiled", **about):
    row = {"why": "", "cost": 0.25, "stale": False, "busy": False}
    return {"name": name, "outcome": outcome, **row, **about}


def sections(**changes):
    progress = {
        "step": 40, "total": 100, "epoch": 2, "epochs": 5, "loss": 0.51234,
        "rate": 10.0, "eta": 6.0, "wait": 0.25, "phase": "stepping",
        "note": "compiling loss",
    }  # fmt: skip
    return {
        "head": {"run": "r-1", "experiment": "Tiny"},
        "progress": progress,
        "values": [
            value("smoothing", 0.1, default=0.05, changed=True, bounds=[0.0, 0.3]),
            value("learning_rate", 0.01, follows="scheduled", next=0.02),
        ],
        "programs": [
            program("loss", stale=True, why="constant 0.1 -> 0.2 in loss(), In [7]"),
            program("eval", busy=True),
        ],
        "edit": "also moved: metrics (host)",
        "error": "",
        **changes,
    }


CURVES = {"loss": (X, np.exp(-X / 30)), "val acc": (X, X / 100)}
LINES = [
    {"at": 0.0, "text": "step 3  set smoothing 0.05 → 0.1  (cell)", "kind": "change"},
    {"at": 0.0, "text": "swap refused\nline two", "kind": "bad"},
]


def drawn(dashboard, width):
    console = Console(file=io.StringIO(), width=width, force_jupyter=False)
    console.print(dashboard)
    return console.file.getvalue().splitlines()


def test_a_dashboard_shows_what_the_panel_shows():
    text = repr(Dashboard(sections(), CURVES, LINES))
    for part in (
        "Tiny r-1",
        "stepping  step 40/100  epoch 2/5  loss 0.5123  10 steps/s  eta 6.0 s  "
        "data wait 25%",
        "compiling loss",
        "val acc",
        "▁",
        "default 0.05, 0 to 0.3",
        "scheduled, next 0.02",
        "compiled stale",
        "constant 0.1 -> 0.2 in loss(), In [7]",
        " compiling ",
        "also moved: metrics (host)",
        "set smoothing 0.05 → 0.1  (cell)",
        "line two",
    ):
        assert part in text, part
    assert "error" not in text


def test_an_error_is_shown_with_its_frames():
    error = "  In [3], line 2, in loss\n    return 1 / 0\nHookError: it broke"
    text = repr(Dashboard(sections(error=error), {}))
    assert "In [3], line 2, in loss" in text
    assert "HookError: it broke" in text


def test_nothing_of_the_user_is_markup_or_an_escape():
    evil = "[red]x[/red]\x1b[2J</pre><script>"
    shown = Dashboard(
        sections(
            head={"run": evil, "experiment": evil},
            values=[value(evil, evil, doc=evil)],
            programs=[program(evil, why=evil)],
            error=evil,
            edit=evil,
        ),
        {evil: CURVES["loss"]},
        [{"at": 0.0, "text": evil, "kind": "told"}],
    )
    assert repr(shown).count("[red]x") >= 8
    assert "\x1b" not in repr(shown)
    assert "<script" not in shown._repr_html_()
    assert shown._repr_html_().count("</pre>") == 1


@pytest.mark.parametrize("room", [12, 16, 24, 40])
@pytest.mark.parametrize("width", [50, 100, 180])
def test_it_fits_the_screen(room, width):
    many = [value(f"value_{i}", i) for i in range(20)]
    lines = drawn(Dashboard(sections(values=many), CURVES, 20 * LINES, room), width)
    assert len(lines) <= room
    assert max(map(len, lines)) == width
    assert any("more" in line for line in lines)
    assert "line two" in lines[-2]  # the last line of the log is always there


def test_a_run_that_has_done_nothing_yet_can_be_shown():
    nothing = {"loss": None, "rate": None, "eta": None, "wait": None, "note": ""}
    progress = {**sections()["progress"], **nothing, "total": None, "step": 0}
    empty = sections(progress=progress, values=[], programs=[], edit="")
    assert "step 0" in repr(Dashboard(empty, {}))
    assert "loss" not in repr(Dashboard(empty, {"loss": (X[:0], X[:0])}))


def test_lines_are_shared_out_evenly():
    assert allot([2, 9, 4], 100) == [2, 9, 4]
    assert allot([2, 9, 4], 9) == [2, 4, 3]
    assert allot([2, 9], 0) == [0, 0]
    assert allot([2, 9], -3) == [0, 0]
