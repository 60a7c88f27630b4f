"""Schedules that must be called with each step are computed ahead of the steps."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from cells import check_error, in_thread, live, tiny, until

import nitro_repl as nitro
from nitro_repl._run.ahead import Ahead
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

BY_STEP = """
class Tiny(Tiny):
    def schedules(self):
        return {"smoothing": lambda total: drawn}
"""


class Counting:
    """A schedule that gives another number at each call, and may be made to wait."""

    def __init__(self, before=None):
        self.calls, self.returned = [], {}
        self.before = before
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, step):
        step = int(step)  # neither an array nor a tracer
        if step == self.before:
            self.reached.set()
            assert self.opened.wait(60), "nobody opened it"
        self.calls.append(step)
        number = len(self.calls) / 1024
        self.returned.setdefault(step, number)
        return number


def book_of(schedule):
    book = tiny(BY_STEP)
    book.names["drawn"] = schedule
    return book


def test_each_step_uses_what_its_own_call_gave_and_the_history_has_it():
    schedule = Counting()
    with live(book_of(schedule), steps=1) as run:
        with count_compiles() as count:
            run.advance(600)
        found = run.history()["smoothing"]
    assert not count.compiled
    assert found.tolist() == [schedule.returned[step] for step in range(601)]
    later = [step for step in schedule.calls if step]  # the first is looked at before
    assert later == sorted(set(later)), "no step was asked twice"


def test_values_are_there_before_their_steps():
    schedule = Counting()
    with live(book_of(schedule), steps=1) as run:
        until(lambda: len(schedule.returned) > 100)
        assert run.step == 1
        assert len(schedule.returned) < 600, "but no more than a block"


def test_a_step_waits_for_its_own_value_alone():
    schedule = Counting(before=5)
    with live(book_of(schedule), steps=0) as run:
        run.advance(5)
        assert schedule.reached.wait(60)
        waiting = in_thread(lambda: run.advance(1))
        schedule.opened.set()
        waiting()
        assert run.history()["smoothing"][5] == schedule.returned[5]


def test_a_run_that_ends_computes_no_more_and_goes_on_where_it_was():
    schedule = Counting(before=20)
    run = book_of(schedule).train(max_steps=10)
    assert schedule.reached.wait(60)
    schedule.opened.set()
    name = "nitro-schedule-smoothing"
    until(lambda: name not in [thread.name for thread in threading.enumerate()])
    assert max(schedule.returned) == 20
    run.handle.train(background=False)
    found = run.history()["smoothing"]
    assert found.tolist() == [schedule.returned[step] for step in range(20)]
    later = [step for step in schedule.calls if step]
    assert later == sorted(set(later)), "no step was asked twice"


def test_a_call_that_fails_does_so_at_its_own_step():
    def table(step):
        return [0.1, 0.2, 0.3][int(step)]

    book = book_of(table)
    with pytest.raises(nitro.HookError) as error:
        book.train(max_steps=9)
    check_error(error.value, "smoothing", "list index out of range")
    run = nitro.current()
    np.testing.assert_allclose(run.history()["smoothing"], [0.1, 0.2, 0.3])


def test_a_step_that_comes_again_is_computed_again():
    schedule = Counting()
    ahead = Ahead("rate", schedule, 8)
    assert ahead.at(3) == [1 / 1024], "before steps follow only what is asked for"
    assert schedule.calls == [3]
    ahead.begun = True
    assert ahead.at(3)[0] == 1 / 1024
    until(lambda: len(schedule.calls) == 8)
    assert ahead.at(4)[0] == schedule.returned[4]
    ahead.rest()
    before = len(schedule.calls)
    assert ahead.at(0)[0] == schedule.returned[0]
    assert schedule.calls[before] == 0
    until(lambda: len(schedule.calls) == before + 8)
    assert ahead.at(5)[0] == (before + 6) / 1024, "another call, another number"
    ahead.rest()
