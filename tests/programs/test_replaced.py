# ruff: noqa: E501 (cells read best with one statement a line)
"""Functions and constants that a user puts in place of a library's own.

Nothing of the user's code names them: only the inside of the library calls them. The
numbers are compared with plain eager training on what stands there then.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import optax
import pytest
from cells import Notebook, Outcomes, by_hand, live, losses, tiny
from flax import nnx

import nitro_repl as nitro
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

MODEL = frozenset({"forward", "backward"})
OPTIMIZER = frozenset({"optimizer"})
LAYERS = """
class Tiny(Tiny):
    def build_model(self, rngs):
        return nnx.Sequential(
            nnx.Linear(3, self.width, rngs=rngs), nnx.LayerNorm(self.width, rngs=rngs),
            nnx.Linear(self.width, 2, rngs=rngs),
        )
"""
ADAM = """
class Tiny(Tiny):
    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)
"""


class Case(NamedTuple):
    """What is imported as `place`, the name there, and what is put there."""

    place: str
    name: str
    put: str
    then: str
    compiles: frozenset[str]


CASES = {
    "a private function of a layer": Case(
        "flax.nnx.nn.normalization", "_normalize",
        "def put(*a, **k): return 1.5 * old(*a, **k)", "def put(*a, **k): return old(*a, **k) ** 2", MODEL,
    ),
    "a private function of a layer, through a helper": Case(
        "flax.nnx.nn.normalization", "_normalize",
        "def gain(x): return 1.75 * x\ndef put(*a, **k): return gain(old(*a, **k))", "def gain(x): return jnp.sin(x)", MODEL,
    ),
    "a library's function by another": Case(
        "jax.lax", "rsqrt", "put = jax.lax.sqrt", "put = jax.lax.log1p", MODEL,
    ),
    "a function of the optimizer's inside": Case(
        "optax._src.numerics", "safe_increment", "def put(count): return old(count) + 1", "def put(count): return old(count) * 2", OPTIMIZER,
    ),
    "what an alias is made of": Case(
        "optax._src.transform", "scale_by_adam",
        "def put(*a, **k): return optax.scale(1.5)", "def put(*a, **k): return optax.scale_by_sign()", OPTIMIZER,
    ),
}  # fmt: skip


@contextlib.contextmanager
def replacing(case: Case) -> Iterator[Notebook]:
    """A notebook that puts things in a library, and what was there at the end."""
    book = tiny(LAYERS, *([ADAM] if case.compiles == OPTIMIZER else []))
    book.cell(f"import {case.place}, sys\nplace = sys.modules[{case.place!r}]")
    book.cell(f"old = place.{case.name}")
    try:
        yield book
    finally:
        book.cell(f"place.{case.name} = old")


def eager(book: Notebook, steps: int = 2) -> list[float]:
    """The losses of optax's own loop, with a transformation made now."""
    experiment = book["Tiny"]()
    with jax.disable_jit():
        model = experiment.build_model(nnx.Rngs(0))
        graph, params, rest = nnx.split(model, nnx.Param, ...)
        rule = optax.adam(experiment.learning_rate())
        state = rule.init(params)

        def value(params: Any, batch: Any) -> Any:
            merged = nnx.merge(graph, params, rest, copy=True)
            outputs = experiment.forward(merged, x=batch["x"])
            return experiment.loss(outputs, y=batch["y"])

        found = []
        for batch in book["ROWS"][:steps]:
            loss, grads = jax.value_and_grad(value)(params, batch)
            updates, state = rule.update(grads, state, params)
            params = optax.apply_updates(params, updates)
            found.append(float(loss))
    return found


@pytest.mark.parametrize("name", CASES)
def test_is_followed_by_numbers_and_programs(name):
    case = CASES[name]
    expect = eager if case.compiles == OPTIMIZER else by_hand
    steps = 3 if case.compiles == OPTIMIZER else 2
    with replacing(case) as book:
        first = losses(book.train(max_steps=steps))
        assert first == pytest.approx(expect(book, steps=steps), rel=2e-5)
        for edit in (case.put, case.then):
            book.cell(f"{edit}\nplace.{case.name} = put")
            outcomes = Outcomes()
            after = losses(book.train(max_steps=steps))
            assert after == pytest.approx(expect(book, steps=steps), rel=2e-5)
            assert max(abs(a - b) for a, b in zip(after, first, strict=True)) > 1e-4
            made = {n for n, what in outcomes.worst.items() if what == "compiled"}
            assert "forward" in made or case.compiles != MODEL
            assert made <= case.compiles
        book.cell(f"place.{case.name} = old")
        with count_compiles() as count:
            again = losses(book.train(max_steps=steps))
        assert again == first
        assert count.total == 0


def test_a_live_run_takes_it_by_swap_and_says_what_was_replaced():
    case = CASES["a private function of a layer"]
    with replacing(case) as book, live(book) as run:
        assert run.stale == ()
        book.cell(f"{case.put}\nplace.{case.name} = put")
        assert set(run.stale) >= MODEL
        run.swap(wait=True)
        said = "; ".join(event.reason for event in nitro.programs.events())
        assert "flax.nnx.nn.normalization._normalize was replaced" in said
        assert "new: put(), In [" in said
        assert "again" not in said
        assert run.stale == ()
        book.cell(f"place.{case.name} = old")
        assert set(run.stale) >= MODEL
        with count_compiles() as count:
            run.swap(wait=True)
        assert count.total == 0


def test_what_a_library_does_to_itself_is_no_edit():
    import importlib

    import optax._src.combine

    book = tiny(LAYERS)
    book.train()
    importlib.reload(optax._src.combine)
    with nitro_caches_checked(), count_compiles() as count:
        book.train()
    assert count.nothing


@contextlib.contextmanager
def nitro_caches_checked() -> Iterator[None]:
    """JAX looks at its cache anew, and notes so in globals of its module."""
    from jax._src import compilation_cache

    before = compilation_cache._cache_checked
    compilation_cache._cache_checked = not before
    try:
        yield
    finally:
        compilation_cache._cache_checked = before


def test_a_name_that_no_code_of_the_trace_says_costs_no_trace():
    import flax.nnx.nn.recurrent as place

    book = tiny(LAYERS)
    book.train()
    old = place.LSTMCell
    try:
        place.LSTMCell = lambda *_: None
        with count_compiles() as count:
            book.train()
        assert count.nothing
    finally:
        place.LSTMCell = old


@pytest.mark.parametrize(
    "put", ["def put(x): return jnp.sin(x)\nplace._gain = put", "place._GAIN = 0.5"]
)
def test_a_package_met_in_a_trace_is_watched_too(put, tmp_path, monkeypatch):
    folder = tmp_path / "site-packages" / "some_layers"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from .inside import act\n")
    (folder / "inside.py").write_text(
        "_GAIN = 2.0\n"
        "def _gain(x):\n    return x * _GAIN\n"
        "def act(x):\n    return _gain(x)\n"
    )
    monkeypatch.syspath_prepend(str(folder.parent))
    book = tiny(
        "import some_layers",
        "class Tiny(Tiny):\n"
        "    def forward(self, model, *, x): return some_layers.act(model(x))",
    )
    first = losses(book.train())
    book.cell(f"import some_layers.inside as place\n{put}")
    after = losses(book.train())
    for name in ("some_layers", "some_layers.inside"):
        del sys.modules[name]
    assert after == pytest.approx(by_hand(book), rel=1e-5)
    assert after != first
