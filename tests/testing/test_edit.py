from __future__ import annotations

import importlib
import linecache
import os
import subprocess
import sys

import pytest
from cells import Outcomes, check_error, losses, tiny

import nitro_repl as nitro
from nitro_repl.testing import count_compiles, edit


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user, imported: its name, and the path of its file."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []

    def make(name, source):
        path = tmp_path / f"{name}.py"
        path.write_bytes(source.encode() if isinstance(source, str) else source)
        importlib.invalidate_caches()
        made.append(name)
        return importlib.import_module(name), path

    yield make
    for name in made:
        sys.modules.pop(name, None)


LOSSES = """
GAIN = 0.5

def focal(x):
    return x * GAIN
"""
READS_FILE = """
import {0} as losses_file

class Tiny(Tiny):
    def loss(self, logits, *, y):
        return squared_error(losses_file.focal(logits), y, 0)
"""


# ---- files


@pytest.mark.parametrize("how", ["name", "module", "path", "text of a path"])
def test_a_file_is_edited_and_put_back(module, how):
    held, path = module("losses_a", LOSSES)
    target = {"name": "losses_a", "module": held, "path": path}.get(how, str(path))
    before, stat = path.read_bytes(), path.stat()
    path.chmod(0o640)
    with edit(target, "0.5", "0.7") as done:
        assert path.read_text() == LOSSES.replace("0.5", "0.7")
        assert path.stat().st_mode & 0o777 == 0o640
        assert repr(done) == "<Edit of losses_a.py>"
    assert path.read_bytes() == before
    assert path.stat().st_mtime_ns == stat.st_mtime_ns
    assert held.GAIN == 0.5
    assert os.listdir(path.parent) in (["losses_a.py"], ["__pycache__", "losses_a.py"])
    done.undo()
    assert repr(done) == "<Edit of losses_a.py, undone>"


def test_programs_see_the_edit_of_a_file_at_their_next_lookup(module):
    held, _ = module("losses_b", LOSSES)
    book = tiny(READS_FILE.format("losses_b"))
    before = losses(book.train())
    with edit("losses_b", "0.5", "0.75"):
        assert held.GAIN == 0.5, "not before it"
        with count_compiles() as count:
            after = losses(book.train())
        assert set(count.traced) == {"loss"}
        assert held.GAIN == 0.75
    assert held.GAIN == 0.5, "the module is put back at once"
    assert after != before
    outcomes = Outcomes()
    assert losses(book.train()) == before
    assert outcomes.not_hits == {}


def test_a_file_is_put_back_after_an_error_too(module):
    _, path = module("losses_c", LOSSES)
    with pytest.raises(ZeroDivisionError), edit(path, "0.5", "0.7"):
        raise ZeroDivisionError
    assert path.read_text() == LOSSES


def test_python_imports_what_the_edited_file_says(module):
    # The source keeps its length within one second: a trap for compiled files.
    _, path = module("losses_d", "GAIN = 0.5\n")
    ask = [sys.executable, "-c", "import losses_d; print(losses_d.GAIN)"]

    def gain():
        done = subprocess.run(
            ask, cwd=path.parent, capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    assert gain() == 0.5
    with edit(path, "0.5", "0.7"):
        assert gain() == 0.7
    assert gain() == 0.5


def test_line_ends_and_the_encoding_of_a_file_stay(module):
    source = "# coding: latin-1\r\nNAME = 'é'\r\nGAIN = 0.5\r\n".encode("latin-1")
    _, path = module("losses_e", source)
    with edit(path, "0.5", "0.7"):
        assert path.read_bytes() == source.replace(b"0.5", b"0.7")
    assert path.read_bytes() == source


def test_edits_of_one_file_are_undone_newest_first(module):
    _, path = module("losses_f", LOSSES)
    first = edit(path, "0.5", "0.7")
    second = edit(path, "x *", "x +")
    with pytest.raises(nitro.EditError) as caught:
        first.undo()
    check_error(caught.value, "losses_f.py", "newest")
    second.undo()
    assert path.read_text() == LOSSES.replace("0.5", "0.7")


def test_a_linked_file_stays_a_link(module, tmp_path):
    _, path = module("losses_g", LOSSES)
    link = tmp_path / "link.py"
    link.symlink_to(path)
    with edit(link, "0.5", "0.7"):
        assert link.is_symlink()
        assert "0.7" in path.read_text()


# ---- functions


@pytest.fixture
def code(module):
    """A module with an experiment, and what the tests edit in it."""

    def make(name, source):
        head = "from __future__ import annotations\nimport functools\n"
        return module(name, head + source)[0]

    return make


def test_a_function_is_run_again_in_its_namespace(code):
    m = code("code_a", "K = 2\ndef f(x: Unknown = K):\n    return x + 1\n")
    held = m.f
    with edit(m.f, "+ 1", "+ 5"):
        assert (m.f(1), m.f()) == (6, 7)
        assert m.f is not held
        assert held(1) == 2
        with edit(m.f, "+ 5", "+ 6"):
            assert m.f(1) == 7
        assert m.f(1) == 6
    assert m.f is held
    assert not [name for name in linecache.cache if name.startswith("<edit")]


DECORATED = """
SEEN = {}

def keep(gain):
    def wrap(function):
        @functools.wraps(function)
        def call(x):
            return function(x) * gain
        SEEN[function.__name__] = call
        return call
    return wrap

@keep(2)
def f(x):
    return x + 1
"""


@pytest.mark.parametrize(
    ("old", "new", "result"), [("x + 1", "x + 4", 10), ("keep(2)", "keep(3)", 6)]
)
def test_decorators_run_too_and_what_they_kept_is_put_back(code, old, new, result):
    m = code("code_b", DECORATED)
    held = m.f
    with edit(m.f, old, new):
        assert m.f(1) == m.SEEN["f"](1) == result
    assert m.f is held
    assert m.SEEN["f"](1) == 4


METHODS = '''
class A:
    def f(self):
        return 1

class B(A):
    def f(self):
        """Two
lines."""
        return super().f() + 1

    @property
    def p(self):
        return 10

    @staticmethod
    def s(x):
        return x + 1

    @classmethod
    def c(cls):
        return cls.__name__ + "1"
'''


def test_a_method_is_replaced_in_its_class(code):
    m = code("code_c", METHODS)
    before = dict(vars(m.B))
    made = m.B()
    with (
        edit(m.B.f, "+ 1", "+ 4"),
        edit(m.B.p, "10", "20"),
        edit(m.B.s, "+ 1", "+ 2"),
        edit(m.B.c, '"1"', '"2"'),
    ):
        assert (made.f(), made.p, made.s(1), m.B.c()) == (5, 20, 3, "B2")
        assert m.B.f.__doc__ == "Two\nlines."
        with edit(made.f, "+ 4", "+ 5"):
            assert made.f() == 6
    assert (made.f(), made.p, made.s(1), m.B.c()) == (2, 10, 2, "B1")
    assert dict(vars(m.B)) == before


EXPERIMENT = """
import jax, nitro_repl as nitro

class Work(nitro.Experiment):
    def loss(self, logits):
        return logits * 0.5

@Work.hook
def forward(self, model, *, x):
    return model(x) * 0.25
"""


def test_a_hook_is_edited_in_its_class_or_attached_again(code):
    m = code("code_d", EXPERIMENT)
    work = m.Work()
    with edit(m.Work.loss, "0.5", "1.5"), edit(m.Work.forward, "0.25", "4"):
        assert work.loss(2.0) == 3.0
        assert m.Work.forward(work, float, x=2) == 8
    assert work.loss(2.0) == 1.0
    assert m.Work.forward(work, float, x=2) == 0.5


def test_only_the_programs_of_an_edited_method_compile(code):
    m = code(
        "code_e", "class Gain:\n    def __call__(self, x):\n        return x * 2.5\n"
    )
    book = tiny()
    book.names["GAIN"] = m.Gain()
    book.cell(
        "class Tiny(Tiny):\n"
        "    def loss(self, logits, *, y):\n"
        "        return squared_error(GAIN(logits), y, 0)\n"
    )
    before = losses(book.train())
    with edit(m.Gain.__call__, "2.5", "3.5"), count_compiles() as count:
        assert losses(book.train()) != before
        assert set(count.traced) == {"loss"}
    with count_compiles() as count:
        assert losses(book.train()) == before
    assert count.nothing


# ---- refusals


def test_a_text_that_is_not_there_is_refused(module):
    _, path = module("losses_h", LOSSES)
    with pytest.raises(nitro.EditError) as caught:
        edit(path, "return x*GAIN", "return x")
    check_error(caught.value, "return x*GAIN", "did you mean 'return x * GAIN'")
    for text in ("", "0.9"):
        with pytest.raises(nitro.EditError, match="not there"):
            edit(path, text, "1")
    assert path.read_text() == LOSSES


def test_a_text_that_is_there_twice_is_refused(module, code):
    _, path = module("losses_i", LOSSES)
    with pytest.raises(nitro.EditError) as caught:
        edit(path, "GAIN", "LOSS")
    check_error(caught.value, "2 times", "lines 2, 5")
    m = code("code_f", "def f(x):\n    return x + x\n")
    with pytest.raises(nitro.EditError) as caught:
        edit(m.f, "x", "y")
    check_error(caught.value, "3 times", "code_f.py:3")


def test_what_has_no_source_to_run_again_is_refused(code):
    m = code("code_g", "f = lambda x: x\ndef g(x): return x\nh = g\ndel g\n")

    def local(x):
        return x

    class Local:
        def f(self):
            return 1

    cell = {}
    exec("def f(x): return x", cell)
    partial = m.functools.partial(m.h)
    for target in (m.f, partial, len, 3, local, Local.f, Local, cell["f"]):
        with pytest.raises(nitro.EditError) as caught:
            edit(target, "x", "y")
        check_error(caught.value)
    with pytest.raises(nitro.EditError) as caught:
        edit("no.such.module", "x", "y")
    check_error(caught.value, "no.such.module")
    with edit(m.h, "return x", "return -x"):
        assert m.g(1) == -1, "the name of its statement, as its cell would"
    assert not hasattr(m, "g")


def test_the_text_of_another_program_is_no_source(monkeypatch):
    names = {"__name__": "cell"}
    exec(compile("def f(x): return x", "<string>", "exec"), names)
    other = "import sys; sys.exit()\n"
    entry = (len(other), None, [other], "<string>")
    monkeypatch.setitem(linecache.cache, "<string>", entry)
    with pytest.raises(nitro.EditError, match="source of `f` is not known"):
        edit(names["f"], "x", "y")
