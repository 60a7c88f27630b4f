"""Primitives of the user: their rules lie in tables of JAX, under no name of theirs.

The numbers are compared with plain eager gradient descent.
"""

from __future__ import annotations

import pytest
from cells import Outcomes, by_hand, losses, tiny

from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

WHOLE = """
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

def computed(x): return jnp.sin(x) * 2.25
def derived(primals, tangents): return gain_p.bind(*primals), tangents[0] * 2.25
def batched(args, dims): return gain_p.bind(*args), dims[0]

gain_p = Primitive("gain")
gain_p.def_impl(lambda x: computed(x))
gain_p.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
ad.primitive_jvps[gain_p] = derived
batching.primitive_batchers[gain_p] = batched
mlir.register_lowering(gain_p, mlir.lower_fun(computed, multiple_results=False))

def squared_error(logits, label, smoothing):
    wrong = jax.vmap(gain_p.bind)(logits) - jax.nn.one_hot(label, 2)
    return (wrong * wrong).mean()
"""
EDITS = {
    "how it is lowered": """
def computed(x): return jnp.cos(x) * 3.25
mlir.register_lowering(gain_p, mlir.lower_fun(computed, multiple_results=False))
""",
    "its derivative": """
def derived(primals, tangents): return gain_p.bind(*primals), tangents[0] * 5.25
ad.primitive_jvps[gain_p] = derived
""",
    "how it is batched": """
def batched(args, dims): return gain_p.bind(args[0] * 1.75), dims[0]
batching.primitive_batchers[gain_p] = batched
""",
    "all of it": WHOLE.replace("2.25", "7.25"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_rule_is_followed(name):
    book = tiny(WHOLE)
    before = losses(book.train())
    assert before == pytest.approx(by_hand(book), rel=1e-5)
    book.cell(EDITS[name])
    outcomes = Outcomes()
    after = losses(book.train())
    assert after == pytest.approx(by_hand(book), rel=1e-5)
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) > 1e-4
    assert set(outcomes.not_hits) == {"loss"}


def test_rules_that_are_defined_again_as_they_were_cost_nothing():
    book = tiny(WHOLE)
    book.train()
    book.cell(WHOLE)
    with count_compiles() as count:
        book.train()
    assert count.nothing
