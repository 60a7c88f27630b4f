from __future__ import annotations

import pytest
from code_sources import of, run

from nitro_repl._code import explain, fingerprint

SOURCE = """
GAIN = 2.0
TABLE = [1.0, [2.0]]
def a(x): return x * 2.0
def b(x): return a(x)
def c(x, k=3): return b(x) + k + GAIN
def focal(x): return 0.1 * x ** 2
class Net:
    width = 4
    def __call__(self, x): return x
def make(scale):
    def inner(x): return x * scale
    return inner
inner = make(1.5)
def root(x): return c(x) + focal(x) + inner(x) + Net()(x) + sum(TABLE)
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("0.1", "0.2", "constant 0.1 -> 0.2 in focal(), In [1]"),
        ("GAIN = 2.0", "GAIN = 3.0", "global GAIN 2.0 -> 3.0, read by c()"),
        ("x * 2.0", "x / 2.0", "helper a() changed (root() -> c() -> b()), In [1]"),
        ("width = 4", "width = 5", "attribute Net.width 4 -> 5"),
        ("return x\n", "return -x\n", "class Net: __call__() changed, In [1]"),
        ("make(1.5)", "make(2.5)", "captured scale 1.5 -> 2.5 in inner(), In [1]"),
        ("k=3", "k=4", "default k of c() 3 -> 4"),
        (
            "[2.0]",
            "[[[2.0]]]",
            "global TABLE [1.0, [2.0]] -> list of 2, read by root()",
        ),
        ("[2.0]", "[2.5]", "global TABLE [1.0, [2.0]] -> [1.0, [2.5]], read by root()"),
        ("+ sum(TABLE)", "", "root() changed, In [1]"),
        ("width = 4", "width = 4; depth = 1", "class Net changed, In [1]"),
    ],
)
def test_a_change_is_said_in_words(old, new, said):
    assert SOURCE.count(old) == 1
    sentences = explain(of(SOURCE), of(SOURCE.replace(old, new)))
    assert sentences[0] == said


def test_only_the_change_is_said():
    sentences = explain(of(SOURCE), of(SOURCE.replace("0.1", "0.2")))
    assert sentences == ["constant 0.1 -> 0.2 in focal(), In [1]"]


def test_nothing_is_said_of_equal_fingerprints():
    assert explain(of(SOURCE), of(SOURCE)) == []


def test_an_added_and_a_removed_helper_are_named():
    before = "def root(x): return x"
    after = "def body(x): return x\ndef root(x): return body(x)"
    added = explain(of(before), of(after, "<cell 9>"))
    assert added == ["root() changed, In [9]", "new: body(), In [9]"]
    removed = explain(of(after), of(before))
    assert removed == ["root() changed, In [1]", "no longer reached: body()"]


def test_any_change_is_said_somehow():
    from code_sources import DIFFERENT

    for pair in DIFFERENT:
        assert explain(of(pair.before), of(pair.after)), pair.name


def test_a_global_is_named_with_the_function_that_reads_it_not_with_its_place():
    source = (
        "SCALE = {}\n\ndef scaled(x): return x * SCALE\ndef root(x): return scaled(x)"
    )
    old, new = (of(source.format(k), "/somewhere/helpers.py") for k in (1.0, 2.0))
    said = "global SCALE 1.0 -> 2.0, read by scaled()"
    assert explain(old, new) == [said]


def test_a_mutated_registry_names_the_function():
    names = run("def f(x): return 1\nR = {'f': f}\ndef root(x): return R['f'](x)")
    old = fingerprint(names["root"])
    names["R"]["f"] = run("def f(x): return 2", "<cell 4>")["f"]
    new = fingerprint(names["root"])
    assert explain(old, new) == ["constant 1 -> 2 in f(), In [4]"]


def test_an_array_is_described_not_printed():
    source = "import numpy as np\nW = np.zeros(4, 'f4')\ndef root(x): return W"
    part = of(source).parts[1]
    assert (part.kind, part.name, part.text) == ("global", "W", "array f32[4]")


def test_long_values_are_cut():
    part = of("W = 'a' * 100000\ndef root(x): return W").parts[1]
    assert len(part.text) <= 60
