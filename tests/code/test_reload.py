"""Modules that somebody else executes: `importlib.reload`, or an import anew."""

from __future__ import annotations

import importlib
import sys

import pytest

from tests.code.test_files import folder as folder, namespace

SOURCE = "def f(): return {0}\nK = {0}\nclass C:\n  k = {0}\n"
NAMES = "from m1 import f, K, C\nc = C()\n"


def reload_():
    importlib.invalidate_caches()
    importlib.reload(sys.modules["m1"])


def import_anew():
    importlib.invalidate_caches()
    del sys.modules["m1"]
    importlib.import_module("m1")


def values(names):
    return names["f"](), names["K"], names["C"].k, names["c"].k


@pytest.mark.parametrize("again", [reload_, import_anew])
def test_what_was_imported_follows_an_edit_that_somebody_else_executed(folder, again):
    folder.make("m1", SOURCE.format(1))
    m2 = folder.make("m2", "from m1 import f\nimport m1\nTWICE = 2 * m1.f()\n")
    names = namespace(folder, NAMES)
    folder.write("m1", SOURCE.format(20))
    again()
    folder.refresh()
    assert values(names) == (20, 20, 20, 20)
    assert m2.f() == 20
    assert again is import_anew or m2.TWICE == 40


@pytest.mark.parametrize("again", [reload_, import_anew])
def test_an_edit_is_followed_after_somebody_else_executed_the_same(folder, again):
    folder.make("m1", SOURCE.format(1))
    m2 = folder.make("m2", "from m1 import f\n")
    names = namespace(folder, NAMES)
    again()
    folder.refresh()
    assert folder.refresh() == []
    folder.edit("m1", SOURCE.format(2))
    assert values(names) == (2, 2, 2, 2)
    assert m2.f() == 2


def test_an_edit_that_came_before_and_one_that_came_after_a_reload(folder):
    folder.make("m1", SOURCE.format(1))
    names = namespace(folder, NAMES)
    folder.write("m1", SOURCE.format(20))
    reload_()
    folder.edit("m1", SOURCE.format(300))
    assert values(names) == (300, 300, 300, 300)


def test_a_file_that_does_not_parse_after_a_reload_is_told(folder):
    folder.make("m1", SOURCE.format(1))
    names = namespace(folder, NAMES)
    folder.write("m1", SOURCE.format(20))
    reload_()
    (change,) = folder.edit("m1", "def f(:\n")
    assert isinstance(change.error, SyntaxError)
    assert values(names) == (20, 20, 20, 20)


def test_what_the_user_assigned_stays_after_a_reload(folder):
    folder.make("m1", SOURCE.format(1))
    names = namespace(folder, NAMES + "f = lambda: 'mine'\nK = 5\n")
    folder.write("m1", SOURCE.format(20))
    reload_()
    folder.refresh()
    assert values(names) == ("mine", 5, 20, 20)
