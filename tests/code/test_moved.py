"""Definitions that go from one file to another: the same code, not the same globals."""

from __future__ import annotations

import pytest

from tests.code.test_files import folder as folder, namespace

F = "K = {}\ndef f(): return K\n"
C = "K = {}\nclass C:\n  def go(self): return K\nf = C().go\n"
D = "class C:\n  k = {}\ndef f(): return C.k\n"
MOVED = {
    "function": (F, "from m2 import f\n"),
    "class": (C, "from m2 import C\nf = C().go\n"),
    "class of data": (D, "from m2 import C\ndef f(): return C.k\n"),
}


@pytest.mark.parametrize("kind", MOVED)
def test_a_definition_that_moved_to_another_file_follows_that_file(folder, kind):
    source, imported = MOVED[kind]
    folder.make("m2", "K = 1\n")
    m1 = folder.make("m1", source.format(1))
    names = namespace(folder, "from m1 import f\n")
    folder.write("m2", source.format(1))
    folder.edit("m1", imported + "K = 5\n")  # a global of the same name stays behind
    assert m1.f() == names["f"]() == 1
    folder.edit("m2", source.format(2))
    assert m1.f() == names["f"]() == 2


def test_an_import_that_now_names_another_file_follows_that_one(folder):
    folder.make("m1", F.format(1))
    folder.make("m2", F.format(1))
    m3 = folder.make("m3", "from m1 import f\n")
    folder.edit("m3", "from m2 import f\n")
    folder.edit("m1", F.format(7))
    assert m3.f() == 1
    folder.edit("m2", F.format(2))
    assert m3.f() == 2
