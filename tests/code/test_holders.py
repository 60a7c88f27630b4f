# ruff: noqa: E501 (a source on one line reads as one case)
from __future__ import annotations

import pytest

from tests.code.test_files import cell, folder as folder, namespace

SOURCE = """
import enum
from typing import NamedTuple
def f(x): return {0} * x
class C:
    def __init__(self, k): self.k = k
    def f(self): return {0} * self.k
    def g(self): return self.f()
class Mode(enum.Enum):
    A = {0}
class Pair(NamedTuple):
    a: int
    b: int = {0}
    def f(self): return {0} * self.a
class Slots:
    __slots__ = ("k",)
    def f(self): return {0} * self.k
"""

HOLDERS = {
    "partial": ("g = functools.partial(m1.f, 2)", "g()"),
    "partial of a partial": ("g = functools.partial(functools.partial(m1.f), x=2)", "g()"),
    "partial argument": ("g = functools.partial(map, m1.f)", "list(g([2]))[0]"),
    "dict": ("R = {'f': m1.f, 'n': 1}", "R['f'](2)"),
    "nested": ("R = {'a': [{'b': (1, [m1.f])}]}", "R['a'][0]['b'][1][0](2)"),
    "tuple": ("T = (1, m1.f)", "T[1](2)"),
    "set": ("S = {m1.f}", "[*S][0](2)"),
    "partial in a dict": ("R = {'f': functools.partial(m1.f, 2)}", "R['f']()"),
    "renamed import": ("from m1 import f as q", "q(2)"),
    "closure": ("def make(h): return lambda x: h(x)\ng = make(m1.f)", "g(2)"),
    "decorated": ("def deco(h):\n  @functools.wraps(h)\n  def w(x): return h(x)\n  return w\ng = deco(m1.f)", "g(2)"),
    "default": ("def g(x, h=m1.f): return h(x)", "g(2)"),
    "keyword default": ("def g(x, *, h=m1.f): return h(x)", "g(2)"),
    "class attribute": ("class U:\n  h = staticmethod(m1.f)", "U.h(2)"),
    "method default": ("class U:\n  def g(self, x, h=m1.f): return h(x)", "U().g(2)"),
    "instance attribute": ("class U: pass\nu = U()\nu.h = m1.f", "u.h(2)"),
    "instance": ("c = m1.C(2)", "c.g()"),
    "instances in a list": ("L = [m1.C(2)]", "L[0].g()"),
    "bound method": ("b = m1.C(2).g", "b()"),
    "named tuple": ("p = m1.Pair(2)", "p.f()"),
    "class in a dict": ("R = {'c': m1.C}", "R['c'](2).f()"),
}  # fmt: skip


@pytest.fixture
def cells(folder):
    """Runs cells in a notebook that has imported m1, and edits of m1."""
    folder.make("m1", SOURCE.format(3))
    names = namespace(folder, "import functools, m1\n__name__ = '__main__'")

    def edit(k):
        changes = folder.edit("m1", SOURCE.format(k))
        return [held for change in changes for held in change.held]

    return names, lambda source: cell(names, source), edit


@pytest.mark.parametrize("kind", HOLDERS)
def test_what_a_cell_made_holds_the_newest_code(cells, kind):
    names, run, edit = cells
    source, used = HOLDERS[kind]
    run(source)
    assert eval(used, names) == 6
    for k in (5, 7):
        assert edit(k) == []
        assert eval(used, names) == 2 * k


def test_an_instance_of_an_edited_class_is_one_of_the_newest(cells):
    names, run, edit = cells
    run("c = m1.C(2)\nmode = m1.Mode.A\nr = [c]")
    held = names["c"]
    edit(5)
    assert names["c"] is held is names["r"][0]
    assert type(held) is names["m1"].C
    assert names["mode"] is names["m1"].Mode.A


LEFT = {
    "own name": ("g = m1.f", "g", "m1.f"),
    "subclass": ("class Sub(m1.C): pass", "Sub", "m1.C"),
    "slots": ("s = m1.Slots()", None, None),
    "iterator": ("it = map(m1.f, [1])", "it", "m1.f"),
    "frozen set": ("S = frozenset([m1.f])", "S", "m1.f"),
    "key": ("R = {m1.f: 1}", None, None),
    "dict view": ("v = {'f': m1.f}.values()", "v", "m1.f"),
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_stays_old_is_said_once_with_its_cell(cells, kind):
    _, run, edit = cells
    source, name, what = LEFT[kind]
    run("x = 1")
    run(source)
    held = edit(5)
    if name is None:
        assert held == []
    else:
        assert [(h.name, h.what, h.cell) for h in held] == [(name, what, 3)]
    assert edit(7) == []


def test_the_cell_run_again_renews_what_stayed_old(cells):
    names, run, edit = cells
    run("g = m1.f")
    assert edit(5)
    run("g = m1.f")
    assert names["g"](2) == 10


def test_what_is_not_edited_is_left_alone(cells):
    names, run, edit = cells
    run(
        "g = functools.partial(len)\nR = {'f': print}\nL = [1, [2]]\nclass U: pass\nu = U()"
    )
    before = dict(names)
    edit(5)
    assert all(names[name] is value for name, value in before.items())


def test_an_undone_edit_is_followed_back(cells):
    names, run, edit = cells
    run("g = functools.partial(m1.f, 2)\nR = [m1.f]")
    edit(5)
    edit(3)
    assert names["g"]() == names["R"][0](2) == 6


def test_data_is_not_walked(cells):
    names, run, edit = cells
    run("R = [m1.f]\nbig = [[k] for k in range(100_000)]\nbig.append(m1.f)")
    edit(5)
    assert names["R"][0](2) == 10
    assert names["big"][-1](2) == 6  # a registry is not so long


def test_a_cycle_ends(cells):
    names, run, edit = cells
    run("R = {'f': m1.f}\nR['self'] = R\nclass U: pass\nu = U()\nu.u = u\nu.R = R")
    edit(5)
    assert names["u"].R["self"]["f"](2) == 10
