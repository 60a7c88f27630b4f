# ruff: noqa: E501 (cells read best with one statement a line)
"""A constant that is an input stays one when the formula around it is edited.

The edit of the formula compiles, as any does; the next tweak must not. Values and
gradients are those of a session that never had another program.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
import pytest
from cells import Notebook, Outcomes, by_hand, losses, same, tiny
from counting import count_compiles
from formulas import FORWARD, LOSS

import nitro_repl as nitro

OPTIMIZER = """
class Tiny(Tiny):
    def optimizer(self, hp):
        return optax.chain({})
"""
MAKE = "def make(gain):\n    return lambda x: {}\nhelper = make(X)\n"


class Case(NamedTuple):
    """Two formulas with X where the number stands, and the programs they are in."""

    before: str
    after: str
    programs: frozenset[str] = frozenset({"loss"})


def loss(before: str, after: str, above: str = "", above_after: str = "") -> Case:
    return Case(
        above + LOSS.format(before), (above_after or above) + LOSS.format(after)
    )


def forward(before: str, after: str) -> Case:
    programs = frozenset({"forward", "backward"})
    return Case(FORWARD.format(before), FORWARD.format(after), programs)


KEPT = {
    "a term more": loss(
        "return X * logits.mean()", "return X * logits.mean() + (logits ** 2).mean()"
    ),
    "a term less": loss(
        "return 0.3 * (logits ** 2).mean() + X * logits.mean()",
        "return X * logits.mean()",
    ),
    "another operation takes it": loss(
        "return (X * logits).mean()", "return (X + logits ** 2).mean()"
    ),
    "it is used once more": loss(
        "return X * logits.mean()", "return X * logits.mean() + X * (logits ** 2).mean()"
    ),
    "terms that change places": loss(
        "return X * logits.mean() + 0.3 * (logits ** 2).mean()",
        "return 0.3 * (logits ** 2).mean() + X * logits.mean()",
    ),
    "a helper is called around it": loss(
        "return X * logits.mean()",
        "return wrapped(X * logits).mean()",
        above_after="def wrapped(x):\n    return jnp.sin(x)\n",
    ),
    "it moves to a helper": loss(
        "return X * logits.mean()",
        "return scaled(logits).mean()",
        above_after="def scaled(x):\n    return X * x * x\n",
    ),
    "a global": loss(
        "return GAIN * logits.mean()",
        "return GAIN * jnp.abs(logits).mean() + 0.1",
        above="GAIN = X\n",
    ),
    "a global, what is derived from it": loss(
        "return (1 - GAIN) * logits.mean()",
        "return (1 - GAIN) * jnp.abs(logits).mean() + 0.1",
        above="GAIN = X\n",
    ),
    "a captured float": loss(
        "return helper(logits).mean()",
        "return helper(logits).mean() + 0.1",
        above=MAKE.format("x * gain"),
        above_after=MAKE.format("jnp.sin(x) * gain"),
    ),
    "an attribute of a class": loss(
        "return Config.gain * logits.mean()",
        "return Config.gain * jnp.abs(logits).mean()",
        above="class Config:\n    gain = X\n",
    ),
    "in a checkpoint": loss(
        "return jax.checkpoint(lambda x: jnp.sin(x * X))(logits).mean()",
        "return jax.checkpoint(lambda x: jnp.cos(x * X))(logits).mean()",
    ),
    "in a jit": loss(
        "return jax.jit(lambda x: x * X)(logits).mean()",
        "return jax.jit(lambda x: x * x * X)(logits).mean()",
    ),
    "in forward, a residual": forward(
        "return X * jnp.tanh(model(x) * X)", "return X * jnp.sin(model(x) * X)"
    ),
    "in the optimizer": Case(
        OPTIMIZER.format("optax.scale_by_adam(b1=X), optax.scale(-0.3)"),
        OPTIMIZER.format("optax.clip(3.0), optax.scale_by_adam(b1=X), optax.scale(-0.3)"),
        frozenset({"optimizer"}),
    ),
    "in many places": loss(
        "return sum((logits * X / scale).mean() for scale in range(1, 30))",
        "return sum((jnp.sin(logits) * X / scale).mean() for scale in range(1, 30))",
    ),
}  # fmt: skip
BAKED = ("a term more", "in forward, a residual", "in the optimizer", "in many places")


@pytest.mark.parametrize("name", KEPT)
def test_after_an_edit_of_the_formula_the_next_tweak_compiles_nothing(
    name, fresh_programs
):
    case = KEPT[name]
    book = tiny(case.before.replace("X", "0.4"))
    book.train()
    assert edit(book, case.before, "0.7").keys() <= case.programs  # it becomes an input
    formula = edit(book, case.after, "0.7").keys()
    assert formula, "the control: an edit of the formula compiles"
    assert formula <= case.programs
    outcomes = Outcomes()
    assert edit(book, case.after, "0.8125") == {}
    assert outcomes.not_hits == dict.fromkeys(case.programs, "rebound")
    lifted = book.train()
    if name in BAKED:
        fresh_programs.clear()
        baked = book.train()
        assert losses(lifted) == pytest.approx(losses(baked), rel=2e-6)
        assert_close(lifted.params, baked.params)
    if "optimizer" not in name:  # the second loss follows from the first gradient
        assert losses(lifted) == pytest.approx(by_hand(book), rel=2e-5)


def edit(book: Notebook, cell: str, number: str) -> dict[str, int]:
    """Run the cell and train; how often each program was compiled."""
    book.cell(cell.replace("X", number))
    with count_compiles() as count:
        book.train()
    return dict(count.compiled)


def assert_close(one, two):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_the_formula_and_the_number_may_change_at_once(fresh_programs):
    case = KEPT["a term more"]
    book = tiny(case.before.replace("X", "0.4"))
    book.train()
    edit(book, case.before, "0.7")
    assert edit(book, case.after, "0.9") == {"loss": 1}
    assert edit(book, case.after, "0.3") == {}
    assert losses(book.train()) == pytest.approx(by_hand(book), rel=2e-5)


def test_it_stays_an_input_over_many_edits(fresh_programs):
    book = tiny(LOSS.format("return 0.4 * logits.mean()"))
    book.train()
    edit(book, LOSS.format("return X * logits.mean()"), "0.7")
    number = 0.7
    for what in ("jnp.sin(logits)", "logits ** 2", "jnp.sin(logits ** 2)", "-logits"):
        cell = LOSS.format(f"return X * ({what}).mean()")
        assert edit(book, cell, str(number)) == {"loss": 1}, what
        number += 0.01
        assert edit(book, cell, str(number)) == {}, what


def test_a_number_that_was_never_tweaked_stays_part_of_the_program(fresh_programs):
    cell = LOSS.format("return A * logits.mean() + X * jnp.abs(logits).mean()")
    after = LOSS.format("return A * logits.mean() + X * (logits ** 2).mean()")
    book = tiny(cell.replace("A", "0.3").replace("X", "0.4"))
    book.train()
    edit(book, cell.replace("A", "0.3"), "0.7")
    edit(book, after.replace("A", "0.3"), "0.7")
    assert {text.split()[0] for text in inputs("loss")} == {"0.7"}
    assert edit(book, after.replace("A", "0.35"), "0.7") == {"loss": 1}, "the control"
    assert losses(book.train()) == pytest.approx(by_hand(book), rel=2e-5)


def inputs(name: str) -> set[str]:
    program = next(p for p in reversed(nitro.programs.latest()) if p.name == name)
    return set(program.lifted)


def test_what_can_be_no_input_compiles_as_before(fresh_programs):
    before = LOSS.format("return X * jnp.abs(logits).mean()")
    after = LOSS.format("return (jnp.abs(logits) ** X).mean()")
    book = tiny(before.replace("X", "0.4"))
    book.train()
    edit(book, before, "0.7")
    assert edit(book, after, "0.7") == {"loss": 1}
    assert edit(book, after, "0.9") == {"loss": 1}, "an exponent"
    assert losses(book.train()) == pytest.approx(by_hand(book), rel=2e-5)


def test_an_edit_that_xla_never_sees_compiles_nothing(fresh_programs):
    before = LOSS.format("return X * logits.mean()")
    named = LOSS.format(
        "logits = checkpoint_name(logits, 'out')\n        return X * logits.mean()"
    )
    book = tiny("from jax.ad_checkpoint import checkpoint_name")
    edit(book, before, "0.4")
    assert edit(book, before, "0.7") == {"loss": 1}
    assert edit(book, named, "0.4") == {}, "as it was before the tweak"
    assert edit(book, named, "0.7") == {}, "with the number as an input"
    assert edit(book, named, "0.8") == {}
    assert losses(book.train()) == pytest.approx(by_hand(book), rel=2e-5)


def test_a_formula_of_before_is_a_hit(fresh_programs):
    case = KEPT["a term more"]
    book = tiny(case.before.replace("X", "0.4"))
    book.train()
    edit(book, case.before, "0.7")
    edit(book, case.after, "0.7")
    outcomes = Outcomes()
    assert edit(book, case.before, "0.4") == {}
    assert edit(book, case.after, "0.7") == {}
    assert outcomes.not_hits == {}


def test_another_experiment_learns_nothing_of_it(fresh_programs):
    before = LOSS.format("return X * logits.mean()")
    book = tiny(before.replace("X", "0.4"))
    book.train()
    edit(book, before, "0.7")
    book.cell(
        LOSS.format("return 0.7 * jnp.sin(logits).mean()").replace("Tiny(", "Other(", 1)
    )
    book.train("Other")
    assert inputs("loss") == set()


def test_gradients_are_those_of_the_same_program_to_the_bit(fresh_programs):
    case = KEPT["in forward, a residual"]

    def session(*numbers: str):
        fresh_programs.clear()
        book = tiny(case.before.replace("X", "0.4"))
        book.train()
        edit(book, case.before, "0.7")
        for number in numbers:
            book.cell(case.after.replace("X", number))
            run = book.train()
        return run.params

    assert same(session("0.7", "0.9"), session("0.9")), "rebound or compiled for 0.9"
    assert not same(session("0.7"), session("0.9"))
