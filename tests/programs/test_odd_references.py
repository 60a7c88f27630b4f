# ruff: noqa: E501 (cells read best with one statement a line)
"""Edits of what code reaches by an unusual way are seen as well.

The numbers are compared with plain eager gradient descent on the edited code.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from cells import Outcomes, by_hand, losses, tiny

pytestmark = pytest.mark.usefixtures("nothing_known")


class Case(NamedTuple):
    """Cells before and the edit; `NEW` is a number that no other case uses."""

    setup: str
    edit: str
    undo: str = ""
    hook: str = "loss"


def loss_of(expression: str) -> str:
    return f"""
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return squared_error({expression}, y, self.smoothing)
"""


def layer(body: str) -> str:
    return f"""
class Act(nnx.Module):
{body}

class Tiny(Tiny):
    def build_model(self, rngs):
        return nnx.Sequential(nnx.Linear(3, 2, rngs=rngs), Act())
"""


HOLDS_A_FUNCTION = layer(
    "    def __init__(self): self.f = act\n    def __call__(self, x): return self.f(x)"
)
METADATA = layer(
    "    def __init__(self): self.w = nnx.Param(jnp.ones(2), f=act)\n    def __call__(self, x): return self.w.f(x * self.w[...])"
)
VARIABLE = layer(
    "    def __init__(self): self.w = Mine(jnp.ones(2))\n    def __call__(self, x): return x * self.w[...] * self.w.gain"
)
DOT = """
def dot(*args, **options): return jax.lax.dot_general(*args, **options) * GAIN

class Tiny(Tiny):
    def build_model(self, rngs):
        return nnx.Linear(3, 2, dot_general=dot, rngs=rngs)
"""
MODULE = "import sys, types\nm = sys.modules['odd_module'] = types.ModuleType('odd_module')\nm.gain = 2.0\n"
FORGET = "sys.modules.pop('odd_module')"

CASES = {
    "a function of a library that was replaced": Case(
        loss_of("jnp.tanh(logits)"), "kept = jnp.tanh\njnp.tanh = lambda x: x * NEW", "jnp.tanh = kept",
    ),
    "a method of a library's class that was replaced": Case(
        loss_of("logits"), "kept = nnx.Linear.__call__\nnnx.Linear.__call__ = lambda self, x: kept(self, x) * NEW", "nnx.Linear.__call__ = kept", "forward",
    ),
    "a setting of JAX": Case(
        loss_of("logits * (NEW if jax.config.jax_log_compiles else 2.0)"), "jax.config.update('jax_log_compiles', True)", "jax.config.update('jax_log_compiles', False)",
    ),
    "a setting of numpy": Case(
        "np.seterr(divide='ignore')\n" + loss_of("logits * (NEW if np.geterr()['divide'] == 'warn' else 2.0)"), "np.seterr(divide='warn')",
    ),
    "a function that a layer holds": Case(
        "def act(x): return x * 2\n" + HOLDS_A_FUNCTION, "def act(x): return x * NEW", hook="forward",
    ),
    "a global under a function that a layer holds": Case(
        "GAIN = 2.0\ndef act(x): return x * GAIN\n" + HOLDS_A_FUNCTION, "GAIN = NEW", hook="forward",
    ),
    "a global under a function in a variable's metadata": Case(
        "GAIN = 2.0\ndef act(x): return x * GAIN\n" + METADATA, "GAIN = NEW", hook="forward",
    ),
    "an attribute of the user's kind of variable": Case(
        "class Mine(nnx.Param): gain = 2.0\n" + VARIABLE, "Mine.gain = NEW", hook="forward",
    ),
    "a global under a function given to a library's layer": Case(
        "GAIN = 2.0\n" + DOT, "GAIN = NEW", hook="forward",
    ),
    "an attribute of a metaclass": Case(
        "class Meta(type): gain = 2.0\nclass K(metaclass=Meta): pass\n" + loss_of("logits * K.gain"), "Meta.gain = NEW",
    ),
    "what __getattr__ reads": Case(
        "GAINS = {'gain': 2.0}\nclass K:\n    def __getattr__(self, name): return GAINS[name]\nk = K()\n" + loss_of("logits * k.gain"), "GAINS['gain'] = NEW",
    ),
    "what __getattr__ of a module reads": Case(
        MODULE + "exec('V = 2.0\\ndef __getattr__(name): return V', vars(m))\n" + loss_of("logits * m.other"), "m.V = NEW", FORGET,
    ),
    "an implementation registered later": Case(
        "@functools.singledispatch\ndef act(key, x): return x * 2\n" + loss_of("act('a', logits)"), "@act.register(str)\ndef _(key, x): return x * NEW",
    ),
    "a variable of a loop that closures share": Case(
        "def make():\n    made = []\n    for gain in (1.0, 2.0): made.append(lambda x: x * gain)\n    def turn(to):\n        nonlocal gain\n        gain = to\n    return made, turn\nmade, turn = make()\n" + loss_of("made[0](logits)"), "turn(NEW)",
    ),
    "what a cell holds": Case(
        "def make(gain):\n    def act(x): return x * gain\n    return act\nact = make(2.0)\n" + loss_of("act(logits)"), "act.__closure__[0].cell_contents = NEW",
    ),
    "the code of a function": Case(
        "def act(x): return x * 2\ndef other(x): return x * NEW\n" + loss_of("act(logits)"), "act.__code__ = other.__code__",
    ),
    "a keyword default changed in place": Case(
        "def act(x, *, gain=2.0): return x * gain\n" + loss_of("act(logits)"), "act.__kwdefaults__['gain'] = NEW",
    ),
    "a default factory": Case(
        "import dataclasses\nGAIN = 2.0\n@dataclasses.dataclass\nclass K:\n    gain: float = dataclasses.field(default_factory=lambda: GAIN)\n" + loss_of("logits * K().gain"), "GAIN = NEW",
    ),
    "a generator function": Case(
        "def gains(): yield 2.0\n" + loss_of("logits * next(gains())"), "def gains(): yield NEW",
    ),
    "a descriptor's value": Case(
        "class D:\n    gain = 2.0\n    def __get__(self, *_): return self.gain\nclass K:\n    d = D()\n" + loss_of("logits * K.d"), "vars(K)['d'].gain = NEW",
    ),
    "a partial method": Case(
        "class K:\n    def act(self, gain, x): return x * gain\n    half = functools.partialmethod(act, 2.0)\nk = K()\n" + loss_of("k.half(logits)"), "K.half = functools.partialmethod(K.act, NEW)",
    ),
    "a view of an array": Case(
        "A = np.full(4, 2, 'f')\nV = A[1:3]\n" + loss_of("logits * V"), "A[1:3] = NEW",
    ),
    "a module put in the place of another": Case(
        MODULE + "def act(x):\n    import odd_module\n    return x * odd_module.gain\n" + loss_of("act(logits)"), "m = sys.modules['odd_module'] = types.ModuleType('odd_module')\nm.gain = NEW", FORGET,
    ),
    "which object is meant": Case(
        "SLOW, FAST = object(), object()\nmode = SLOW\n" + loss_of("logits * (NEW if mode is FAST else 2.0)"), "mode = FAST",
    ),
    "a class among the subclasses": Case(
        "class K: pass\nclass L(K): gain = 2.0\n" + loss_of("logits * K.__subclasses__()[0].gain"), "L.gain = NEW",
    ),
    "whether a file is there": Case(
        "import pathlib\nflag = pathlib.Path(os.devnull + 'x')\n" + loss_of("logits * (NEW if flag.exists() else 2.0)"), "flag = pathlib.Path(os.devnull)",
    ),
    "a list under an optax schedule": Case(
        "GAINS = [2.0]\nschedule = optax.join_schedules([lambda count: GAINS[0]], [])\n" + loss_of("logits * schedule(0)"), "GAINS[0] = NEW",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_editing(name):
    case, number = CASES[name], f"{0.3 + (list(CASES).index(name) + 0.5) / 64}"
    book = tiny(case.setup.replace("NEW", number))
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
    assert case.hook in outcomes.not_hits
    assert "optimizer" not in outcomes.not_hits
    if case.hook == "loss":
        assert set(outcomes.not_hits) == {"loss"}
