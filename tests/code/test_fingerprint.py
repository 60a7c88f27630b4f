# ruff: noqa: E501 (a source on one line reads as one case)
from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from code_sources import DIFFERENT, EQUAL, SAME_TWICE, of, run

from nitro_repl._code import Opaque, fingerprint, register


def named(pair):
    return pair.name


@pytest.mark.parametrize("pair", EQUAL, ids=named)
def test_an_edit_without_meaning_keeps_the_digest(pair):
    assert of(pair.before).digest == of(pair.after, "/other/elsewhere.py").digest


@pytest.mark.parametrize("pair", DIFFERENT, ids=named)
def test_an_edit_with_meaning_changes_the_digest(pair):
    assert of(pair.before).digest != of(pair.after).digest


@pytest.mark.parametrize("source", DIFFERENT, ids=named)
def test_running_a_source_again_keeps_the_digest(source):
    for text in (source.before, source.after):
        assert of(text).digest == of("\n\n" + text, "<ipython-input-7-ab>").digest


@pytest.mark.parametrize("name", SAME_TWICE)
def test_running_a_definition_again_keeps_the_digest(name):
    source = SAME_TWICE[name]
    first, second = of(source), of("\n\n\n" + source, "<cell 9>")
    assert first.digest == second.digest
    assert not first.unsound


@pytest.mark.parametrize("name", SAME_TWICE)
def test_walking_does_not_change_what_it_walks(name):
    root = run(SAME_TWICE[name])["root"]
    assert fingerprint(root).digest == fingerprint(root).digest


SCRIPT = """
import sys; sys.path[:0] = [{root!r}, {here!r}]
import code_sources
from code_sources import DIFFERENT, SAME_TWICE, of
for text in [*(p.before for p in DIFFERENT), *SAME_TWICE.values()]:
    print(of(text).digest)
"""


def test_digests_agree_between_processes():
    here = os.path.dirname(__file__)
    root = os.path.dirname(os.path.dirname(here))
    script = SCRIPT.format(root=root, here=here)
    outs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for seed in ("1", "2")
    ]
    assert outs[0] == outs[1]
    assert len(outs[0]) == len(DIFFERENT) + len(SAME_TWICE)


def test_values_alone_have_digests():
    values = [0, 0.0, -0.0, False, None, "", b"", (), [], {}, "0"]
    assert len({fingerprint(value).digest for value in values}) == len(values)


UNSOUND = {
    "os.environ is read in root()": "import os\ndef root(x): return os.environ['A']",
    "time.time is read in root()": "import time\ndef root(x): return time.time()",
    "time.time is reached in root()": "from time import time\ndef root(x): return time()",
    "open() is called in root()": "def root(x): return open(x)",
    "globals() is called in root()": "def root(x): return globals()['a']",
    "vars() is called in root()": "def root(x): return vars()",
    "eval() is called in helper()": "def helper(x): return eval(x)\ndef root(x): return helper(x)",
    "id() is called in A.f()": "class A:\n  def f(self): return id(self)\na = A()\ndef root(x): return a.f()",
    "__code__ is read in root()": "def root(x): return x.__code__",
    "np.random.rand is read in root()": "import numpy as np\ndef root(x): return np.random.rand(3)",
    "np.random.default_rng is read in root()": "import numpy as np\ndef root(x): return np.random.default_rng()",
    "the content of a numpy.random._generator.Generator cannot be read, reached in root()": "import numpy as np\nr = np.random.default_rng(0)\ndef root(x): return r.random()",
    "the content of a builtins.generator cannot be read, reached in root()": "g = (i for i in range(3))\ndef root(x): return next(g)",
    "the content of a _thread.lock cannot be read, reached in root()": "import threading\nl = threading.Lock()\ndef root(x): return l",
    "the content of a random.Random cannot be read, reached in root()": "import random\nr = random.Random(3)\ndef root(x): return r.random()",
    "np.load is read in root()": "import numpy as np\ndef root(x): return np.load(x)",
    "numpy.loadtxt is reached in root()": "from numpy import loadtxt\ndef root(x): return loadtxt(x)",
    "builtins.open is read in root()": "import builtins\ndef root(x): return builtins.open(x)",
    "read_text is read in root()": "from pathlib import PurePath\nP = PurePath('a')\ndef root(x): return P.read_text()",
    "open is read in root()": "import pathlib\nP = pathlib.PurePath('a')\ndef root(x): return P.open()",
    "exists is read in root()": "def root(x): return x.exists()",
    "__subclasses__ is read in root()": "class A: pass\ndef root(x): return A.__subclasses__()",
    "__annotations__ is read in root()": "def f(x: 1): pass\ndef root(x): return f.__annotations__",
    "get_type_hints is read in root()": "import typing\nclass A: pass\ndef root(x): return typing.get_type_hints(A)",
    "__qualname__ is read in root()": "def root(x): return x.__qualname__",
    "isEnabledFor is read in root()": "import logging\ndef root(x): return logging.getLogger('a').isEnabledFor(10)",
    "decimal.getcontext is read in root()": "import decimal\ndef root(x): return decimal.getcontext().prec",
    "np.geterr is read in root()": "import numpy as np\ndef root(x): return np.geterr()",
    "random.random is read in root()": "import random\ndef root(x): return random.random()",
}  # fmt: skip


@pytest.mark.parametrize("reason", UNSOUND)
def test_what_content_cannot_vouch_for_is_named_with_its_reader(reason):
    found = of(UNSOUND[reason]).unsound
    assert f"{reason}, In [1]" in found


@pytest.mark.parametrize(
    "source",
    [
        "import math\ndef root(x): return math.sin(x) + math.pi",
        "def root(x): print(x); return len(vars(x)), sorted(x), isinstance(x, int)",
        "import logging\nlog = logging.getLogger('a')\ndef root(x): log.info('a'); return logging.DEBUG",
        "import functools, itertools, operator\ndef root(x): return functools.reduce(operator.add, itertools.chain(x))",
        "import numpy as np\ndef root(x): return np.random.default_rng(0).random()",
        "def root(x):\n  class A:\n    def f(self): return x\n  return A().f()",
        "from functools import reduce\nfrom operator import add\ndef root(x): return reduce(add, x)",
        "import numpy as np\nf = np.sum\ndef root(x): return f(x) + np.pi + np.float32(1)",
    ],
)
def test_pure_code_is_sound(source):
    assert of(source).unsound == ()


def test_a_mutated_container_changes_the_digest():
    names = run("W = [1.0]\nD = {}\ndef root(x): return sum(W), D")
    first = fingerprint(names["root"]).digest
    names["W"].append(2.0)
    second = fingerprint(names["root"]).digest
    names["D"]["a"] = 1
    assert len({first, second, fingerprint(names["root"]).digest}) == 3
    names["W"].pop()
    del names["D"]["a"]
    assert fingerprint(names["root"]).digest == first


def test_a_monkeypatched_library_function_is_walked():
    import statistics as library

    names = run("import statistics\ndef root(x): return statistics.mean(x)")
    first = fingerprint(names["root"]).digest
    kept = library.mean
    try:
        library.mean = run("def mean(x): return 1")["mean"]
        second = fingerprint(names["root"]).digest
        library.mean = run("def mean(x): return 2")["mean"]
        third = fingerprint(names["root"]).digest
    finally:
        library.mean = kept
    assert len({first, second, third}) == 3
    assert fingerprint(names["root"]).digest == first


@pytest.mark.parametrize(
    "root",
    ["P('a')", "P", "def root(x): return p", "class root(P): pass"],
    ids=["an instance", "the class", "a function", "a subclass"],
)
def test_a_method_that_was_replaced_in_a_library_class_is_walked(root, monkeypatch):
    from string import Template

    define = root if root.startswith(("def", "class")) else f"root = {root}"
    names = run(f"from string import Template as P\np = P('a')\n{define}")
    first = fingerprint(names["root"]).digest
    for number in (1, 2):
        with monkeypatch.context() as patch:
            method = run(f"def substitute(self): return {number}")["substitute"]
            patch.setattr(Template, "substitute", method)
            assert fingerprint(names["root"]).digest != first, number
    assert fingerprint(names["root"]).digest == first


def test_a_setting_that_is_read_off_a_library_object_counts(monkeypatch):
    import reprlib

    names = run("import reprlib\ndef root(x): return reprlib.aRepr.maxlist")
    first = fingerprint(names["root"]).digest
    monkeypatch.setattr(reprlib.aRepr, "maxlist", 99)
    assert fingerprint(names["root"]).digest != first
    monkeypatch.setattr(reprlib.aRepr, "maxdict", 99)
    second = fingerprint(names["root"]).digest
    monkeypatch.undo()
    assert fingerprint(names["root"]).digest == first != second


def test_a_global_of_a_file_is_seen_through_the_module(tmp_path, monkeypatch):
    (tmp_path / "nitro_losses.py").write_text("GAIN = 2.0\ndef gain(x): return GAIN\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = run("import nitro_losses as l\ndef root(x): return l.gain(x)")
    first = fingerprint(names["root"])
    names["l"].GAIN = 3.0
    assert fingerprint(names["root"]).digest != first.digest
    assert first.parts[1].where == "nitro_losses.py:2"
    sys.modules.pop("nitro_losses")


def test_a_deep_chain_does_not_recurse():
    source = "x = []\nfor _ in range(20000): x = [x]\nroot = x"
    assert of(source).digest == of(source).digest


def test_codes_hold_nested_functions():
    source = "def root(x):\n  def body(c): return [lambda: d for d in c]\n  return body"
    found = of(source).codes
    assert len(found) in (3, 4)  # 3.12 inlines the comprehension


class Handle:
    __slots__ = ("state",)

    def __init__(self, state):
        self.state = state


def test_a_reducer_says_what_to_walk_instead():
    class Mine(Handle):
        pass

    value = Mine([1])
    register(Mine, lambda handle: handle.state)
    first = fingerprint(value).digest
    value.state = [2]
    assert fingerprint(value).digest != first
    register(Mine, lambda handle: Opaque("a Mine is not readable"))
    assert fingerprint(value).unsound == ("a Mine is not readable in the value",)


def test_a_reducer_that_fails_is_a_reason_not_an_error():
    class Broken(Handle):
        pass

    def fail(handle):
        raise RuntimeError

    register(Broken, fail)
    (reason,) = fingerprint(Broken(1)).unsound
    assert "Broken cannot be read (RuntimeError)" in reason


def test_a_reason_names_the_code_to_blame():
    found = of("import os\ndef helper(): return os.environ\ndef root(x): return helper")
    (reason,) = found.unsound
    assert reason.code in found.codes


# -- the experiment that owns the code

OWNER = """
import dataclasses
@dataclasses.dataclass(frozen=True, order=True)
class Cfg:
    g: float = 1.0
class Base:
    GAIN = {gain}
    HOST = {host}
    def loss(self, x): return x * {base}
    def metrics(self, x): return {metrics}
class Exp(Base):
    K = {k}
    def loss(self, x): return {body}
    def host(self): return {metrics}
root = Exp.loss
"""


def owned(body: str, **values: object) -> str:
    filled = {"gain": 1, "host": 1, "base": 1, "metrics": 1, "k": 1, **values}
    names = run(OWNER.format(body=body, **filled))
    return fingerprint(names["root"], owner=names["Exp"]).digest


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("super().loss(x)", {"base"}),
        ("super(Exp, self).loss(x)", {"base"}),
        ("Exp.K", {"k"}),
        ("Exp.GAIN", {"gain"}),
        ("Base.GAIN", {"gain"}),
        ("Base.loss(self, x)", {"base"}),
        ("x", set()),
        ("x * Cfg().g", set()),  # its methods ask for `__class__`
        ("self.K", set()),  # the traced view keeps this account
        ("__class__.K", {"k"}),
        ("[super(Exp, self).loss(y) for y in x]", {"base"}),
        ("getattr(Exp, x)", {"gain", "host", "base", "metrics", "k"}),
        ("vars(type(self))", {"gain", "host", "base", "metrics", "k"}),
    ],
)
def test_of_its_experiment_code_counts_what_it_can_reach(body, seen):
    plain = owned(body)
    for name in ("gain", "host", "base", "metrics", "k"):
        assert (owned(body, **{name: 2}) != plain) == (name in seen), name


def test_without_an_owner_the_whole_class_counts():
    source = textwrap.dedent(OWNER).format(
        body="super().loss(x)", gain=1, host=1, base=1, metrics=1, k=1
    )
    other = source.replace("HOST = 1", "HOST = 2")
    assert of(source).digest != of(other).digest
