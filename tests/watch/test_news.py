from __future__ import annotations

import pytest

import nitro_repl as nitro
from nitro_repl._run.outlook import Outlook
from nitro_repl._watch.news import News
from nitro_repl._watch.notice import Notice, together
from tests.cells import LOSS, live, tiny

EDIT = LOSS.replace("wrong * wrong", "{} * wrong * wrong")
LOUD = EDIT.format(7.0)


@pytest.fixture
def book():
    return tiny()


def test_programs_with_one_cause_are_named_together(book):
    with live(book) as run:
        news = News()
        assert news.take(run) is None
        book.cell(
            "@Tiny.hook\ndef forward(self, model, *, x):\n    return 2.0 * model(x)"
        )
        notice = news.take(run)
        assert "forward, backward" in notice.text
        assert notice.text.count("forward()") <= 1
        assert notice.fits
        assert news.take(run) is None


def test_runs_are_told_apart(book):
    with live(book) as first, live(book) as second:
        news = News()
        book.cell(EDIT.format(2.0))
        assert first.id in news.take(first).text
        first.swap()
        assert news.take(first) is None
        assert second.id in news.take(second).text


def test_a_program_that_is_there_twice_is_named_once_with_the_causes_of_both(
    book, monkeypatch
):
    book.cell("K = 1.0\n" + EDIT.format("K"))
    with live(book) as first:
        book.cell("K = 5.0")
        with live(book) as second:
            book.cell("K = 6.0")
            looks = first.outlook(), second.outlook()
            both = Outlook(looks[0].standings + looks[1].standings)
    monkeypatch.setattr(first, "outlook", lambda: both)
    text = News().take(first).text
    assert text.count("loss (") == text.count("loss") == 1
    for change in ("K 1.0 -> 6.0", "K 5.0 -> 6.0"):
        assert text.count(change) == 1


def test_at_most_three_causes_are_named_over_all_runs():
    stale = [{"loss": ("a", f"b{k}")} for k in range(4)]
    notices = [Notice((str(k),), "Tiny", True, stale[k]) for k in range(4)]
    [notice] = together(notices)
    assert "runs 0, 1, 2, 3: loss (a; b0; b1; ...)." in notice.text


def test_runs_of_one_edit_share_a_notice_and_others_do_not():
    def notice(run, experiment, stale, **more):
        return Notice((run,), experiment, True, stale, **more)

    said = together(
        [
            notice("a", "Tiny", {"loss": ("x",)}),
            notice("b", "Other", {"loss": ("y",)}),
            notice("c", "Third", {"loss": ("x",)}),
            notice("d", "Tiny", {"loss": ("x",), "eval": ("x",)}),
            notice("e", "Tiny", {}, refusal="bad"),
            notice("f", "Other", {}, refusal="bad"),
            notice("g", "Other", {}, refusal="worse"),
        ]
    )
    runs = [one.runs for one in said]
    assert runs == [("a", "c"), ("b",), ("d",), ("e", "f"), ("g",)]
    assert "does not fit runs e, f, which go on as they are" in said[3].text
    assert "does not fit run g, which goes on as it is" in said[4].text


LEAK = LOSS.replace("    wrong =", "    kept.append(logits)\n    wrong =", 1)


def refused(run):
    with pytest.raises(nitro.NitroError, match="array of a trace was kept"):
        run.swap()


def test_what_a_refused_trace_leaves_behind_is_no_news_but_a_further_edit_is(book):
    book.cell("kept, GAIN = [], 1.0")
    with live(book) as run:
        news = News()
        book.cell(LEAK)
        assert "kept" in news.take(run).text
        for _ in range(2):
            refused(run)
            assert book["kept"]
            assert news.take(run) is None
        book.cell("kept.clear()")
        assert news.take(run) is None
        book.cell("kept.append(1.0)")  # control: the user's own change of that list
        assert news.take(run)
        refused(run)
        assert news.take(run) is None
        book.cell(LEAK.replace("wrong * wrong", "2.0 * wrong * wrong"))
        assert "squared_error" in news.take(run).text
        refused(run)
        book.cell("kept = []\n" + LOUD)
        assert news.take(run)
        run.swap()
        assert run.stale == ()


def test_a_leak_that_was_swapped_before_it_was_named_is_named_once(book):
    book.cell("kept = []")
    with live(book) as run:
        news = News()
        book.cell(LEAK)
        refused(run)
        assert news.take(run)
        refused(run)
        assert news.take(run) is None


def test_what_was_forgotten_is_news(book):
    with live(book) as run:
        news = News()
        book.cell(EDIT.format(2.0))
        assert news.take(run)
        assert news.take(run) is None
        news.forget()
        assert news.take(run)


def test_host_code_of_the_user_that_raises_is_a_refusal(book):
    with live(book) as run:
        news = News()
        book.cell("@Tiny.hook\ndef learning_rate(self):\n    raise KeyError('mine')")
        notice = news.take(run)
        assert "does not fit" in notice.text
        assert "mine" in notice.text
        assert not notice.fits
        assert news.take(run) is None
        book.cell("@Tiny.hook\ndef learning_rate(self):\n    return 0.5")
        assert news.take(run).text.endswith(
            "fits run " + run.id + " again; nothing is stale"
        )
        assert news.take(run) is None


def test_a_look_at_another_width_is_no_news(book):
    import jax

    with live(book) as run, jax.enable_x64(True):
        news = News()
        assert news.take(run) is None
        book.cell(EDIT.format(2.0))
        assert news.take(run)  # control


def test_a_large_array_is_not_read_again_but_a_new_one_is(book, monkeypatch):
    from nitro_repl._code import arrays

    read = []
    real = arrays._read
    monkeypatch.setattr(arrays, "_read", lambda a: read.append(a.nbytes) or real(a))
    book.cell(
        "table = np.zeros(2_000_000)\n"
        "def squared_error(logits, label, smoothing):\n"
        "    return (logits * logits).mean() + table[0]"
    )
    with live(book) as run:
        news = News()
        assert news.take(run) is None
        read.clear()
        assert news.take(run) is None
        assert max(read, default=0) < arrays.LARGE
        book.cell("table[1_234_567] = 1.0")  # no light look sees it, a full one does
        assert news.take(run) is None
        assert run.stale == ()
        assert run.outlook().stale == ("loss",)
        assert run.stale == ("loss",)
        assert news.take(run)
        book.cell("table = np.ones(2_000_000)")
        assert news.take(run)
