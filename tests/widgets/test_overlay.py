from __future__ import annotations

import nitro_repl as nitro
from nitro_repl._run import registry
from nitro_repl._widgets import overlay as overlays
from tests.cells import live, until


def rows(front):
    return {row["run"]: row for row in front.state["rows"]}


def cells(front, run):
    names = [column["name"] for column in front.state["columns"]]
    return dict(zip(names, rows(front)[run.id]["cells"], strict=True))


def test_live_runs_go_on_moving_and_the_best_is_of_their_last_values(book, lay):
    with live(book, steps=2, eval_every=1) as one, live(book, eval_every=1) as other:
        front = lay(nitro.compare(one, other))
        front.hello()
        assert front.curves[0, "loss"][0].tolist() == [1, 2]
        one.advance(3)
        front.until(lambda: len(front.curves[0, "loss"][0]) == 5)
        front.until(lambda: rows(front)[one.id]["step"] == 5)
        assert len(front.fulls) == 1
        assert front.gaps == 0
        history = one.history("val")["val_loss"]
        assert front.curves[0, "val_loss"][1].tolist() == history.tolist()
        assert cells(front, one)["val_loss"] == history[-1]
        assert front.state["head"]["best"] == nitro.compare(one, other).best
        assert front.state["head"]["live"] is True


def test_a_value_that_is_set_becomes_a_column(book, lay):
    with live(book, steps=1) as one, live(book, steps=1) as other:
        front = lay(nitro.compare(one, other))
        front.hello()
        assert "smoothing" not in cells(front, one)
        other.set(smoothing=0.25)
        front.until(lambda: "smoothing" in cells(front, other))
        assert cells(front, other)["smoothing"] == 0.25
        assert cells(front, one)["smoothing"] == 0.1
        assert any("smoothing 0.1 → 0.25" in line for line in front.state["lines"])


def test_it_ends_with_its_runs_and_leaves_the_last_word_in_the_notebook(book, lay):
    with live(book, steps=1) as one, live(book, steps=1) as other:
        front = lay(nitro.compare(one, other))
        front.hello()
        [_, (name, still)] = front.display.shown
        assert f'class="{name}"' in still._repr_mimebundle_()["text/html"]
        one.advance(3)
        one.stop()
        other.stop()
    until(lambda: not front.overlay.live)
    front.until(lambda: front.state["head"]["live"] is False)
    count = len(front.display.updates)
    for _ in range(2):
        overlays.settle()  # a cell has ended
    assert len(front.display.updates) == count + 1
    again, last = front.display.updates[-1]
    assert again == name
    page = last._repr_mimebundle_()["text/html"]
    assert page.count("stopped") >= 2
    assert "<svg" in page
    assert " 4 " in last._repr_mimebundle_()["text/plain"]


def test_runs_that_are_no_longer_known_keep_their_curves(book, lay):
    run = book.train(max_steps=3)
    found = nitro.compare(run, book.train(max_steps=2))
    del registry.runs[run.id]
    front = lay(found)
    front.hello()
    assert front.curves[0, "loss"][1].tolist() == run.history()["loss"].tolist()
    assert front.state["head"]["live"] is False
    assert rows(front)[run.id]["step"] == 3


def test_the_same_runs_in_two_comparisons_both_move(book, lay):
    with live(book, steps=1) as run:
        fronts = [lay(nitro.compare(run, run)), lay(nitro.compare(run))]
        for front in fronts:
            front.hello()
        run.stop()
        run.handle.train(background=True, paused=True)  # both are woken again
        for front in fronts:
            front.until(lambda front=front: front.state["rows"][0]["phase"] == "paused")
        run.stop()


def test_old_comparisons_are_let_go_of(book, lay):
    run = book.train(max_steps=2)
    front = lay(nitro.compare(run))
    for _ in range(overlays._KEPT):
        last = lay(nitro.compare(run))
    assert front.closed
    assert not last.closed


def test_many_runs_share_a_bound_of_points(book, lay, monkeypatch):
    monkeypatch.setattr(overlays, "_POINTS", 100)
    monkeypatch.setattr(overlays, "_FEWEST", 8)
    front = lay(nitro.compare(*(book.train(max_steps=60) for _ in range(4))))
    front.hello()
    sizes = {len(x) for x, _ in front.curves.values()}
    assert max(sizes) <= 25 + 8
