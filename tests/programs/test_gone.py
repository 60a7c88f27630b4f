# ruff: noqa: E501 (a source on one line reads as one case)
"""Code that its file defines no longer: a live run keeps it, nothing new takes it."""

from __future__ import annotations

import importlib
import sys

import pytest

import nitro_repl as nitro
from nitro_repl._code.files import files
from nitro_repl._programs import disk
from nitro_repl._watch.news import News
from tests.cells import LOSS, check_error, live, losses, tiny

HEAD = "import jax\nGAIN = 2.0\n"
RENAMED = LOSS.replace("squared_error", "squares")
CALLS = "return {}(logits, y, self.smoothing)"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A file of losses that notebooks import; `edit` saves it again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "nitro_gone_loss.py"
    file.write_text(HEAD + LOSS)
    importlib.invalidate_caches()

    def edit(source):
        file.write_text(source)
        disk.refresh()

    yield edit
    for name in ("nitro_gone_loss", "nitro_gone_user"):
        sys.modules.pop(name, None)


@pytest.fixture
def notebook():
    """A notebook whose imported names follow their files."""
    providers = []

    def make(*cells):
        book = tiny(*cells)
        providers.append(lambda: book.names)
        files.register(providers[-1])
        return book

    yield make
    for provider in providers:
        files.unregister(provider)


def hook(body):
    return f"@Tiny.hook\ndef loss(self, logits, *, y):\n    {body}"


USES = {
    "import": ("from nitro_gone_loss import squared_error as f", "return f(logits, y, 0.1)"),
    "own name": ("import nitro_gone_loss as m\nf = m.squared_error", "return f(logits, y, 0.1)"),
    "registry": ("import nitro_gone_loss as m\nR = {'f': m.squared_error}", "return R['f'](logits, y, 0.1)"),
    "captured": (
        "import nitro_gone_loss as m\ndef make(f):\n  return lambda *a: f(*a)\ng = make(m.squared_error)",
        "return g(logits, y, 0.1)",
    ),
    "custom rule": (
        "import nitro_gone_loss as m\nf = jax.checkpoint(m.squared_error)",
        "return f(logits, y, 0.1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", USES)
def test_a_function_that_is_gone_from_its_file_goes_on_in_the_live_run_only(
    kind, module, notebook, capsys
):
    bind, use = USES[kind]
    book = notebook(bind, hook(use))
    with live(book) as run:
        news = News()
        assert news.take(run) is None
        capsys.readouterr()
        module(HEAD + RENAMED)
        said = capsys.readouterr().err
        assert said.count("`nitro_gone_loss.squared_error` is gone from its file") == 1
        assert run.stale == ("loss",)
        text = news.take(run).text
        assert "`nitro_gone_loss.squared_error` is gone from its file" in text
        assert "Mend that, then %nitro swap" in text
        assert news.take(run) is None
        with pytest.raises(nitro.HookError) as error:
            run.swap()
        check_error(error.value, "nitro_gone_loss.squared_error", "loss")
        with pytest.raises(nitro.HookError, match="is gone from its file"):
            book.train()
        run.advance(1)
        assert run.step == 3
        module(HEAD + LOSS)
        assert run.stale == ()
        run.swap()
        assert losses(book.train()) == pytest.approx(losses(tiny().train()), rel=1e-6)


def test_the_cell_that_is_mended_takes_what_took_its_place(module, notebook):
    book = notebook(
        "from nitro_gone_loss import squared_error", hook(CALLS.format("squared_error"))
    )
    with live(book) as run:
        module(HEAD + RENAMED.replace("wrong * wrong", "7.0 * wrong * wrong"))
        book.cell(
            "from nitro_gone_loss import squares\n" + hook(CALLS.format("squares"))
        )
        assert "loss: hit" not in " ".join(run.swap()), "another loss"
        assert run.stale == ()
        book.train()


def test_a_constant_that_is_gone_is_refused_before_anything_compiles(module, notebook):
    book = notebook(
        "from nitro_gone_loss import GAIN, squared_error",
        hook("return GAIN * squared_error(logits, y, 0.1)"),
    )
    with live(book) as run:
        module(HEAD.replace("GAIN", "FACTOR") + LOSS)
        assert run.stale == ("loss",)
        with pytest.raises(nitro.HookError, match="GAIN") as error:
            run.swap()
        check_error(error.value, "`nitro_gone_loss.GAIN`", "loss()")
        with pytest.raises(nitro.HookError, match="GAIN"):
            book.handle()


def test_a_host_hook_that_names_what_is_gone_goes_on_and_is_refused_anew(
    module, notebook
):
    book = notebook(
        "from nitro_gone_loss import GAIN",
        "@Tiny.hook\ndef metrics(self, logits, *, y):\n    return {'m': (GAIN * len(y), len(y))}",
    )
    with live(book) as run:
        module("import jax\n" + LOSS)
        assert run.handle.validate()["m"] == 2.0
        assert run.stale == ()
        with pytest.raises(nitro.HookError, match="GAIN"):
            run.swap()
        with pytest.raises(nitro.HookError, match="`metrics`"):
            book.handle()
        book.cell("GAIN = 3.0")
        run.swap()
        assert run.handle.validate()["m"] == 3.0


def test_what_a_registry_holds_and_no_trace_runs_is_no_reason_to_refuse(
    module, notebook
):
    module(HEAD + LOSS + "def other(*a): return 0.0\n")
    book = notebook(
        "import nitro_gone_loss as m\nR = {'f': m.squared_error, 'old': m.other}",
        hook("return R['f'](logits, y, self.smoothing)"),
    )
    with live(book) as run:
        module(HEAD + LOSS)
        assert run.stale == ("loss",), "in doubt it is looked at again"
        assert "compiled" not in " ".join(run.swap())
        assert run.stale == ()
        book.train()


def test_an_attribute_that_is_gone_fails_as_in_a_fresh_process(module, notebook):
    book = notebook(
        "import nitro_gone_loss as m", hook(CALLS.format("m.squared_error"))
    )
    with live(book) as run:
        news = News()
        news.take(run)
        module(HEAD + RENAMED)
        text = news.take(run).text
        assert "`m.squared_error` is not defined, loss(), In [6] reads it" in text
        assert "Mend that" in text
        with pytest.raises(nitro.HookError, match="no attribute 'squared_error'"):
            run.swap()
        run.advance(1)
        module(HEAD + LOSS)
        assert run.stale == ()


@pytest.mark.parametrize("edit", ["del squared_error", RENAMED + "\ndel squared_error"])
def test_a_helper_that_a_cell_deletes_is_named_and_the_run_goes_on(edit):
    book = tiny()
    with live(book) as run:
        news = News()
        news.take(run)
        book.cell(edit)
        text = news.take(run).text
        assert "loss (`squared_error` is not defined, loss(), In [4] reads it" in text
        assert "Mend that, then %nitro swap takes the edit" in text
        assert news.take(run) is None
        with pytest.raises(nitro.HookError, match="'squared_error' is not defined"):
            run.swap()
        run.advance(1)
        book.cell(LOSS)
        assert run.stale == ()
        assert news.take(run) is None
