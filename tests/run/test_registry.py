from __future__ import annotations

import gc
import weakref

import pytest
from cells import check_error, live, tiny

import nitro_repl as nitro
from nitro_repl._run import registry


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(registry, "runs", type(registry.runs)())
    monkeypatch.setattr(registry, "ENDED_KEPT", 2)


def test_of_the_runs_that_ended_only_the_last_ones_are_held(few):
    book = tiny()
    ids = [book.train(max_steps=1).id for _ in range(5)]
    assert list(registry.runs) == ids[2:], "two that ended, and the current one"
    with pytest.raises(nitro.RunError, match=f"no run `{ids[0]}`"):
        registry.find(ids[0])


def test_nothing_of_a_run_that_is_not_known_any_more_stays_in_memory(few):
    book = tiny()
    first = book.train(max_steps=1)
    gone = [weakref.ref(part) for part in (first, first._loop, first._loop.programs)]
    del first
    for _ in range(3):
        assert gone[0]() is not None
        book.train(max_steps=1)
    gc.collect()
    assert [part() for part in gone] == [None] * 3


def test_live_runs_are_known_however_many_ended_after_them(few):
    book = tiny()
    with live(book) as run:
        for _ in range(4):
            book.train(max_steps=1)
        assert registry.find(run.id) is run


def test_a_run_that_goes_on_is_known_again_and_the_current_one(few):
    book = tiny()
    first = book.train(max_steps=1)
    for _ in range(4):
        book.train(max_steps=1)
    assert first.id not in registry.runs
    assert first.handle.train(background=False) is first
    assert registry.current() is first
    assert registry.find(first.id) is first


def test_a_run_is_found_by_its_number_or_by_how_its_id_begins(few, monkeypatch):
    book = tiny()
    first, second = (book.train(max_steps=1) for _ in range(2))
    monkeypatch.setattr(registry, "runs", type(registry.runs)())
    for run, name in (
        (first, "0001-20260102-030405"),
        (second, "0012-20260102-030406"),
    ):
        monkeypatch.setattr(run, "id", name, raising=False)
        registry.runs[name] = run
    for text in ("1", "0001", "0001-2026", first.id):
        assert registry.find(text) is first
    assert registry.find("12") is second
    with pytest.raises(nitro.RunError) as error:
        registry.find("00")
    check_error(error.value, "`00` means several runs", first.id, second.id)
    for text in ("2", "", "x"):
        with pytest.raises(nitro.RunError, match=f"there is no run `{text}`"):
            registry.find(text)
