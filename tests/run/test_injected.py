"""`optax.inject_hyperparams` in `optimizer`: the hook says what the numbers are."""

from __future__ import annotations

import jax
import numpy as np
import optax
import pytest
from cells import QUIET, losses, tiny
from counting import count_compiles

RATES = {
    "alone": "optax.inject_hyperparams(optax.sgd)(learning_rate=RATE)",
    "chained": "optax.chain(optax.trace(0.5),"
    " optax.inject_hyperparams(optax.sgd)(learning_rate=RATE))",
    "within": "optax.MultiSteps("
    "optax.inject_hyperparams(optax.sgd)(learning_rate=RATE), 1)",
}


def rule(made, rate):
    return f"""
class Tiny(Tiny):
    def optimizer(self, hp):
        return {made.replace("RATE", rate)}
"""


def still(run):
    """Whether a step leaves the parameters as they are."""
    before = jax.tree.leaves(run.params)
    run.advance(1)
    after = jax.tree.leaves(run.params)
    return all(map(np.array_equal, before, after))


@pytest.mark.parametrize("made", RATES.values(), ids=RATES)
def test_an_edited_number_is_followed_by_a_swap(made):
    book = tiny(rule(made, "0.25"))
    run = book.handle(**QUIET).train(background=True, paused=True)
    try:
        run.advance(2)
        assert not still(run)
        book.cell(rule(made, "0.0"))
        assert run.stale == ("optimizer",)
        run.swap()
        assert still(run)
    finally:
        run.stop()


@pytest.mark.parametrize("made", RATES.values(), ids=RATES)
def test_the_rate_of_a_run_is_live_in_it(made):
    book = tiny(rule(made, "hp.learning_rate"))
    run = book.handle(learning_rate=0.25, **QUIET).train(background=True, paused=True)
    try:
        assert not still(run)
        with count_compiles() as count:
            run.set(learning_rate=0.0)
            assert still(run)
            run.set(learning_rate=0.25)
            assert not still(run)
        assert count.nothing_of_ours
    finally:
        run.stop()


def test_a_schedule_in_it_goes_on_as_optax_says():
    injected = "optax.inject_hyperparams(optax.sgd)(optax.linear_schedule(0.3, 0.0, 5))"
    plain = "optax.sgd(optax.linear_schedule(0.3, 0.0, 5))"
    found = [
        losses(tiny(rule(made, "")).handle(max_steps=6, **QUIET).train())
        for made in (injected, plain)
    ]
    np.testing.assert_allclose(*found, rtol=1e-6)
    assert optax.linear_schedule(0.3, 0.0, 5)(5) == 0.0
