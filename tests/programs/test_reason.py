"""The reasons of lookups name the edit, of the run that asks, and nothing untrue."""

from __future__ import annotations

import pytest
from cells import live, tiny

import nitro_repl as nitro

FORWARD = """
class Tiny(Tiny):
    def forward(self, model, *, x):
        return jnp.{}(model(x))
"""
LOSS = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return jnp.{}(logits).mean()
"""


def words(program):
    (line,) = [line for line in nitro.programs.why() if line.startswith(f"{program}:")]
    return line


def test_backward_names_the_edit_of_forward(fresh_programs):
    book = tiny(FORWARD.format("sin"))
    book.train()
    book.cell(FORWARD.format("cos"))
    book.train()
    for program in ("forward", "backward"):
        assert "forward() changed, In [6]" in words(program), nitro.programs.why()


def test_a_program_that_had_left_the_cache_says_so(fresh_programs):
    limit = nitro.programs.limit
    book = tiny(LOSS.format("sin"))
    book.train()
    try:
        nitro.programs.limit = 1
        nitro.programs.limit = limit
        book.train()
    finally:
        nitro.programs.limit = limit
    assert "left the cache" in words("forward") + words("loss")
    assert "JAX settings" not in str(list(nitro.programs.why()))


def test_the_value_form_that_comes_later_does_not_hide_the_edit(fresh_programs):
    book = tiny(LOSS.format("sin"))
    book.train()
    book.cell(LOSS.format("cos"))
    book.train().handle.validate()
    assert "loss() changed" in words("loss")
    assert "first use" not in words("loss")


def test_a_swap_tells_of_its_own_programs_only(fresh_programs):
    book = tiny(LOSS.format("sin"))
    with live(book) as split, live(book, fuse=True) as fused:
        book.cell(LOSS.format("cos"))
        said = "\n".join(split.swap())
        assert "loss: compiled" in said
        assert "step:" not in said
        said = "\n".join(fused.swap())
        assert "step: compiled" in said
        assert "loss:" not in said
        entries = [e for e in fused.journal.entries if e["command"] == "swap"]
        assert "loss:" not in str(entries[0]["why"])


def test_what_is_newer_is_stale_though_it_does_not_fit_the_run():
    book = tiny("GAIN = 1.0", LOSS.format("sin"))
    with live(book) as run:
        book.cell(LOSS.format("cos"))
        book.cell("@Tiny.hook\ndef optimizer(self, hp):\n    return 3\n")
        assert {"loss", "optimizer"} <= set(run.stale)
        with pytest.raises(nitro.NitroError):
            run.swap()
