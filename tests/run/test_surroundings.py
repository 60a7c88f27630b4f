from __future__ import annotations

import contextvars
import threading

import jax
import jax.numpy as jnp
import pytest
from cells import live, losses, tiny

from nitro_repl._run.surroundings import Surroundings
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

SEES = """
SEEN = []

class Tiny(Tiny):
    def loss(self, logits, *, y):
        SEEN.append((
            jax.config.jax_default_matmul_precision, jax.config.jax_enable_x64,
            (jnp.arange(2.0) + 1).dtype.name,
        ))
        return super().loss(logits, y=y)
"""


def in_new_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_takes_over_context_variables_and_jax_settings():
    variable = contextvars.ContextVar("variable", default="outer")
    variable.set("cell 7")

    def look():
        return variable.get(), jax.config.jax_default_matmul_precision

    with jax.default_matmul_precision("float32"):
        taken = Surroundings()
        assert in_new_thread(look) == ("outer", None), "a control: threads forget"
    assert in_new_thread(lambda: taken.run(look)) == ("cell 7", "float32")
    assert look() == ("cell 7", None)


def test_the_worker_compiles_with_the_settings_of_the_cell_that_trained():
    book = tiny(SEES)
    with jax.default_matmul_precision("float32"):
        run = book.handle().train(background=True, paused=True)
    try:
        run.advance(1)
    finally:
        run.stop()
    assert {seen[0] for seen in book["SEEN"]} == {"float32"}


@pytest.mark.parametrize(
    ("name", "value", "usual"),
    [
        ("jax_enable_x64", True, False),
        ("jax_default_matmul_precision", "float32", None),
    ],
)
def test_settings_that_are_updated_reach_a_run_when_it_is_started_again(
    name, value, usual
):
    book = tiny()
    with live(book, max_steps=8) as run:
        try:
            with count_compiles() as count:
                jax.config.update(name, value)
                run.advance(2)
                run.swap()
                run.advance(2)
            assert count.nothing, count
            run.stop()
            with count_compiles() as count:
                run.handle.train(background=True, paused=True)
                run.advance(1)
            assert count.traced, "a control: the key has changed"
        finally:
            run.stop()
            jax.config.update(name, usual)


def test_a_setting_is_in_the_key_of_every_program():
    book = tiny()
    book.train().handle.validate()
    all_of_them = {"forward", "backward", "loss", "optimizer", "eval"}
    with jax.default_matmul_precision("tensorfloat32"), count_compiles() as count:
        book.train().handle.validate()
    assert set(count.compiled) >= {"forward", "backward", "eval"}, "they hold a matmul"
    assert set(count.traced) == all_of_them
    with count_compiles() as count:
        book.train().handle.validate()
    assert count.nothing, count


def test_a_handle_does_not_answer_with_a_program_of_another_setting():
    book = tiny(SEES)
    handle = book.handle(max_steps=2)
    handle.train(background=False)
    handle.validate()
    book["SEEN"].clear()
    with jax.default_matmul_precision("float32"):
        handle.validate()
        handle.train(background=False)
    assert {seen[0] for seen in book["SEEN"]} == {"float32"}
    assert len(book["SEEN"]) >= 2, "eval and train were traced anew"
    with count_compiles() as count:
        handle.validate()
        handle.train(background=False)
    assert count.nothing, count


def test_a_swap_compiles_with_the_settings_of_the_run():
    book = tiny(SEES)
    with jax.default_matmul_precision("float32"):
        run = book.handle().train(background=True, paused=True)
    try:
        run.advance(1)
        book["SEEN"].clear()
        book.cell(
            SEES.replace(
                "super().loss(logits, y=y)", "super().loss(logits, y=y) * 1.28125"
            )
        )
        book.cell("""
@Tiny.hook
def loss(self, logits, *, y):
    SEEN.append((jax.config.jax_default_matmul_precision,))
    return squared_error(logits, y, self.smoothing) * 1.28125
""")
        run.swap()
        with count_compiles() as count:
            run.advance(1)
        assert count.nothing, count
    finally:
        run.stop()
    assert {seen[0] for seen in book["SEEN"]} == {"float32"}


@pytest.mark.parametrize("built_inside", [True, False])
def test_a_run_begun_under_x64_trains_under_it(built_inside):
    book = tiny(SEES)
    handle = None if built_inside else book.handle(max_steps=3)
    with jax.enable_x64(True):
        handle = handle or book.handle(max_steps=3)
        run = handle.train(background=True, paused=True)
    try:
        run.advance(1)
        run.set(smoothing=0.2, learning_rate=0.25)  # from a thread without x64
        run.advance(1)
        assert run.params["layers"][0]["kernel"].dtype == jnp.float32
        assert run.handle.predict(book["ROWS"][0]).shape == (4, 2)
    finally:
        run.stop()
    assert {seen[1:] for seen in book["SEEN"]} == {(True, "float64")}
    assert run.exception is None
    plain = losses(tiny(SEES).train())
    assert losses(run)[:1] == pytest.approx(plain[:1], rel=1e-5)


def test_x64_does_not_leak_into_the_next_run():
    book = tiny(SEES)
    with jax.enable_x64(True):
        book.train()
    book["SEEN"].clear()
    programs = book.train()
    assert {seen[1:] for seen in book["SEEN"]} <= {(False, "float32")}
    with live(book) as run:
        assert losses(run) == losses(programs)
