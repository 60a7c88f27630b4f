from __future__ import annotations

import warnings

import numpy as np
import pytest

from nitro_repl._widgets import panel as panels
from tests.cells import live, until


def test_a_snapshot_and_what_was_appended_are_the_history(book, show):
    with live(book, steps=5, eval_every=3) as run:
        front = show(run)
        front.hello()
        run.advance(7)
        front.until(lambda: len(front.curves["loss"][0]) == 12)
        run.advance(11)
        front.until(lambda: len(front.curves["loss"][0]) == 23)
        assert len(front.fulls) == 1
        assert front.gaps == 0
        history = run.history("train")
        for name in ("loss", "grad_norm", "learning_rate"):
            x, y = front.curves[name]
            assert x.tolist() == history["step"].tolist()
            assert y.tolist() == history[name].tolist()
        val = run.history("val")
        assert front.curves["val_loss"][0].tolist() == val["step"].tolist()
        assert front.curves["val_loss"][1].tolist() == val["val_loss"].tolist()


def test_who_comes_later_or_again_gets_everything_at_once(book, show):
    with live(book, steps=3) as run:
        front = show(run)
        front.hello()
        run.advance(4)
        front.until(lambda: len(front.curves["loss"][0]) == 7)
        before = front.curves
        front.hello()
        assert front.curves["loss"][1].tolist() == before["loss"][1].tolist()
        assert front.state["progress"]["step"] == 7


def test_nothing_is_sent_while_nobody_looks(book, show):
    with live(book, steps=3) as run:
        front = show(run)
        run.advance(3)
        assert front.messages == []
        front.hello()
        assert len(front.messages) == 1


def test_values_say_their_bounds_and_what_the_next_step_takes(book, show):
    with live(book, name="Bounded", steps=1) as run:
        front = show(run)
        front.hello()
        values = {value["name"]: value for value in front.state["values"]}
        assert values["smoothing"]["bounds"] == [0.0, 0.3]
        assert values["smoothing"]["doc"] == "soft"
        assert values["table"]["kind"] == "array"
        assert "float32" in values["table"]["value"]
        assert values["learning_rate"]["hyper"] is True
        run.set(smoothing=0.2)
        front.until(lambda: front.state["values"][0]["next"] == 0.2)
        assert front.state["values"][0]["changed"] is True


def test_a_scheduled_value_shows_what_the_next_step_takes(book, show):
    book.cell(
        """
        class Scheduled(Tiny):
            def schedules(self):
                return {"smoothing": lambda total: lambda step: 0.25 * step}
        """
    )
    with live(book, name="Scheduled", steps=2, max_steps=99) as run:
        front = show(run)
        front.hello()
        [value] = [v for v in front.state["values"] if v["name"] == "smoothing"]
        assert (value["follows"], value["value"], value["next"]) == (
            "scheduled",
            0.25,
            0.5,
        )
        run.advance(1)
        assert run.history()["smoothing"][-1] == 0.5
        front.do("override", name="smoothing", value=0.125)
        front.until(lambda: front.state["values"][0]["follows"] == "set, not scheduled")
        run.advance(1)
        assert run.history()["smoothing"][-1] == 0.125


def test_changes_are_flags_with_their_step_and_lines_of_the_log(book, show):
    with live(book, steps=2) as run:
        front = show(run)
        front.hello()
        run.set(smoothing=0.2)
        front.until(lambda: front.flags)
        [flag] = front.flags
        assert flag["step"] == 2
        assert "smoothing 0.1 → 0.2" in flag["text"]
        assert any("smoothing 0.1 → 0.2" in line["text"] for line in front.lines)


def test_a_drag_is_one_flag_and_one_line(book, show):
    with live(book, steps=2) as run:
        front = show(run)
        front.hello()
        for place, value in enumerate((0.11, 0.12, 0.15, 0.2)):
            front.do("set", name="smoothing", value=value)
            front.until(lambda v=value: front.state["values"][0]["value"] == v)
            front.until(lambda n=place: len(front.flags) > n)
        front.hello()  # what a page that comes later has
        [flag], lines = front.flags, [x for x in front.lines if " set " in x["text"]]
        assert flag["text"] == "set smoothing 0.1 → 0.2"
        assert [x["text"] for x in lines] == [
            "step 2  set smoothing 0.1 → 0.2  (panel)"
        ]
        assert len([e for e in run.journal.entries if e["command"] == "set"]) == 4
        run.set(smoothing=0.25)  # by no drag
        front.until(lambda: len(front.flags) == 2)
        front.do("set", name="smoothing", value=0.3)
        front.until(lambda: len(front.flags) == 3)
        assert front.flags[-1]["text"] == "set smoothing 0.25 → 0.3"
        assert flag["key"] not in {one.get("key") for one in front.flags[1:]}


def test_programs_say_what_came_of_them_and_which_are_stale(book, show):
    with live(book, steps=1) as run:
        front = show(run)
        front.hello()
        names = [program["name"] for program in front.state["programs"]]
        assert names[:4] == ["forward", "loss", "backward", "optimizer"]
        assert not any(program["stale"] for program in front.state["programs"])
        book.cell(
            """
            @Tiny.hook
            def loss(self, logits, *, y):
                return 3.0 * squared_error(logits, y, self.smoothing)
            """
        )
        panels.moved()
        front.until(lambda: front.state["programs"][1]["stale"])
        front.do("swap")
        front.until(lambda: not front.state["programs"][1]["stale"])
        front.until(lambda: any("switched" in line["text"] for line in front.lines))
        assert front.state["programs"][1]["outcome"] != "hit"
        assert any(flag["kind"] == "swap" for flag in front.flags)


def test_hooks_that_are_no_programs_are_named_too(book, show):
    book.cell("class Own(Tiny):\n    pass")
    with live(book, name="Own", steps=1) as run:
        front = show(run)
        front.hello()
        book.cell("@Own.hook\ndef finalize_metrics(self, totals, split): return totals")
        panels.moved()
        front.until(lambda: "finalize_metrics" in front.state["edit"])


def test_the_panel_ends_with_the_run_and_still_answers(book, show):
    with live(book, steps=2) as run:
        front = show(run)
        front.hello()
        run.stop()
    front.until(lambda: front.state["progress"]["phase"] == "stopped")
    until(lambda: not front.panel.live)
    front.hello()
    assert len(front.curves["loss"][0]) == 2
    until(lambda: not front.panel.live)
    run.handle.train(background=True, paused=True)
    front.until(lambda: front.state["head"]["live"])
    run.stop()


def test_an_error_shows_the_users_frames_and_html_is_text(book, show):
    book.cell(
        """
        class Fails(Tiny):
            def finalize_metrics(self, totals, split):
                raise ValueError("<img src=x onerror=alert(1)>")
        """
    )
    with live(book, name="Fails", steps=0, eval_every=1) as run:
        front = show(run)
        front.hello()
        run.resume()
        front.until(lambda: front.state["error"])
    assert "<img src=x" in front.state["error"]
    assert "in finalize_metrics" in front.state["error"]
    assert "nitro_repl" not in front.state["error"]
    until(lambda: not front.panel.live)
    html = front.display.updates[-1][1]._repr_html_()
    assert "<img" not in html
    assert "&lt;img" in html


def test_a_front_end_that_fails_is_warned_about_once_and_the_run_goes_on(book, show):
    with live(book, steps=1) as run:
        front = show(run)
        front.hello()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            front.fails = RuntimeError("comm is closed")
            run.advance(3)
            until(lambda: not front.panel.live)
            run.advance(3)
            until(lambda: not front.panel.live)
        assert len([w for w in caught if "comm is closed" in str(w.message)]) == 1
        front.fails = None
        front.hello()
        assert len(front.curves["loss"][0]) == run.step == 7


def test_a_fast_run_sends_few_small_messages(book, show):
    with live(book, steps=1) as run:
        front = show(run)
        front.hello()
        run.advance(2000)
        front.until(lambda: len(front.curves["loss"][0]) == 2001)
        told = front.messages
        seconds = told[-1]["now"] - told[0]["now"]
        assert len(told) - 1 <= 10 * seconds + 2
        assert max(len(str(m)) for m in told) < 20_000


def test_the_static_form_is_refreshed_when_the_run_stands(book, show):
    with live(book, steps=3) as run:
        front = show(run)
        [_, (name, first)] = front.display.shown
        assert name == f"nitro-{run.id}"
        assert "step 3" in repr(first)
        front.hello()
        run.resume()
        until(lambda: run.step > 50)
        run.pause()
        until(lambda: any(f"step {run.step:,}" in repr(s) for _, s in updates(front)))
    until(lambda: "stopped" in repr(updates(front)[-1][1]))
    html = updates(front)[-1][1]._repr_html_()
    assert "<svg" in html
    assert "grad_norm" in html
    assert len(html) < 20_000


def test_the_static_form_follows_a_run_that_pauses_again_at_once(
    book, show, monkeypatch
):
    monkeypatch.setattr(panels, "_REFRESH_S", float("inf"))
    with live(book, steps=3) as run:
        front = show(run)
        until(lambda: "<svg" in repr_html(front))
        run.advance(1)
        until(lambda: "step 4" in repr_html(front) and "<svg" in repr_html(front))


def repr_html(front):
    return updates(front)[-1][1]._repr_html_() if updates(front) else ""


def updates(front):
    return [(name, thing) for name, thing in front.display.updates]


def test_without_a_browser_the_line_goes_on_as_text(book, show):
    with live(book, steps=1) as run:
        front = show(run)
        run.resume()
        until(lambda: len(front.display.updates) >= 2)
        run.pause()
        assert "step " in repr(front.display.updates[-1][1])
        assert front.messages == []


def test_showing_a_run_again_shows_the_same_panel(book, show):
    with live(book, steps=1) as run:
        front = show(run)
        front.panel.show()
        first, _, again, _ = (thing for _, thing in front.display.shown)
        assert first is again


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_json_lacks_are_words(book, show, value):
    with live(book, steps=1) as run:
        front = show(run)
        front.hello()
        run.set(smoothing=value)
        front.until(lambda: isinstance(front.state["values"][0]["next"], str))
