"""Programs that call back into Python: never shared, and their errors explained."""

from __future__ import annotations

import jax
import pytest
from cells import Outcomes, check_error, losses, same, tiny
from counting import count_compiles

import nitro_repl as nitro

pytestmark = pytest.mark.usefixtures("nothing_known")

PURE = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        value = (logits ** 2).mean()
        scale = jax.pure_callback(
            lambda x: np.asarray({}, np.float32), jax.ShapeDtypeStruct((), jnp.float32),
            jax.lax.stop_gradient(value),
        )
        return value * scale
"""
SHOWS = """
SAID = []

class Tiny(Tiny):
    def loss(self, logits, *, y):
        value = (logits ** 2).mean()
        jax.debug.callback(lambda x: SAID.append({}), value)
        return value
"""
RAISES = """
CALLS = []

def count(value):
    CALLS.append(1)
    if len(CALLS) == 7:
        raise ValueError("the seventh")
    return np.asarray(value)

class Tiny(Tiny):
    def loss(self, logits, *, y):
        value = (logits ** 2).mean()
        kind = jax.ShapeDtypeStruct((), jnp.float32)
        seen = jax.pure_callback(count, kind, jax.lax.stop_gradient(value))
        return value + 0 * seen
"""


def test_a_callback_is_never_taken_for_another_or_for_itself():
    first = losses(tiny(PURE.format(2)).train())
    for number in (4, 4):
        outcomes = Outcomes()
        with count_compiles() as count:
            found = losses(tiny(PURE.format(number)).train())
        assert found[0] == pytest.approx(first[0] * 2)
        assert outcomes.not_hits == {"loss": "compiled"}
        assert dict(count.compiled) == {"loss": 1}


def test_each_definition_keeps_its_own_callback():
    books = [tiny(SHOWS.format(f"'{name}'")) for name in ("one", "two")]
    runs = [book.train(max_steps=3) for book in books]
    jax.effects_barrier()
    assert [set(book["SAID"]) for book in books] == [{"one"}, {"two"}]
    assert [len(book["SAID"]) for book in books] == [3, 3]
    assert losses(runs[0]) == losses(runs[1])


def test_a_print_of_debugging_is_no_error(capfd):
    book = tiny("""
class Tiny(Tiny):
    def loss(self, logits, *, y):
        jax.debug.print("top {top}", top=logits.max())
        return super().loss(logits, y=y)
""")
    run = book.train()
    assert losses(run) == pytest.approx(losses(tiny().train()), rel=1e-6)
    jax.effects_barrier()
    assert capfd.readouterr().out.count("top ") == 2


def test_a_callback_that_raises_is_named_and_the_run_goes_on_after():
    book = tiny(RAISES)
    handle = book.handle(max_steps=9)
    with pytest.raises(nitro.HookError) as error:
        handle.train(background=False)
    check_error(error.value, "ValueError: the seventh", "step 7", "<cell 5>, line 7")
    run = handle.run
    assert (run.phase, run.step) == ("failed", 6)
    assert len(losses(run)) == 6
    assert same(run.params, tiny(RAISES).train(max_steps=6).params)
    assert handle.train(background=False).step == 9
