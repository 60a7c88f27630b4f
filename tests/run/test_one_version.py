"""Programs of one run are of one version of the code, whenever they are looked up."""

from __future__ import annotations

import pytest
from cells import check_error, live, losses, tiny, until
from counting import count_compiles

from nitro_repl import StaleError
from nitro_repl._run.validation import Validation

GAIN = """
GAIN = 1.0

class Tiny(Tiny):
    def forward(self, model, *, x):
        return model(x) * GAIN
"""
SHIFT = """
SHIFT = 0.0

class Tiny(Tiny):
    def loss(self, logits, *, y):
        return squared_error(logits, y, self.smoothing) + SHIFT
"""
EVERY = {"eval_every": 5}


def test_a_first_validation_after_an_edit_is_of_the_code_that_trains():
    expected = tiny(GAIN).train(max_steps=5, **EVERY).history("val")["val_loss"]
    book = tiny(GAIN)
    with live(book, steps=2, **EVERY) as run:
        book.cell("GAIN = 0.0")
        run.advance(3)
        assert run.history("val")["val_loss"].tolist() == expected.tolist()
        assert run.handle.validate()["val_loss"] == pytest.approx(float(expected[0]))
        assert set(run.stale) == {"forward", "backward", "eval"}


def test_an_edit_while_the_first_programs_are_made_is_taken_in(monkeypatch):
    book, prepare = tiny(SHIFT), Validation.prepare

    def edited(self, loop):
        if book["SHIFT"] < 7:
            book.cell(f"SHIFT = {book['SHIFT'] + 3.5}")
        prepare(self, loop)

    monkeypatch.setattr(Validation, "prepare", edited)
    run = book.train(max_steps=5, **EVERY)
    monkeypatch.undo()
    expected = tiny(SHIFT, "SHIFT = 7.0").train(max_steps=5, **EVERY)
    assert losses(run) == pytest.approx(losses(expected), rel=1e-6)
    seen, true = (r.history("val")["val_loss"][0] for r in (run, expected))
    assert seen == pytest.approx(true, rel=1e-6)
    assert run.stale == ()


def test_an_evaluation_that_would_need_newer_code_is_refused():
    book = tiny(SHIFT)
    with live(book) as run:
        book.cell("SHIFT = 7.0")
        for evaluate in (run.handle.validate, lambda: run.handle.evaluate("val")):
            with pytest.raises(StaleError) as error:
                evaluate()
            check_error(error.value, "`loss`", "0.0 -> 7.0", "run.swap()")
        run.advance(1)
        assert losses(run)[-1] < 5, "the run goes on with the old code"
        outputs = run.handle.predict({"x": book["ROWS"][0]["x"]})
        assert outputs.shape == (4, 2), "what the edit does not reach is there"
        run.swap()
        assert run.handle.validate()["val_loss"] > 7
        run.advance(1)
        assert losses(run)[-1] > 7


def test_an_edit_that_computes_the_same_is_no_edit():
    book = tiny(LONGER, SHIFT)
    expected = losses(tiny(LONGER, SHIFT).train(max_steps=5))
    with live(book) as run:
        book.cell(
            "def squared_error(logits, label, smoothing):\n"
            "    delta = logits - jax.nn.one_hot(label, 2)\n"
            "    print('tracing')\n"
            "    square = delta * delta\n"
            "    return square.mean() + smoothing * (logits * logits).mean()\n"
        )
        assert run.handle.validate()["val_loss"] < 5
        run.advance(3)  # of another shape, the last
        assert losses(run) == expected


def test_an_undone_edit_is_no_edit():
    book = tiny(SHIFT)
    with live(book) as run:
        book.cell("SHIFT = 7.0")
        with pytest.raises(StaleError):
            run.handle.validate()
        book.cell("SHIFT = 0.0")
        assert run.handle.validate()["val_loss"] < 5


LONGER = "ROWS[4] = {k: v[:3] for k, v in ROWS[4].items()}"


def test_a_new_batch_shape_after_an_edit_pauses_the_run(capsys):
    book = tiny(LONGER, SHIFT)
    with live(book) as run:
        before = losses(run)
        book.cell("SHIFT = 7.0")
        with pytest.raises(StaleError):
            run.advance(4)
        assert run.step == 4
        assert run.phase == "paused"
        assert run.exception is None
        said = capsys.readouterr().err
        assert "paused before step 5" in said
        assert "0.0 -> 7.0" in said
        run.resume()
        until(lambda: "paused before step 5" in capsys.readouterr().err)
        run.swap()
        run.advance(1)
        assert losses(run)[:2] == before
        assert losses(run)[4] > 7, "the batch that it paused before, by the new code"


def test_the_same_in_the_foreground_ends_the_run_with_its_state_kept():
    book = tiny(LONGER, SHIFT)
    book.cell("""
class Loader:
    def __len__(self):
        return 5
    def __iter__(self):
        global SHIFT
        for number, row in enumerate(ROWS):
            SHIFT = 0.0 if number < 3 else 7.0
            yield row

class Tiny(Tiny):
    def build_data(self):
        return {"train": Loader()}
""")
    handle = book.handle(max_steps=5)
    with pytest.raises(StaleError):
        handle.train(background=False)


def test_a_trace_that_changes_what_it_reads_is_no_edit():
    book = tiny("""
TRACES = []

class Tiny(Tiny):
    def loss(self, logits, *, y):
        TRACES.append(len(TRACES))
        return squared_error(logits, y, self.smoothing)
""")
    run = book.train(max_steps=6, **EVERY)
    assert len(run.history("val")["val_loss"]) == 1
    assert run.handle.validate()["val_loss"] < 5


def test_a_validation_in_the_run_compiles_nothing_later():
    book = tiny()
    run = book.handle(max_steps=7, **EVERY).train(background=True, paused=True)
    run.advance(1)
    with count_compiles() as count:
        run.advance(6)
    assert count.nothing_of_ours
    assert len(run.history("val")["step"]) == 1
    run.wait()


def test_a_paused_start_that_compiles_nothing_stands_when_train_returns():
    book = tiny(SHIFT)
    book.train(max_steps=5, **EVERY)
    handle = book.handle(max_steps=5, **EVERY)
    run = handle.train(background=True, paused=True)
    assert run.phase == "paused"
    book.cell("SHIFT = 7.0")
    assert run.stale == ("loss",), "the programs were made before the edit"
    run.stop()
