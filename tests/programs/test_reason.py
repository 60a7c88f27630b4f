"""The reasons of lookups name the edit, of the run that asks, and nothing untrue."""

from __future__ import annotations

import threading

import pytest
from cells import TINY, live, tiny, until

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


def test_an_edit_of_build_model_is_named_through_its_chain(fresh_programs):
    book = tiny(
        "def scale(x): return x * 1.0\ndef layer(rngs):\n"
        "    return nnx.Sequential(nnx.Linear(3, 2, rngs=rngs), scale)",
        "class Tiny(Tiny):\n    def build_model(self, rngs): return layer(rngs)",
    )
    book.train()
    book.cell(
        "def double(x): return x * 2\ndef layer(rngs):\n"
        "    return nnx.Sequential(nnx.Linear(3, 2, rngs=rngs), double)"
    )
    book.train()
    for program in ("forward", "backward"):
        said = words(program)
        assert "helper layer() changed (build_model())" in said, said
        assert "In [7]" in said
        assert "the model changed" not in said


def test_a_graph_constant_of_the_model_is_named(fresh_programs):
    book = tiny()
    book.train()
    book.train(fields={"width": 6})
    assert "GraphConst width 4 -> 6" in words("forward")


def test_another_model_of_a_live_run_is_refused_with_the_edit(fresh_programs):
    book = tiny("def size(): return 4")
    book.cell(
        "class Tiny(Tiny):\n    def build_model(self, rngs):\n"
        "        return nnx.Linear(3, 2 * (size() // 4), rngs=rngs)"
    )
    with live(book) as run:
        book.cell("def size(): return 8")
        assert {"forward", "backward"} <= set(run.stale)
        with pytest.raises(nitro.NitroError) as refused:
            run.swap()
        assert "constant 4 -> 8 in size(), In [7]" in refused.value.where


def test_a_swap_tells_what_differs_from_what_the_run_steps_with(fresh_programs):
    book = tiny("GAIN = 0.5", LOSS.format("sin").replace("mean()", "mean() * GAIN"))
    with live(book) as run:
        book.cell("GAIN = 0.75")
        book.train()  # another handle looks the newer program up first
        book.cell("GAIN = 0.875")
        said = "\n".join(run.swap())
    assert "GAIN 0.5 -> 0.875" in said, said
    assert "0.75" not in said, said


def test_what_a_replaced_swap_compiles_later_is_not_the_latest(fresh_programs):
    book = tiny()
    book.names["started"], book.names["go"] = threading.Event(), threading.Event()
    slow = (
        "@Tiny.hook\ndef loss(self, logits, *, y):\n    {}return jnp.{}(logits).sum()"
    )
    with live(book) as run:
        book.cell(slow.format("started.set(); go.wait(60); ", "sin"))
        run.swap(wait=False)
        assert book["started"].wait(60)
        book.cell(slow.format("", "cos"))
        run.swap(wait=False)
        book["go"].set()
        until(lambda: not run.swapping)
        until(lambda: not run.stale)
    assert "In [6]" in words("loss")
    assert "In [5]" not in words("loss")


def test_the_value_form_of_older_code_says_nothing(fresh_programs):
    book = tiny(LOSS.format("sin"))
    book.train().handle.validate()
    book.cell(LOSS.format("cos"))
    book.train().handle.validate()
    book.cell(LOSS.format("tan"))
    book.train()
    assert "In [7]" in words("loss")
    assert "In [6]" not in words("loss")


RAGGED = """
class Tiny(Tiny):
    def build_data(self):
        return {"train": [{k: v[:n] for k, v in ROWS[0].items()} for n in (4, 3)]}
"""


def test_a_ragged_batch_does_not_hide_the_edit(fresh_programs):
    book = tiny(RAGGED)
    with live(book) as run:  # made for batches of 4 and of 3
        # With other residuals and outputs: nothing was made for their shapes before.
        book.cell(
            "@Tiny.hook\ndef forward(self, model, *, x):\n"
            "    return jnp.sin(model(x))[:, None]\n"
            "@Tiny.hook\ndef loss(self, logits, *, y):\n    return logits.mean()\n"
        )
        said = "\n".join(run.swap())
        run.advance(2)
    found = [e for e in nitro.programs.events() if e.outcome == "compiled"][-6:]
    for event in found:
        cause = "loss()" if event.program == "loss" else "forward()"
        assert event.reason.startswith(f"{cause} changed, In [6]"), found
        assert not ("[4" in event.reason and "[3" in event.reason), found
    assert "forward() changed" in words("backward")
    assert "[3,2] -> float32[3,1,2]" in said, said
    assert "int32" not in said, said


def test_a_device_field_that_was_removed_is_gone(fresh_programs):
    scaled = LOSS.format("sin").replace("mean()", "mean() * self.c")
    book = tiny(scaled.replace("    def", "    c: Device[float] = 1.0\n    def"))
    with live(book) as run:
        book.cell(TINY)  # with `loss` as it was: it reads no `c`
        book.cell(scaled)
        causes = [c for one in run._swapper.outlook().standings for c in one.causes]
    assert "Device field c is gone" in causes, causes
