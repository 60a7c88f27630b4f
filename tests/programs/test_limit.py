"""The cache is bounded: what was used longest ago leaves; asked for, it compiles."""

from __future__ import annotations

import gc
import weakref

import pytest
from cells import Outcomes, check_error, live, losses, tiny
from counting import count_compiles

import nitro_repl as nitro

EDIT = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return {}
"""


def other(number: int) -> str:
    """A loss that is another program for each number, not another constant."""
    return EDIT.format(" + ".join(["(logits ** 2).mean()"] * (number + 1)))


@pytest.fixture
def limit(fresh_programs):
    """A small limit, put back at the end."""
    before = nitro.programs.limit
    nitro.programs.limit = 6
    yield 6
    nitro.programs.limit = before


def test_the_least_recently_used_leaves_and_that_is_an_event(limit):
    book = tiny()
    for number in range(8):
        book.cell(other(number))
        book.train()
    stats = nitro.programs.stats()
    assert stats["executables"] == limit
    assert stats["evicted"] == 8 + 3 - limit, "eight losses, and three programs more"
    evicted = [e for e in nitro.programs.events() if e.outcome == "evicted"]
    assert {event.program for event in evicted} == {"loss"}, "the others were in use"
    assert "programs.limit" in evicted[0].reason
    assert "6" in evicted[0].reason


def test_what_left_is_compiled_again_and_what_stayed_is_a_hit(limit):
    book = tiny()
    found = []
    for number in range(6):
        book.cell(other(number))
        found.append(losses(book.train()))
    stayed = Outcomes()
    assert losses(book.train()) == found[-1]
    assert stayed.not_hits == {}
    book.cell(other(0))
    left = Outcomes()
    assert losses(book.train()) == found[0]
    assert left.not_hits == {"loss": "compiled"}


def test_a_live_run_keeps_the_programs_that_it_steps_with(limit):
    book = tiny()
    with live(book) as run:
        for number in range(8):
            book.cell(other(number))
            book.train()
        with count_compiles() as count:
            run.advance(3)
        assert count.nothing_of_ours
    assert run.exception is None


def test_an_evicted_executable_is_really_gone(limit):
    book = tiny()
    run = book.train()
    kept = run._loop.programs.programs
    executables = [weakref.ref(p.executable) for p in kept if p.name == "loss"]
    nitro.runs.clear()
    del run, kept
    for number in range(12):
        book.cell(other(number))
        book.train()
        nitro.runs.clear()
    gc.collect()
    assert [ref() for ref in executables] == [None]


def test_many_edits_shapes_and_values_stay_within_the_limit(limit):
    book = tiny()
    for number in range(20):
        book.cell(other(number % 10))
        book.train()
    for rows in range(1, 8):
        book.cell(
            f"ROWS = [{{k: v[:1].repeat({rows}, 0) for k, v in ROWS[0].items()}}]"
        )
        book.train()
    for number in range(80):
        book.cell(EDIT.format(f"logits.mean() * 0.{number:03d}5"))
        book.train(max_steps=1)
    stats = nitro.programs.stats()
    assert stats["executables"] <= limit
    assert stats["programs"] <= limit * 16
    assert len(nitro.programs.latest()) <= 256
    shelf = nitro.programs._shelf
    kept = sum(
        len(found) for entry in shelf._entries.values() for found in entry.values()
    )
    assert kept == stats["programs"], "no entry of a program that left"
    variants = [v for family in shelf._families.values() for v in family.variants]
    assert {v.hash for v in variants} <= set(shelf._held)


@pytest.mark.parametrize("value", [0, -1, 2.5, True, None, "many"])
def test_another_limit_is_refused_and_nothing_changes(value):
    before = nitro.programs.limit
    with pytest.raises(nitro.ProgramError) as error:
        nitro.programs.limit = value
    check_error(error.value, "programs.limit", repr(value))
    assert nitro.programs.limit == before


def test_a_lower_limit_applies_at_once(fresh_programs):
    before = nitro.programs.limit
    tiny().train()
    try:
        nitro.programs.limit = 2
        assert nitro.programs.stats()["executables"] == 2
        assert nitro.programs.stats()["evicted"] == 2
    finally:
        nitro.programs.limit = before


def test_a_run_that_meets_many_shapes_holds_the_latest_only(limit):
    book = tiny("LONG = {k: v[:1].repeat(40, 0) for k, v in ROWS[0].items()}")
    book.cell("ROWS = [{k: v[:n] for k, v in LONG.items()} for n in range(1, 41)]")
    with live(book, steps=40) as run:
        held = run._loop.programs.programs
        names = [program.name for program in held]
        assert names.count("loss") == names.count("forward") == 32
        assert nitro.programs.stats()["executables"] <= limit
        run.advance(40)  # all of them once more, those that left as well
        assert len(run._loop.programs.programs) == len(held)
    assert run.exception is None
