# ruff: noqa: E501 (a source on one line reads as one case)
from __future__ import annotations

import pytest

from nitro_repl._code import user_file
from nitro_repl._code.diff import explain
from nitro_repl._code.fingerprint import fingerprint
from nitro_repl._code.gone import HELD, IMPORTED, codes_of
from tests.code.test_files import cell, folder as folder, namespace

SOURCE = "def f(x): return 2 * x\nclass C:\n  def go(self): return 1\nK = 3.0\n"
WITHOUT = {"f": "f(x)", "C": "C:", "K": "K ="}


def without(name, new="other"):
    """The module with another name for one definition."""
    return SOURCE.replace(WITHOUT[name], WITHOUT[name].replace(name, new))


HOLDS = {
    "import": ("from m1 import f", "def g(): return f(1)", "f", "f", IMPORTED),
    "renamed import": ("from m1 import f as q", "def g(): return q(1)", "q", "f", IMPORTED),
    "constant": ("from m1 import K", "def g(): return K", "K", "K", IMPORTED),
    "star": ("from m1 import *", "def g(): return f(1)", "f", "f", IMPORTED),
    "own name": ("q = m1.f", "def g(): return q(1)", "q", "f", HELD),
    "partial": ("q = functools.partial(m1.f, 1)", "def g(): return q()", "q", "f", HELD),
    "dict": ("R = {'f': m1.f}", "def g(): return R['f'](1)", "R", "f", HELD),
    "instance": ("c = m1.C()", "def g(): return c.go()", "c", "C", HELD),
    "subclass": ("class D(m1.C): pass", "def g(): return D().go()", "D", "C", HELD),
}  # fmt: skip


@pytest.mark.parametrize("kind", HOLDS)
def test_what_still_stands_for_a_name_that_is_gone_is_said_once(folder, kind):
    bind, use, name, what, reason = HOLDS[kind]
    folder.make("m1", SOURCE)
    names = namespace(folder, "import functools, m1\n__name__ = '__main__'")
    cell(names, bind)
    cell(names, use)
    before = fingerprint(names["g"])
    value = names["g"]()
    held = [held for change in folder.edit("m1", without(what)) for held in change.held]
    number = 0 if kind == "star" else 2
    assert (name, f"m1.{what}", number) in [(h.name, h.what, h.cell) for h in held]
    assert all(h.gone for h in held)
    assert names["g"]() == value, "what runs is not broken"
    after = fingerprint(names["g"])
    assert after.digest != before.digest
    assert any(one.startswith(f"{reason} m1.{what} in ") for one in after.unsound)
    assert f"`m1.{what}` is gone from its file" in explain(before, after)[0]
    further = folder.edit("m1", without(what) + "# a comment\n")
    assert [change.held for change in further] == [()]
    back = folder.edit("m1", SOURCE)
    assert [held for change in back for held in change.held if held.gone] == []
    cell(names, bind)
    assert fingerprint(names["g"]).digest == before.digest
    assert fingerprint(names["g"]).unsound == before.unsound


def test_a_name_that_is_back_with_other_code_is_followed_again(folder):
    folder.make("m1", SOURCE)
    names = namespace(folder, "from m1 import f, K")
    cell(names, "def g(): return f(1) + K")
    folder.edit("m1", without("f").replace("K =", "L ="))
    assert names["g"]() == 5.0
    folder.edit("m1", SOURCE.replace("2 * x", "7 * x").replace("3.0", "4.0"))
    assert names["g"]() == 11.0
    assert fingerprint(names["g"]).unsound == ()


def test_what_is_renamed_but_kept_under_another_name_is_not_gone_for_that(folder):
    folder.make("m1", SOURCE + "h = f\n")
    names = namespace(folder, "import m1\nq = m1.h")
    cell(names, "def g(): return q(1)")
    before = fingerprint(names["g"]).digest
    [change] = folder.edit("m1", SOURCE + "h = f\ndel f\n")
    assert change.held == ()
    assert fingerprint(names["g"]).digest == before


def test_what_a_module_imported_itself_is_never_gone(folder):
    folder.make("m1", "from functools import reduce\nimport math\ndef f(x): return x\n")
    names = namespace(folder, "import m1, functools\nq = functools.reduce")
    [change] = folder.edit("m1", "def f(x): return x\n")
    assert change.held == ()
    assert names["q"] is names["functools"].reduce


def test_a_name_of_unknown_origin_is_no_copy_of_what_the_file_only_imported(folder):
    folder.make("m1", "import math\ndef f(x): return x\ndef g(x): return x\n")
    names = namespace(folder, "import m1")
    names.update(math=names["m1"].math, f=names["m1"].f)  # by no cell
    [change] = folder.edit("m1", "def g(x): return x\n")
    assert [held.what for held in change.held] == ["m1.f"]


def test_a_file_that_imports_what_is_gone_does_not_run_and_heals(folder):
    folder.make("m1", SOURCE)
    folder.make("m2", "from m1 import f\ndef via(x): return f(x)\n")
    names = namespace(folder, "from m2 import f\nimport m2")
    cell(names, "def g(): return m2.via(1) + f(1)")
    before = fingerprint(names["g"])
    changes = {c.module: c for c in folder.edit("m1", without("f"))}
    assert isinstance(changes["m2"].error, ImportError)
    assert "cannot import name 'f'" in str(changes["m2"].error)
    assert [(h.name, h.what) for h in changes["m1"].held] == [("f", "m1.f")]
    assert names["g"]() == 4, "its old code stays"
    reasons = [
        one for one in fingerprint(names["g"]).unsound if one.startswith(IMPORTED)
    ]
    assert len(reasons) == 2, "through the other file, and the copy of a copy"
    assert folder.edit("m2", "from m1 import other as f\ndef via(x): return f(x)\n")
    assert names["g"]() == 4
    after = fingerprint(names["g"])
    assert after.unsound == before.unsound == ()


def test_a_file_that_can_do_without_is_brought_up_to_date(folder):
    folder.make("m1", SOURCE)
    source = (
        "try:\n    from m1 import f\nexcept ImportError:\n    def f(x): return -x\n"
    )
    folder.make("m2", source)
    names = namespace(folder, "import m2\ndef g(): return m2.f(1)")
    changes = folder.edit("m1", without("f"))
    assert [change.error for change in changes] == [None]
    assert names["g"]() == -1
    assert fingerprint(names["g"]).unsound == ()


def test_a_missing_attribute_of_a_module_is_named_and_the_module_is_not_walked(folder):
    folder.make("m1", SOURCE)
    names = namespace(folder, "import m1\ndef g(): return m1.f(1)")
    before = fingerprint(names["g"])
    folder.edit("m1", without("f"))
    after = fingerprint(names["g"])
    assert explain(before, after)[0] == "`m1.f` is not defined, g() reads it"
    folder.edit("m1", without("f").replace("3.0", "4.0"))
    assert fingerprint(names["g"]).digest == after.digest
    folder.edit("m1", SOURCE)
    assert fingerprint(names["g"]).digest == before.digest


def test_a_file_that_is_deleted_is_told_once_and_its_code_stays(folder, monkeypatch):
    module = folder.make("m1", SOURCE)
    file = folder.path / "m1.py"
    file.unlink()
    assert folder.refresh() == [], "it may be in the middle of a rename"
    monkeypatch.setattr(user_file, "HALF_WRITTEN_NS", 0)
    [change] = folder.refresh()
    assert isinstance(change.error, FileNotFoundError)
    assert folder.refresh() == []
    assert module.f(1) == 2
    [change] = folder.edit("m1", SOURCE.replace("2 * x", "7 * x"))
    assert change.error is None
    assert module.f(1) == 7
    file.unlink()
    assert len([*folder.refresh(), *folder.refresh()]) == 1, "deleted again, told again"


def test_the_code_of_a_class_is_that_of_its_methods():
    class Some:
        @staticmethod
        def one():
            return 1

        @property
        def two(self):
            return 2

    assert len(set(codes_of(Some))) == 2
    assert len(set(codes_of(Some.one))) == 1
