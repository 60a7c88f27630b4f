from __future__ import annotations

import pytest

from nitro_repl._watch.news import News
from tests.cells import LOSS, live, tiny

EDIT = LOSS.replace("wrong * wrong", "{} * wrong * wrong")


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
        assert not all(standing.current for standing in run.standings())
        assert run.stale == ("loss",)
        assert news.take(run)
        book.cell("table = np.ones(2_000_000)")
        assert news.take(run)
