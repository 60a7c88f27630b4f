"""What a run says of newer code: host hooks, what does not fit, beginnings."""

from __future__ import annotations

import threading

import pytest

from nitro_repl._programs import maker
from nitro_repl._watch.news import News
from tests.cells import LOSS, TINY, live, losses, tiny
from tests.counting import count_compiles

LOUD = LOSS.replace("wrong * wrong", "7.0 * wrong * wrong")
WIDER = TINY.replace("self.width, rngs", "2 * self.width, rngs").replace(
    "nnx.Linear(self.width, 2", "nnx.Linear(2 * self.width, 2"
)
OTHER_DATA = "ROWS2 = ROWS\n" + TINY.replace("ROWS,", "ROWS2,")


def hook(source):
    return f"@Tiny.hook\ndef {source}"


HOST = {
    "metrics": "metrics(self, logits, *, y): return {{'m': ({0} * len(y), len(y))}}",
    "finalize_metrics": "finalize_metrics(self, totals, split): return {{'m': {0}}}",
    "schedules": "schedules(self): return {{'smoothing': lambda total: lambda s: {0}}}",
    "learning_rate": "learning_rate(self): return {0}",
    "weight_decay": "weight_decay(self): return {0}",
    "visualize": "visualize(self, outputs, *, x): return {0}",
    "save_figure": "save_figure(self, figure, stem): return {0}",
}


def value(run, name):
    return next(row.value for row in run.status().values if row.name == name)


def given_back(run, name):
    run.unset(name)
    return value(run, name)


def called(run, name, *arguments, **fields):
    plan = run.state()[1].blueprint
    return plan.hooks.call(plan.experiment, name, *arguments, **fields)


TAKEN = {
    "metrics": lambda run: run.handle.validate()["m"],
    "finalize_metrics": lambda run: run.handle.validate()["m"],
    "schedules": lambda run: value(run, "smoothing"),
    "learning_rate": lambda run: given_back(run, "learning_rate"),
    "weight_decay": lambda run: given_back(run, "weight_decay"),
    "visualize": lambda run: called(run, "visualize", None, x=0),
    "save_figure": lambda run: called(run, "save_figure", None, "a"),
}


@pytest.mark.parametrize("name", HOST)
def test_an_edited_host_hook_is_named_once_and_a_swap_takes_it_for_nothing(name):
    book = tiny(hook(HOST[name].format(0.25)))
    with live(book) as run:
        news = News()
        run.handle.validate()
        assert news.take(run) is None
        book.cell(hook(HOST[name].format(0.25)))
        assert news.take(run) is None, "control: the same again"
        book.cell(hook(HOST[name].format(0.5)))
        text = news.take(run).text
        assert f"moved in run {run.id}: {name} (host) (" in text
        assert "%nitro swap takes the edit, nothing compiles" in text
        assert news.take(run) is None
        assert run.stale == ()
        assert run.status().moved == (f"{name} (host)",)
        assert f"{name} (host)" in repr(run.status())
        with count_compiles() as count:
            run.swap()
        assert count.nothing, count
        run.advance(1)
        assert TAKEN[name](run) == 0.5
        assert run.status().moved == ()
        assert news.take(run) is None
        [entry] = [e for e in run.journal.entries if e["command"] == "swap"]
        assert any(note.startswith(f"{name}: taken") for note in entry["notes"])


def test_a_hook_that_came_or_went_is_named(capsys):
    book = tiny(hook(HOST["metrics"].format(1.0)))
    with live(book) as run:
        news = News()
        book.cell(TINY)
        assert "metrics (host) (gone: metrics())" in news.take(run).text
        book.cell(hook(HOST["finalize_metrics"].format(1.0)))
        text = news.take(run).text
        assert "finalize_metrics (host) (new: finalize_metrics()" in text
        assert "gone" not in text
        run.handle.validate()
        assert (
            "metrics (host), finalize_metrics (host) has moved on"
            in capsys.readouterr().out
        )


def test_what_only_a_new_nitro_calls_is_named_as_that():
    book = tiny()
    with live(book) as run:
        news = News()
        book.cell(
            TINY.replace(
                "rngs=rngs),\n        )", "rngs=rngs), lambda x: x,\n        )"
            )
        )
        assert "forward" in news.take(run).text, "control: programs show another model"
        book.cell(TINY)
        news.take(run)
        book.cell(hook("derive(self, data): return {'note': 'b'}"))
        text = news.take(run).text
        assert "for a new Nitro in run" in text
        assert "derive" in text
        assert "swap" not in text
        assert run.status().moved == ("derive (for a new Nitro)",)


def test_a_program_that_is_not_compiled_yet_is_named_by_its_method():
    method = (
        "    @nitro.program\n    def sample(self, model, *, x):\n        return {}\n"
    )
    book = tiny(TINY + "\n" + method.format("model(x)"))
    with live(book) as run:
        news = News()
        book.cell(TINY + "\n" + method.format("2 * model(x)"))
        text = news.take(run).text
        assert "moved" in text
        assert "sample (" in text
        assert "nothing compiles" not in text
        assert "sample: taken; it compiles when it is used" in list(run.swap())
        assert run.status().moved == ()


# -- what does not fit


def test_a_model_of_other_shapes_makes_the_programs_stale_that_hold_it():
    book = tiny()
    with live(book) as run:
        run.handle.validate()
        news = News()
        assert news.take(run) is None
        book.cell(WIDER)
        assert set(run.stale) == {"forward", "backward", "optimizer", "eval"}
        notice = news.take(run)
        assert not notice.fits
        assert "the model has other parameters" in notice.text
        assert "build a new Nitro(Tiny())" in notice.text
        assert "stale: forward, backward, optimizer, eval" in notice.text
        assert "%nitro swap" not in notice.text
        assert "build a new Nitro" in run.status().misfit
        assert news.take(run) is None
        book.cell(WIDER.replace("2 * self", "3 * self"))
        assert news.take(run), "control: another model is another state"
        book.cell(TINY)
        assert run.stale == ()
        assert news.take(run).text.endswith("again; nothing is stale")
        assert run.status().misfit == ""
        assert news.take(run) is None


def test_each_state_of_code_that_does_not_fit_is_said_once_with_what_a_swap_can_take():
    book = tiny()
    with live(book) as run:
        news = News()
        book.cell(OTHER_DATA)
        assert "does not fit" in news.take(run).text
        assert run.stale == ()
        assert news.take(run) is None
        book.cell(LOUD)
        text = news.take(run).text
        assert f"stale in run {run.id}: loss (" in text
        assert "The newest code still does not fit: `build_data` has changed" in text
        assert "%nitro swap loss takes what is edited there" in text
        assert news.take(run) is None
        with pytest.raises(Exception, match="build_data"):
            run.swap()
        run.swap("loss")
        assert run.stale == ()
        assert news.take(run) is None
        book.cell(hook("optimizer(self, hp): return optax.adam(hp.learning_rate)"))
        assert "optimizer (" in news.take(run).text
        book.cell(
            TINY + "\n    def optimizer(self, hp): return optax.adam(hp.learning_rate)"
        )
        text = news.take(run).text
        assert f"fits run {run.id} again; stale: optimizer (" in text
        assert text.endswith("%nitro swap takes the edit")
        run.swap()
        assert news.take(run) is None


# -- while the first programs are made


@pytest.fixture
def compiling(monkeypatch, fresh_programs):
    """Begin a run and stop it where a program is compiled; a function lets it go on."""
    real, reached, opened = maker._compile, threading.Event(), threading.Event()

    def begin(book, at):
        def gated(name, lowered):
            if name == at and not opened.is_set():
                reached.set()
                assert opened.wait(60)
            return real(name, lowered)

        monkeypatch.setattr(maker, "_compile", gated)
        run = book.handle(max_steps=3).train(background=True)
        assert reached.wait(60)
        return run, opened.set

    return begin


def test_a_hook_that_is_edited_during_the_first_compiles_is_named_at_once(compiling):
    book = tiny()
    run, go_on = compiling(book, "loss")
    news = News()
    assert news.take(run) is None
    book.cell(hook("loss(self, logits, *, y): return (logits * logits).mean()"))
    try:
        assert f"in run {run.id}: loss (" in news.take(run).text
        assert news.take(run) is None
    finally:
        go_on()
    run.wait()
    assert run.stale == ("loss",)
    assert news.take(run) is None, "said already"
    book.cell(hook("loss(self, logits, *, y): return 2.0 * (logits * logits).mean()"))
    assert news.take(run), "control: a further edit"


def test_a_helper_that_is_edited_during_the_first_compiles_is_in_the_first_step(
    compiling, capsys
):
    book = tiny()
    run, go_on = compiling(book, "optimizer")
    book.cell(LOUD)
    go_on()
    run.wait()
    assert run.stale == ()
    assert losses(run) == pytest.approx(losses(tiny(LOUD).train(max_steps=3)), rel=1e-6)
    assert losses(run) != pytest.approx(losses(tiny().train(max_steps=3)), rel=1e-2)
    assert News().take(run) is None
    assert capsys.readouterr().out.count(f"run {run.id} begins with it") == 1


def test_a_trace_that_changes_what_it_reads_does_not_begin_again_and_again(capsys):
    book = tiny(
        "seen = []\n"
        + LOSS.replace("    wrong =", "    seen.append(1)\n    wrong =", 1)
    )
    run = book.train()
    assert run.step == 2
    assert "begins with it" not in capsys.readouterr().out
