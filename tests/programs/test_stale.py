# ruff: noqa: E501 (cells read best with one statement a line)
"""An edit of anything that a hook reaches is seen, and only its programs compile.

The numbers are compared with plain eager gradient descent on the edited code.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import pytest
from cells import TINY, Notebook, Outcomes, by_hand, losses, tiny
from counting import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

LOSS_READS = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return squared_error({}, y, self.smoothing)
"""
BODY_READS = """
class Tiny(Tiny):
    {}
    def loss(self, logits, *, y):
        {}
"""


class Case(NamedTuple):
    """Cells before, the edit, and the programs that compile."""

    setup: str
    edit: str
    """`NEW` becomes a number that no other case uses: equal programs are shared."""
    compiled: frozenset[str] = frozenset({"loss"})
    known: bool = True
    """Whether the edited program is a hit when trained again: it is sound."""


def loss_of(expression: str) -> str:
    return LOSS_READS.format(expression)


JIT = """
GAIN = 2.0

@jax.jit
def helper(x):
    return x * GAIN
"""
SCAN = """
def body(carry, _):
    return carry * 0.5, None

def helper(x):
    return jax.lax.scan(body, x, None, length=2)[0]
"""
RULE = """
@jax.custom_vjp
def helper(x):
    return x * 2

def forth(x):
    return x * 2, None

def back(_, cotangent):
    return (cotangent * 2,)

helper.defvjp(forth, back)
"""
CLOSURE = """
def make(gain):
    def helper(x):
        return x * gain
    return helper

helper = make(2.0)
"""
DECORATED = """
def louder(gain):
    def wrap(function):
        @functools.wraps(function)
        def call(x):
            return function(x) * gain
        return call
    return wrap

@louder(2.0)
def helper(x):
    return x * x
"""
ENVIRONMENT = """
def helper(x):
    return x * float(os.environ.get("NITRO_TEST_GAIN", "2"))
"""
FORWARD = """
def act(x):
    return x * 2

class Tiny(Tiny):
    def forward(self, model, *, x):
        return act(model(x))
"""
LAYER = """
class Act(nnx.Module):
    gain = 2.0

    def __call__(self, x):
        return x * self.gain

class Tiny(Tiny):
    def build_model(self, rngs):
        return nnx.Sequential(nnx.Linear(3, 2, rngs=rngs), Act())
"""
ALL_OF_MODEL = frozenset({"forward", "backward"})

CASES = {
    "a plain global function": Case(
        "def helper(x):\n    return x * 2\n" + loss_of("helper(logits)"),
        "def helper(x):\n    return x * NEW\n",
    ),
    "a helper three levels down": Case(
        "def c(x): return x * 2\ndef b(x): return c(x)\ndef a(x): return b(x)\n"
        + loss_of("a(logits)"),
        "def c(x): return x * NEW",
    ),
    "a default argument": Case(
        "def helper(x, gain=2.0):\n    return x * gain\n" + loss_of("helper(logits)"),
        "helper.__defaults__ = (NEW,)",
    ),
    "a keyword default that is a function": Case(
        "def helper(x, *, by=lambda x: x * 2):\n    return by(x)\n"
        + loss_of("helper(logits)"),
        "def helper(x, *, by=lambda x: x * NEW):\n    return by(x)\n",
    ),
    "a captured value": Case(CLOSURE + loss_of("helper(logits)"), "helper = make(NEW)"),
    "a captured value set from within": Case(
        """
def make():
    gain = 2.0
    def helper(x):
        return x * gain
    def turn(to):
        nonlocal gain
        gain = to
    return helper, turn

helper, turn = make()
""" + loss_of("helper(logits)"),
        "turn(NEW)",
    ),
    "a class attribute of the experiment": Case(
        BODY_READS.format("gain = 2.0", "return squared_error(logits * self.gain, y, 0)"),
        "Tiny.gain = NEW",
    ),
    "a class attribute of another class": Case(
        "class Config:\n    gain = 2.0\n" + loss_of("logits * Config.gain"),
        "Config.gain = NEW",
    ),
    "a module global number": Case(
        "GAIN = 2.0\n" + loss_of("logits * GAIN"), "GAIN = NEW",
    ),
    "a list changed in place": Case(
        "GAINS = [1.0, 2.0]\n" + loss_of("logits * GAINS[1]"), "GAINS[1] = NEW",
    ),
    "an array changed in place": Case(
        "GAINS = np.ones(2, 'f')\n" + loss_of("logits * GAINS"), "GAINS[1] = NEW",
    ),
    "an array of 64 bits changed in place": Case(
        "GAINS = np.ones(2)\n" + loss_of("logits * jnp.asarray(GAINS)"), "GAINS[1] = NEW",
    ),
    "an attribute of an instance": Case(
        "import types\nconfig = types.SimpleNamespace(gain=2.0)\n"
        + loss_of("logits * config.gain"),
        "config.gain = NEW",
    ),
    "an argument of a partial": Case(
        "def scale(x, gain):\n    return x * gain\nhelper = functools.partial(scale, gain=2.0)\n"
        + loss_of("helper(logits)"),
        "helper = functools.partial(scale, gain=NEW)",
    ),
    "the function under a partial": Case(
        "def scale(x, gain):\n    return x * gain\nhelper = functools.partial(scale, gain=2.0)\n"
        + loss_of("helper(logits)"),
        "def scale(x, gain):\n    return x + gain * NEW\nhelper = functools.partial(scale, gain=2.0)",
    ),
    "a constant of a decorator": Case(
        DECORATED + loss_of("helper(logits)"), DECORATED.replace("2.0", "NEW"),
    ),
    "the body of a decorator": Case(
        DECORATED + loss_of("helper(logits)"), DECORATED.replace("* gain", "- NEW"),
    ),
    "a decorated function": Case(
        DECORATED + loss_of("helper(logits)"), DECORATED.replace("x * x", "x * NEW"),
    ),
    "an entry of a registry": Case(
        "REGISTRY = {'act': lambda x: x * 2}\n" + loss_of("REGISTRY['act'](logits)"),
        "REGISTRY['act'] = lambda x: x * NEW",
    ),
    "a global under an inner jit": Case(JIT + loss_of("helper(logits)"), "GAIN = NEW"),
    "the body of an inner jit": Case(
        JIT + loss_of("helper(logits)"), JIT.replace("x * GAIN", "x - NEW"),
    ),
    "a scan body": Case(SCAN + loss_of("helper(logits)"), SCAN.replace("0.5", "NEW")),
    "a global under a scan body": Case(
        "GAIN = 0.5\n" + SCAN.replace("0.5", "GAIN") + loss_of("helper(logits)"),
        "GAIN = NEW",
    ),
    "a global under a checkpoint": Case(
        "GAIN = 2.0\ndef body(x): return jnp.sin(x) * GAIN\n"
        + loss_of("jax.checkpoint(body)(logits)"),
        "GAIN = NEW",
    ),
    "a custom_vjp rule": Case(
        RULE + loss_of("helper(logits)"), RULE.replace("cotangent * 2", "cotangent * NEW"),
    ),
    "a global under a custom_vjp rule": Case(
        "GAIN = 2.0\n" + RULE.replace("cotangent * 2", "cotangent * GAIN")
        + loss_of("helper(logits)"),
        "GAIN = NEW",
    ),
    "a custom_jvp rule": Case(
        """
@jax.custom_jvp
def helper(x):
    return x * 2

helper.defjvps(lambda dx, out, x: 2 * dx)
""" + loss_of("helper(logits)"),
        "helper.defjvps(lambda dx, out, x: NEW * dx)",
    ),
    "a function by globals()": Case(
        "def helper(x):\n    return x * 2\n" + loss_of("globals()['helper'](logits)"),
        "def helper(x):\n    return x * NEW\n",
        known=False,
    ),
    "a variable of the environment": Case(
        ENVIRONMENT + "os.environ.pop('NITRO_TEST_GAIN', None)\n"
        + loss_of("helper(logits)"),
        "os.environ['NITRO_TEST_GAIN'] = 'NEW'",
        known=False,
    ),
    "a property": Case(
        "class Tiny(Tiny):\n"
        "    @property\n    def gain(self):\n        return 2.0\n"
        "    def loss(self, logits, *, y):\n"
        "        return squared_error(logits * self.gain, y, 0)\n",
        "Tiny.gain = property(lambda self: NEW)",
    ),
    "a static method": Case(
        "class Tiny(Tiny):\n"
        "    @staticmethod\n    def gain(x):\n        return x * 2\n"
        "    def loss(self, logits, *, y):\n"
        "        return squared_error(self.gain(logits), y, 0)\n",
        "Tiny.gain = staticmethod(lambda x: x * NEW)",
    ),
    "a class method": Case(
        "class Tiny(Tiny):\n    factor = 2.0\n"
        "    @classmethod\n    def gain(cls, x):\n        return x * cls.factor\n"
        "    def loss(self, logits, *, y):\n"
        "        return squared_error(self.gain(logits), y, 0)\n",
        "Tiny.factor = NEW",
    ),
    "a class attribute by a parent's class method": Case(
        "class Base(Tiny):\n    factor = 2.0\n"
        "    @classmethod\n    def gain(cls, x):\n        return x * cls.factor\n"
        "class Tiny(Base):\n"
        "    def gain(self, x):\n        return super().gain(x)\n"
        "    def loss(self, logits, *, y):\n"
        "        return squared_error(self.gain(logits), y, 0)\n",
        "Tiny.factor = NEW",
    ),
    "a class attribute by a helper that gets the class": Case(
        "def helper(cls, x):\n    return x * cls.factor\n"
        + BODY_READS.format(
            "factor = 2.0", "return squared_error(helper(Tiny, logits), y, 0)"
        ),
        "Tiny.factor = NEW",
    ),
    "a class attribute by attrgetter": Case(
        "import operator\n"
        + BODY_READS.format(
            "factor = 2.0",
            "return squared_error(logits * operator.attrgetter('factor')(Tiny), y, 0)",
        ),
        "Tiny.factor = NEW",
    ),
    "a class attribute by the class of another hook": Case(
        BODY_READS.format(
            "factor = 2.0",
            "return squared_error(logits * Tiny.named(self), y, 0)\n"
            "    def named(self):\n        return self.factor",
        ),
        "Tiny.factor = NEW",
    ),
    "a method by super()": Case(
        "class Base(Tiny):\n    def gain(self, x):\n        return x * 2\n"
        "class Tiny(Base):\n"
        "    def gain(self, x):\n        return super().gain(x)\n"
        "    def loss(self, logits, *, y):\n"
        "        return squared_error(self.gain(logits), y, 0)\n",
        "Base.gain = lambda self, x: x * NEW",
    ),
    "a hook by super()": Case(
        "Base = Tiny\nclass Tiny(Base):\n"
        "    def loss(self, logits, *, y):\n        return super().loss(logits, y=y) * 2\n",
        "@Base.hook\ndef loss(self, logits, *, y):\n    return (logits ** 2).mean() * NEW\n",
    ),
    "a name by getattr": Case(
        BODY_READS.format(
            "gain = 2.0", "return squared_error(logits * getattr(self, 'ga' + 'in'), y, 0)"
        ),
        "Tiny.gain = NEW",
    ),
    "a branch that was not taken before": Case(
        "FLAG = False\ndef other(x): return x * NEW\n"
        "def helper(x):\n    return other(x) if FLAG else x * 2\n"
        + loss_of("helper(logits)"),
        "FLAG = True",
    ),
    "an enum member's value": Case(
        "import enum\nclass Gain(enum.Enum):\n    HIGH = 2.0\n"
        + loss_of("logits * Gain.HIGH.value"),
        "class Gain(enum.Enum):\n    HIGH = NEW\n",
    ),
    "a function that is both jitted and vmapped": Case(
        "GAIN = 2.0\n@jax.jit\ndef one(x): return x * GAIN\n"
        + loss_of("jax.vmap(one)(logits)"),
        "GAIN = NEW",
    ),
    "an optax transformation in a global": Case(
        "OPT = optax.sgd(0.5)\n"
        "class Tiny(Tiny):\n    def optimizer(self, hp):\n        return OPT\n",
        "number = NEW\nOPT = optax.sgd(NEW)", frozenset({"optimizer"}),
    ),
    "what an iterator gives": Case(
        "GAINS = iter([2.0] * 2 + [NEW] * 8)\n" + loss_of("logits * next(GAINS)"),
        "next(GAINS)", known=False,
    ),
    "a variable of the context": Case(
        "import contextvars\nGAIN = contextvars.ContextVar('gain', default=2.0)\n"
        + loss_of("logits * GAIN.get()"),
        "GAIN.set(NEW)", known=False,
    ),
    "a variable of Flax": Case(
        "GAIN = nnx.Variable(jnp.asarray(2.0))\n" + loss_of("logits * GAIN[...]"),
        "GAIN[...] = jnp.asarray(NEW)",
    ),
    "a helper of forward": Case(
        FORWARD, "def act(x):\n    return x * NEW\n", ALL_OF_MODEL,
    ),
    "a layer's class attribute": Case(LAYER, "Act.gain = NEW", ALL_OF_MODEL),
    "a layer's __call__": Case(
        LAYER, "Act.__call__ = lambda self, x: x * NEW", ALL_OF_MODEL,
    ),
    "a helper of the optimizer": Case(
        "def rate(x):\n    return x * 2\n"
        + TINY.replace("optax.sgd(hp.", "optax.sgd(rate(hp.").replace("rate)", "rate))"),
        "def rate(x):\n    return x * NEW\n", frozenset({"optimizer"}),
    ),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def base(nothing_known):
    tiny().train()


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("NITRO_TEST_GAIN", "")
    monkeypatch.delenv("NITRO_TEST_GAIN")


def reference(book: Notebook, name: str) -> list[float]:
    if "optimizer" not in CASES[name].compiled:
        return by_hand(book)
    rate = book["rate"](0.5) if "rate" in book.names else book["number"]
    book.cell(f"Tiny.learning_rate = lambda self: {rate}")
    return by_hand(book)


@pytest.mark.parametrize("name", CASES)
def test_editing(name):
    case = CASES[name]
    number = f"{0.3 + list(CASES).index(name) / 64}"
    book = tiny(case.setup.replace("NEW", number))
    before = losses(book.train())
    book.cell(case.edit.replace("NEW", number))
    outcomes = Outcomes()
    with count_compiles() as count:
        after = losses(book.train())
    assert set(outcomes.not_hits) == case.compiled
    compiled = {n for n, o in outcomes.not_hits.items() if o == "compiled"}
    assert compiled == set(count.compiled), count
    # Another case may have made the same constant an input.
    assert set(outcomes.not_hits.values()) <= {"compiled", "rebound"}
    assert set(outcomes.worst) == {"forward", "loss", "backward", "optimizer"}
    with count_compiles() as count:
        again = losses(book.train())
    assert again == after
    assert not count.compiled
    assert set(count.traced) == (set() if case.known else case.compiled)
    assert after == pytest.approx(reference(book, name), rel=1e-5)
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) > 1e-4


def test_a_swap_sees_what_a_new_handle_sees():
    book = tiny(JIT, loss_of("helper(logits)"))
    first, second = by_hand(book, steps=2)
    run = book.handle(max_steps=2).train(background=True, paused=True)
    run.advance(1)
    assert losses(run) == pytest.approx([first], rel=1e-5)
    book.cell("GAIN = 5.25")
    assert run.stale == ("loss",)
    model, batch = run.model(), book["ROWS"][1]
    run.swap()
    assert run.stale == ()
    run.advance(1)
    run.wait()
    with jax.disable_jit():
        edited = book["Tiny"]().loss(model(batch["x"]), y=batch["y"])
    assert losses(run)[1] == pytest.approx(float(edited), rel=1e-5)
    assert losses(run)[1] != pytest.approx(second, rel=1e-3)


def test_a_handle_keeps_its_programs_and_says_that_it_is_stale():
    book = tiny("GAIN = 2.25", loss_of("logits * GAIN"))
    run = book.handle(max_steps=4).train(background=True, paused=True)
    run.advance(1)
    before = losses(book.train(max_steps=4))
    assert run.stale == ()
    book.cell("GAIN = 3.0")
    assert run.stale == ("loss",)
    run.advance(3)
    run.wait()
    assert losses(run) == before, "no step changed under the run"
    assert losses(book.train(max_steps=4)) != before
    book.cell("GAIN = 2.25")
    assert run.stale == ()


CACHED = """
@functools.lru_cache
def gain():
    return GAIN
"""


def test_a_result_that_was_cached_is_never_taken_for_a_fresh_one():
    book = tiny("GAIN = 2.0", CACHED, loss_of("logits * gain()"))
    before = losses(book.train())
    book.cell("GAIN = 3.6875")
    assert losses(book.train()) == before, "the user's own cache, as Python has it"
    book.cell(CACHED)
    after = losses(book.train())
    assert after != before
    assert after == pytest.approx(by_hand(book), rel=1e-5)
