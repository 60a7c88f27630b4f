from __future__ import annotations

import pytest

from tests.cells import live, until


def entries(run, command):
    return [e for e in run.journal.entries if e["command"] == command]


def test_a_click_is_put_in_line_and_done_by_the_panel(book, show):
    with live(book, steps=1) as run:
        front = show(run)
        front.hello()
        front.do("resume", id="a")
        until(lambda: run.phase == "stepping")
        front.do("pause", id="b")
        until(lambda: run.phase == "paused")
        front.until(lambda: front.heard == {"a", "b"})
        step = run.step
        front.do("advance", n=3)
        until(lambda: run.step == step + 3 and run.phase == "paused")
        assert {e["by"] for e in run.journal.entries[1:]} == {"panel"}
        front.do("stop")
        until(lambda: not run.live)


def test_a_click_that_comes_again_is_done_once_and_heard_again(book, show):
    with live(book, steps=1) as run:
        front = show(run)
        front.hello()
        for _ in range(2):
            front.do("advance", id="a", n=2)
            front.until(lambda: "a" in front.heard)
            until(lambda: run.step == 3 and run.phase == "paused")
            front.heard.clear()
        front.hello()
        assert "a" in front.heard, "who missed a word of it is told anew"
        assert [e["by"] for e in entries(run, "advance")].count("panel") == 1
        front.do("advance", id="b", n=2)
        until(lambda: run.step == 5)


def test_a_click_that_is_repeated_is_no_error(book, show):
    with live(book, steps=1) as run:
        front = show(run)
        front.hello()
        for verb in ("resume", "pause", "swap"):
            for again in range(2):
                front.do(verb, id=f"{verb}-{again}")
            front.until(lambda v=verb: {f"{v}-0", f"{v}-1"} <= front.heard)
            front.until(lambda: not front.state["waiting"] and not run.swapping)
        front.do("undo", id="undo")
        front.until(lambda: front.state["notices"])
        [notice] = front.state["notices"]
        assert "there is no swap to undo" in notice["text"]


def test_a_storm_of_values_ends_at_the_last_with_few_entries(book, show):
    with live(book, steps=1) as run:
        front = show(run)
        front.hello()
        run.resume()
        for i in range(200):
            front.do("set", id=str(i), name="smoothing", value=(i + 1) / 1000)
        front.until(lambda: front.state["values"][0]["value"] == 0.2)
        assert len(entries(run, "set")) <= 10
        assert entries(run, "set")[-1]["after"] == {"smoothing": 0.2}
        front.until(lambda: len(front.heard) == 200)


def test_what_is_refused_is_said_in_the_panel_and_nothing_changes(book, show):
    with live(book, steps=1) as run:
        front = show(run)
        front.hello()
        front.do("set", name="smoothing", value="much")
        front.until(lambda: front.state["notices"])
        assert "FieldError" in front.state["notices"][0]["text"]
        front.do("set", name="no<b>such", value=1.0)
        front.until(lambda: len(front.state["notices"]) == 2)
        front.do("format_disk")
        front.do("advance", n="<b>")
        front.do("unset")
        front._say("nonsense")
        front._say({"t": "do"})
        front.until(lambda: len(front.state["notices"]) == 6)
        assert run.status().values[0].value == 0.1
        assert entries(run, "set") == []


@pytest.mark.parametrize("typed", ["abc", "1e400", "nan", "", None])
def test_a_value_that_is_no_number_is_refused_with_a_reason(book, show, typed):
    with live(book, steps=1) as run:
        front = show(run)
        front.hello()
        front.do("set", name="smoothing", value=typed)
        front.until(lambda: front.state["notices"])
        assert "FieldError" in front.state["notices"][0]["text"]
        assert entries(run, "set") == []


@pytest.mark.parametrize("n", [-5, 2.5, "", 1e30])
def test_steps_that_are_no_whole_number_are_refused(book, show, n):
    with live(book, steps=1) as run:
        front = show(run)
        front.hello()
        front.do("advance", n=n)
        front.until(lambda: front.state["notices"])
        assert "not a number of steps" in front.state["notices"][0]["text"]
        assert run.step == 1


def test_a_click_on_a_run_that_is_over_is_refused(book, show):
    with live(book, steps=1) as run:
        front = show(run)
        front.hello()
    until(lambda: not front.panel.live)
    front.do("pause")
    front.until(lambda: front.state["notices"])
    assert "is over" in front.state["notices"][0]["text"]
    until(lambda: not front.panel.live)


def test_what_waits_for_the_run_is_said(book, show):
    book.cell(
        """
        import threading
        REACHED, OPENED = threading.Event(), threading.Event()

        class Slow(Tiny):
            def build_data(self):
                def rows():
                    yield ROWS[0]
                    REACHED.set()
                    OPENED.wait(60)
                    yield ROWS[1]

                class Loader:
                    def __len__(self): return 2
                    def __iter__(self): return rows()

                return {"train": Loader()}
        """
    )
    with live(book, name="Slow", steps=1) as run:
        front = show(run)
        front.hello()
        front.do("resume", id="a")
        assert book["REACHED"].wait(60)
        front.do("pause", id="b")
        front.do("set", id="c", name="smoothing", value=0.2)
        front.until(lambda: len(front.state["waiting"]) == 2)
        assert [w["verb"] for w in front.state["waiting"]] == ["pause", "set smoothing"]
        book["OPENED"].set()
        front.until(lambda: front.state["waiting"] == [])
        assert run.phase == "paused"
