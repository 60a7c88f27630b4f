"""A swap leaves the settings of a handle alone, and says what newer code gives."""

from __future__ import annotations

import pytest
from cells import going, tiny
from reported import rows

import nitro_repl as nitro

CLASS = "class Own(Tiny):\n    def describe(self): pass\n    "


def swapped(run, book, body):
    book.cell(CLASS + body)
    return str(run.swap())


def test_new_fields_that_are_settings_change_nothing_in_a_run():
    book = tiny(CLASS)
    with (
        going(book.handle("Own", max_steps=None), 2) as run,
        going(book.handle("Own", max_steps=None, accum=5), 1) as other,
    ):
        before = rows(run.in_force())
        told = swapped(run, book, "accum: int = 5\n    seed: int = 9\n    new: int = 1")
        assert "only a new Nitro takes seed = 9, accum = 5; the run keeps 0, 1" in told
        assert "new field new = 1" in told
        assert "new field accum" not in told
        now = rows(run.in_force())
        assert now.pop("new") == (1, "default")
        assert now == before
        assert rows(run.report().in_force)["accum"] == (1, "default")
        assert nitro.compare(run, other).settings["accum"] == (1, 5)
        assert "accum" not in nitro.compare(run, other).fields
        assert run.handle.experiment is not run.programs.blueprint.experiment
        assert run.programs.blueprint.experiment.accum == 1, "what a hook reads"
        assert "only a new" not in str(run.swap()), "told once"
        assert "only a new" not in str(run.swap(undo=True))
        assert "seed = 9" in (told := str(other.swap()))
        assert "accum" not in told, "a keyword wins over any code"
    assert book.handle("Own").settings["accum"] == 5


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("on_nonfinite = 'skip'", "takes on_nonfinite = 'skip'; the run keeps 'stop'"),
        ("eval_every = 7", ""),
        ("pad_eval = False", "takes pad_eval = False; the run keeps True"),
        ("def accum(self): return 5", "takes accum = 5; the run keeps 1"),
        ("def accum(self): return 1", ""),
        ("def accum(self): return 1 / 0", ""),
    ],
)
def test_plain_settings_and_methods_of_new_code_are_named(body, line):
    book = tiny(CLASS)
    with going(book.handle("Own")) as run:
        told = swapped(run, book, body)
        assert line in told
        assert ("only a new Nitro" in told) == bool(line)
        assert rows(run.in_force()) == rows(run.handle.set_up)


def test_a_setting_that_newer_code_leaves_out_stays_and_keeps_its_origin():
    book = tiny(CLASS + "accum: int = 5")
    with going(book.handle("Own")) as run:
        told = swapped(run, book, "")
        assert "only a new Nitro takes accum = 1; the run keeps 5" in told
        assert rows(run.in_force())["accum"] == (5, "default")
