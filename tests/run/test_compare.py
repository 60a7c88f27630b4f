from __future__ import annotations

import linecache

import numpy as np
import pytest

import nitro_repl as nitro
from nitro_repl._run import registry
from nitro_repl._run.compare import compared, first_difference
from nitro_repl._run.registry import Runs
from nitro_repl._run.side import Side
from nitro_repl._run.status import Progress
from tests.cells import check_error, live, tiny

LOSS = """\
def loss(self, logits, *, y):
    return 3.0 * squared_error(logits, y, self.smoothing)
"""


def side(run, **about):
    nothing = {"fields": {}, "settings": {}, "hooks": {}, "programs": {}}
    nothing |= {"curves": {}, "last": {}, "rows": {}}
    return Side(run=run, experiment="Tiny", progress=Progress(), **nothing | about)


@pytest.fixture(scope="module")
def book():
    book = tiny("class Other(Tiny):\n    extra: int = 3")
    source = f"@Tiny.hook\n{LOSS}"
    name = "<loss of the comparison>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    yield book, compile(source, name, "exec")
    del linecache.cache[name]


@pytest.fixture(scope="module")
def ended(book):
    """A run, and one of another width with an edited loss."""
    book, edit = book
    one = book.train(max_steps=4, eval_every="2 steps")
    exec(edit, book.names)
    other = book.train(fields={"width": 6}, max_steps=6, eval_every="2 steps", seed=1)
    return one, other


@pytest.fixture
def pair(ended):
    for run in ended:
        registry.add(run)
    return ended


def test_a_run_is_like_itself(book):
    runs = [book[0].train("Other", max_steps=3) for _ in range(2)]
    found = nitro.compare(*runs)
    assert found.runs == tuple(run.id for run in runs)
    assert not found.fields
    assert not found.settings
    assert not found.hooks
    assert not found.programs
    assert found.first_difference is None
    np.testing.assert_array_equal(*(found.curves["loss"][run.id][1] for run in runs))


def test_a_comparison_says_what_differs(pair):
    one, other = pair
    found = nitro.compare(one, other.id)
    assert found.fields == {"width": (4, 6)}
    assert found.settings == {"seed": (0, 1), "max_steps": (4, 6)}
    assert found.first_difference.step == 1
    assert "loss" in found.first_difference.columns
    lines = found.hooks["loss"][other.id].splitlines()
    assert f"+++ loss ({other.id})" in lines
    assert "+    return 3.0 * squared_error(logits, y, self.smoothing)" in lines
    assert not any("@Tiny.hook" in line for line in lines)
    assert [*found.hooks] == ["loss"]
    [causes] = found.programs["forward"].values()
    assert causes
    assert other.id in found.programs["loss"]
    assert found.metric == "val_loss"
    assert found.best == one.id
    assert found.metrics["val_loss"][0] == one.history("val")["val_loss"][-1]
    rows = found.table()
    assert [row["width"] for row in rows] == [4, 6]
    assert rows[1]["val_loss"] == other.history("val")["val_loss"][-1]


def test_a_comparison_is_shown_as_text_and_as_html(pair):
    found = nitro.compare(*pair)
    text = repr(found)
    [best] = [line for line in text.splitlines() if line.startswith(" best")]
    assert pair[0].id in best
    assert "▁" in text
    assert "first differing step  1 (" in text
    assert (
        "-    return squared_error" in text.replace("logits, y)", "")
        or "+    return" in text
    )
    page = found._repr_html_()
    assert page.count("<svg") >= 2
    assert page.count("<polyline") >= 4
    assert page.count('stroke-width="2.6"') == page.count("<svg")
    assert all(run.id in page for run in pair)


def test_code_that_is_edited_later_does_not_change_what_a_run_had(book, pair):
    book, edit = book
    before = nitro.compare(*pair).hooks["loss"][pair[1].id]
    name = edit.co_filename
    kept = linecache.cache[name]
    linecache.cache[name] = 1, None, ["# other text\n"], name
    try:
        assert nitro.compare(*pair).hooks["loss"][pair[1].id] == before
    finally:
        linecache.cache[name] = kept


def test_a_live_run_is_compared_as_it_is_now(book):
    with live(book[0]) as run, live(book[0]) as other:
        other.set(smoothing=0.2)
        other.advance(1)
        run.advance(1)
        found = nitro.compare(run, other)
        assert found.fields == {"smoothing": (0.1, 0.2)}
        assert found.first_difference.step == 3
        assert found.sides[1].changes == ["step 2  set smoothing 0.1 → 0.2"]
        assert run.live
        other.advance(1)
        assert len(found.curves["loss"][other.id][0]) == 3


def test_runs_of_different_experiments_can_be_compared(book, pair):
    other = book[0].train("Other")
    found = nitro.compare(pair[0], other)
    assert found.fields["extra"] == (None, 3)
    assert "Other" in repr(found)


def test_the_best_is_of_the_metric_and_never_one_that_is_not_finite():
    values = {"a": 0.3, "b": 0.1, "c": np.nan, "d": -np.inf}
    sides = [side(run, last={"loss": v, "val acc": v}) for run, v in values.items()]
    assert compared(sides).best == "b"
    assert compared(sides, "val acc", "max").best == "a"
    assert compared(sides, "loss", "max").best == "a"
    assert compared([side("a"), side("b")]).best is None
    assert compared(sides[:1]).best is None, "nothing is best among one"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"metric": "los"}, ["no run has the metric `los`", "did you mean `loss`"]),
        ({"metric": "grad_norm"}, ["best is not known", 'mode="max"']),
        ({"mode": "best"}, ["no mode `best`"]),
    ],
)
def test_what_cannot_be_compared_is_refused(wrong, words, pair):
    with pytest.raises(nitro.RunError) as refused:
        nitro.compare(*pair, **wrong)
    check_error(refused.value, *words)


def test_only_runs_can_be_compared(pair):
    for wrong in (3, "no-such-run", [pair[0], 3]):
        with pytest.raises(nitro.RunError) as refused:
            nitro.compare(wrong)
        assert refused.value.what


def test_lists_of_runs_are_taken_too_and_each_run_once(pair):
    one, other = pair
    assert nitro.compare([one, other], one.id).runs == (one.id, other.id)
    assert nitro.compare().runs == tuple(nitro.runs)


def test_steps_are_compared_where_both_have_them():
    steps = {"step": np.arange(1.0, 5), "loss": np.array([4, 3, np.nan, 1.0])}
    late = {"step": np.arange(3.0, 7), "loss": np.array([np.nan, 1.0, 9, 9])}
    assert first_difference([steps, late]) is None
    other = {**late, "loss": np.array([np.nan, 1.5, 9, 9]), "more": np.ones(4)}
    found = first_difference([steps, late, other])
    assert (found.step, found.columns) == (4, ("loss",))
    assert first_difference([steps, {}]) is None
    assert first_difference([steps]) is None


def test_many_runs_as_a_sweep_has_them_fit_the_page():
    sides = [
        side(
            f"run-{i}",
            fields={f"field_{k}": i * k for k in range(12)},
            hooks={"loss": "return 1" if i % 2 else "return 2"},
            last={"loss": 1.0 / (i + 1), **{f"val m{k}": 1.0 for k in range(9)}},
            curves={"loss": (np.arange(9.0), np.arange(9.0))},
            changes=[f"step {k}  set x 1" for k in range(2)],
        )
        for i in range(20)
    ]
    text = repr(compared(sides))
    assert max(map(len, text.splitlines())) <= 100
    assert "field_11" in text
    assert text.count("+return 1") == 1  # ten runs with the same other code
    assert compared(sides).best == "run-19"


def test_nothing_of_the_user_is_markup():
    evil = "[red]x[/red]\x1b[2J</pre><script>"
    sides = [
        side(
            f"{evil}{i}",
            fields={evil: f"{evil}{i}"},
            hooks={evil: f"{evil}{i}"},
            last={"loss": 1.0, evil: 1.0},
            curves={"loss": (np.arange(3.0), np.arange(3.0))},
            changes=[evil],
        )
        for i in range(2)
    ]
    found = compared(sides)
    assert "[red]x[/red]" in repr(found)
    assert "\x1b" not in repr(found)
    assert "<script" not in found._repr_html_()


def test_all_known_runs_are_shown_as_a_table(pair):
    known = Runs({run.id: run for run in pair})
    text = repr(known)
    assert all(run.id in text for run in pair)
    assert "val_loss=" in text
    assert known[pair[0].id] is pair[0]
    assert "no runs yet" in repr(Runs())


def test_the_report_says_how_a_run_stands_and_what_was_done_to_it(book):
    with live(book[0], eval_every="1 steps") as run:
        run.set(smoothing=0.2)
        report = run.report()
    text = repr(report)
    for part in (run.id, "step 2", "paused", "val_loss", "set smoothing 0.1 → 0.2"):
        assert part in text, part
    assert "set at step 2" in text
    assert report.metrics["loss"] == run.history()["loss"][-1]
    assert repr(report.in_force) == repr(run.handle.report())
    assert "<svg" in report._repr_html_()
    assert "stopped" in repr(run.report())
