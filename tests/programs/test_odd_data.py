# ruff: noqa: E501 (cells read best with one statement a line)
"""Edits of data that lies where code seldom looks, and of which of equals is meant.

The numbers are compared with plain eager gradient descent on the edited code.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from cells import Outcomes, by_hand, losses, tiny

pytestmark = pytest.mark.usefixtures("nothing_known")

MODEL = {"forward", "backward"}


class Case(NamedTuple):
    """Cells before, what the loss takes for the logits, and the edit."""

    setup: str
    logits: str
    edit: str
    """`NEW` becomes a number that no other case uses."""
    undo: str = ""
    hooks: frozenset[str] = frozenset({"loss"})


EQUALS = "class K:\n    def __init__(self): self.n = 1\nA, B = K(), K()\nmode = A\n"
PYTREE = "class P:\n    def __init__(self, a, b): self.a, self.b = a, b\n"
READS_LAYER = """
class Tiny(Tiny):
    def forward(self, model, *, x):
        return model(x) * model.layers[0].gain
"""

CASES = {
    "an attribute of an enum member": Case(
        "import enum\nclass Mode(enum.Enum): A = 1\nMode.A.gain = 2.0", "logits * Mode.A.gain", "Mode.A.gain = NEW",
    ),
    "an attribute of the user's kind of property": Case(
        "class P(property):\n    def __get__(self, o, t=None): return self.gain\nclass K: p = P()\nvars(K)['p'].gain = 2.0", "logits * K().p", "vars(K)['p'].gain = NEW",
    ),
    "an attribute of the user's kind of static method": Case(
        "class S(staticmethod): pass\nclass K: f = S(abs)\nvars(K)['f'].gain = 2.0", "logits * K.__dict__['f'].gain", "vars(K)['f'].gain = NEW",
    ),
    "an attribute of a cached function": Case(
        "@functools.lru_cache\ndef f(n): return n\nf.gain = 2.0", "logits * f.gain", "f.gain = NEW",
    ),
    "an attribute of a jitted function": Case(
        "f = jax.jit(lambda x: x)\nf.gain = 2.0", "f(logits) * f.gain", "f.gain = NEW",
    ),
    "an attribute of a logger": Case(
        "import logging\nlog = logging.Logger('a')\nlog.gain = 2.0", "logits * log.gain", "log.gain = NEW",
    ),
    "an attribute of the user's kind of path": Case(
        "import pathlib\nclass P(type(pathlib.Path())): pass\np = P('a')\np.gain = 2.0", "logits * p.gain", "p.gain = NEW",
    ),
    "an attribute of the user's kind of weak reference": Case(
        "import weakref\nclass R(weakref.ref): pass\nclass K: pass\nr = R(K)\nr.gain = 2.0", "logits * r.gain", "r.gain = NEW",
    ),
    "the shape of a memoryview": Case(
        "m = memoryview(bytes(4)).cast('B', (2, 2))", "logits * NEW * len(m)", "m = memoryview(bytes(4)).cast('B', (4, 1))",
    ),
    "an annotation by getattr": Case(
        "def f(x: 2.0): pass", "logits * getattr(f, '__annotations__')['x']", "def f(x: NEW): pass",
    ),
    "an argument of a generic base": Case(
        "import typing\nT = typing.TypeVar('T')\nclass B(typing.Generic[T]): pass\nclass K(B['2.0']): pass", "logits * float(typing.get_args(K.__orig_bases__[0])[0].__forward_arg__)", "class K(B['NEW']): pass",
    ),
    "a dict in a library's module": Case(
        "jnp.CONFIG = {'gain': 2.0}", "logits * jnp.CONFIG['gain']", "jnp.CONFIG['gain'] = NEW", "del jnp.CONFIG",
    ),
    "an array in a library's module": Case(
        "jnp.TABLE = np.ones(2, 'f')", "logits * jnp.TABLE", "jnp.TABLE[0] = NEW", "del jnp.TABLE",
    ),
    "a list in a module of Python": Case(
        "import math\nmath.GAINS = [2.0]", "logits * math.GAINS[0]", "math.GAINS[0] = NEW", "del math.GAINS",
    ),
    "a partial in a library's module": Case(
        "jnp.act = functools.partial(jnp.multiply, 2.0)", "jnp.act(logits)", "jnp.act = functools.partial(jnp.multiply, NEW)", "del jnp.act",
    ),
    "another function of the library in a library's module": Case(
        "jnp.act = jnp.tanh", "jnp.act(logits * NEW)", "jnp.act = jnp.sin", "del jnp.act",
    ),
    "a number in a library's class": Case(
        "nnx.Linear.gain = 2.0", "logits * nnx.Linear.gain", "nnx.Linear.gain = NEW", "del nnx.Linear.gain", frozenset({"loss", *MODEL}),
    ),
    "a number in a library's class, read off a layer": Case(
        "nnx.Linear.gain = 2.0" + READS_LAYER, "logits", "nnx.Linear.gain = NEW", "del nnx.Linear.gain", frozenset(MODEL),
    ),
    "a partial method in a library's class": Case(
        "def act(self, gain, x): return x * gain\nnnx.Linear.act = functools.partialmethod(act, 2.0)", "logits * vars(nnx.Linear)['act'].args[0]", "nnx.Linear.act = functools.partialmethod(act, NEW)", "del nnx.Linear.act", frozenset({"loss", *MODEL}),
    ),
    "a setting by its name": Case(
        "", "logits * (NEW if jax.config.values['jax_log_compiles'] else 2.0)", "jax.config.update('jax_log_compiles', True)", "jax.config.update('jax_log_compiles', False)",
    ),
    "which parts of a registered class are data": Case(
        PYTREE + "jax.tree_util.register_dataclass(P, ['a'], ['b'])\np = P(2.0, NEW)", "logits * jax.tree.leaves(p)[0]", PYTREE + "jax.tree_util.register_dataclass(P, ['b'], ['a'])\np = P(2.0, NEW)",
    ),
    "whether a class is registered": Case(
        PYTREE + "jax.tree_util.register_static(P)\np = P(1, 1)", "logits * (NEW if jax.tree.leaves(p) else 2.0)", PYTREE + "p = P(1, 1)",
    ),
    "the order of a namespace": Case(
        "import types\nn = types.SimpleNamespace(a=2.0, b=NEW)", "logits * [*vars(n).values()][0]", "n = types.SimpleNamespace(b=NEW, a=2.0)",
    ),
    "the order of a class": Case(
        "class K:\n    a = 2.0\n    b = NEW", "logits * [v for n, v in vars(K).items() if n in 'ab'][0]", "class K:\n    b = NEW\n    a = 2.0",
    ),
    "which of two equal instances": Case(
        EQUALS, "logits * (2.0 if mode is A else NEW)", "mode = B",
    ),
    "which of two equal instances, by ==": Case(
        EQUALS, "logits * (2.0 if mode == A else NEW)", "mode = B",
    ),
    "which of two equal instances, as a key": Case(
        EQUALS + "gains = {A: 2.0, B: NEW}", "logits * gains[mode]", "mode = B",
    ),
    "which of two equal lambdas": Case(
        "A, B = (lambda x: x), (lambda x: x)\nmode = A", "logits * (2.0 if mode is A else NEW)", "mode = B",
    ),
    "whether two lists are one": Case(
        "A = [1]\nB = A", "logits * (2.0 if A is B else NEW)", "B = [1]",
    ),
}  # fmt: skip


def loss_of(logits: str) -> str:
    return f"""
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return squared_error({logits}, y, self.smoothing)
"""


@pytest.mark.parametrize("name", CASES)
def test_editing(name):
    case, number = CASES[name], f"{0.3 + (list(CASES).index(name) + 0.5) / 64}"
    cells = case.setup, loss_of(case.logits)
    book = tiny(*(source.replace("NEW", number) for source in cells))
    try:
        before = losses(book.train())
        book.cell(case.edit.replace("NEW", number))
        outcomes = Outcomes()
        after = losses(book.train())
        expected = by_hand(book)
    finally:
        book.cell(case.undo)
    assert after == pytest.approx(expected, rel=1e-5)
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) > 1e-4
    assert set(outcomes.not_hits) <= case.hooks
    assert outcomes.not_hits


AGAIN = {
    "a class whose order can be seen": (
        "class K:\n    a = 2.0\n    b = 0.5", "logits * [*vars(K).values()][1]",
    ),
    "equal instances that are compared": (EQUALS, "logits * (2.0 if mode is A else 3.0)"),
    "a registered class": (
        PYTREE + "jax.tree_util.register_dataclass(P, ['a'], ['b'])\np = P(2.0, 3)", "logits * jax.tree.leaves(p)[0]",
    ),
    "a class of methods in another order": (
        "class K:\n    def a(self): return 2.0\n    def b(self): return 3.0", "logits * K().a()",
    ),
}  # fmt: skip
REORDERED = "class K:\n    def b(self): return 3.0\n    def a(self): return 2.0"


@pytest.mark.parametrize("name", AGAIN)
def test_running_the_same_again_is_known(name):
    setup, logits = AGAIN[name]
    book = tiny(setup, loss_of(logits))
    before = losses(book.train())
    book.cell(REORDERED if "another order" in name else setup)
    outcomes = Outcomes()
    assert losses(book.train()) == before
    assert outcomes.not_hits == {}
