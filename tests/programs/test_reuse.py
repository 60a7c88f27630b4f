from __future__ import annotations

import pytest
from cells import IMPORTS, LOSS, TINY, Outcomes, losses, tiny
from counting import count_compiles

import nitro_repl as nitro


def test_training_twice_compiles_nothing_the_second_time():
    book = tiny()
    book.train()
    with count_compiles() as count:
        book.train()
    assert count.nothing_of_ours
    with count_compiles() as count:
        book.train()
    assert count.total == 0, count


def test_the_count_sees_a_compile(fresh_programs):
    with count_compiles() as count:
        tiny().train()
    steps = {"forward", "loss", "backward", "optimizer"}
    assert set(count.compiled) == set(count.traced) == steps
    assert set(count.compiled.values()) == {1}


def test_listening_to_jax_does_not_make_a_program_unsound(fresh_programs):
    with count_compiles():
        tiny().train()
    with count_compiles() as count:
        tiny().train()
    assert count.nothing_of_ours, nitro.programs.why()
