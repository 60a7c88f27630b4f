"""`@nitro.program` methods run on the live state, each a program of its own."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import Outcomes, check_error, live, same, tiny

import nitro_repl as nitro
from nitro_repl import HookError, StaleError, SwapError
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

METHODS = """
scale = 3.0

class Tiny(Tiny):
    @nitro.program
    def scores(self, model, *, x, temperature=1.0):
        return {"scores": model(x) / temperature, "training": self.training,
                "smoothing": self.smoothing, "words": ("a", None)}

    @nitro.program
    def draw(self, model, *, key, n: GraphConst[int] = 2):
        return jax.random.normal(key, (n,)) * scale

    @nitro.program
    def letters(self, model, *, text, many):
        return jnp.asarray([ord(c) for c in text]), sum(many["a"])
"""
RESTLESS = """
class Tiny(Tiny):
    def build_model(self, rngs):
        return nnx.Sequential(
            nnx.Linear(3, self.width, rngs=rngs), nnx.BatchNorm(self.width, rngs=rngs),
            nnx.Dropout(0.5, rngs=rngs), nnx.Linear(self.width, 2, rngs=rngs),
        )
"""
EDITED = """
@Tiny.hook
def draw(self, model, *, key, n: GraphConst[int] = 2):
    return jax.random.uniform(key, (n,)) + {}
"""


@pytest.fixture(scope="module")
def book():
    return tiny(METHODS)


def by_hand(model, x):
    """The model in eval mode, by its own arrays."""
    return np.asarray(model(jnp.asarray(x)))


def test_a_method_runs_on_the_live_state_in_eval_mode_and_returns_anything():
    book = tiny(METHODS, RESTLESS)
    x = book["ROWS"][0]["x"]
    with live(book, steps=3) as run:
        before = run.model()
        made = run.call("scores", x=x, temperature=2.0)
        assert isinstance(made["scores"], np.ndarray)
        np.testing.assert_allclose(
            made["scores"], by_hand(before, x) / 2, rtol=1e-5, atol=1e-6
        )
        assert made["training"] == np.False_
        assert made["words"] == ("a", None)
        run.set(smoothing=0.25)
        run.advance(2)
        made = run.handle.call("scores", x=x)
        np.testing.assert_allclose(
            made["scores"], by_hand(run.model(), x), rtol=1e-5, atol=1e-6
        )
        assert made["smoothing"] == np.float32(0.25)
        assert np.abs(by_hand(before, x) - made["scores"]).max() > 1e-4


def test_a_call_changes_nothing_and_compiles_once(book):
    x = book["ROWS"][0]["x"]
    with live(book, steps=2) as run, live(book, steps=2) as other:
        outcomes = Outcomes()
        run.call("scores", x=x, temperature=7)  # an int: another program
        with count_compiles() as count:
            for temperature in (2, 9):
                run.call("scores", x=x, temperature=temperature)
            other.call("scores", x=x, temperature=9)
        assert count.nothing
        assert outcomes.worst == {"scores": "compiled"}
        run.advance(2)
        other.advance(2)
        assert same(run.params, other.params)
        with count_compiles() as count:
            run.call("scores", x=x[:2])
        assert set(count.compiled) == {"scores"}


def test_a_handle_calls_before_any_training(book):
    handle = book.handle()
    made = handle.call("scores", x=book["ROWS"][0]["x"])["scores"]
    assert same(made, handle.predict(book["ROWS"][0]))


def test_the_key_is_that_of_seed_method_and_step_or_the_one_given(book):
    handle = book.handle(max_steps=4)
    first = handle.call("draw")
    assert same(first, handle.call("draw"))
    assert not same(first, book.handle(seed=1).call("draw"))
    run = handle.train(background=False)
    after = run.call("draw")
    assert not same(first, after)
    assert same(after, book.train(max_steps=4).call("draw"))
    key = jax.random.key(5)
    by_key = np.asarray(jax.random.normal(key, (2,)) * 3.0)
    np.testing.assert_allclose(run.call("draw", key=key), by_key, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run.call("draw", key=5), by_key, rtol=1e-5, atol=1e-6)
    assert run.call("draw", n=3).shape == (3,)


def test_texts_are_constants_and_lists_of_numbers_arrays(book):
    handle = book.handle()
    codes, total = handle.call("letters", text="ab", many={"a": [1, 2, 3]})
    assert (codes.tolist(), total.tolist()) == ([97, 98], 6)
    codes, total = handle.call("letters", text="xyz", many={"a": [4, 5, 6]})
    assert (codes.tolist(), total.tolist()) == ([120, 121, 122], 15)


def test_an_edit_of_a_method_compiles_its_own_program_alone():
    book = tiny(METHODS)
    x = book["ROWS"][0]["x"]
    with live(book, steps=1) as run:
        run.call("scores", x=x)
        before = run.call("draw")
        book.cell(EDITED.format(1))
        assert run.stale == ("draw",)
        assert same(run.call("draw"), before)
        with count_compiles() as count:
            run.swap("draw")
        assert set(count.compiled) == {"draw"}
        assert 1 <= run.call("draw").min() <= run.call("draw").max() <= 2
        with count_compiles() as count:
            run.advance(1)
            run.call("scores", x=x)
        assert count.nothing
        book.cell("scale = 4.0")  # which `draw` reads no more
        assert run.stale == ()


def test_a_new_method_comes_with_a_swap_and_needs_no_class_cell():
    book = tiny(METHODS)
    with live(book, steps=1) as run:
        book.cell(
            "@Tiny.hook\n@nitro.program\ndef bias(self, model): "
            "return model.layers[0].bias"
        )
        with pytest.raises(HookError) as refused:
            run.call("bias")
        check_error(refused.value, "`bias`", "@nitro.program", "run.swap()")
        with count_compiles() as count:
            run.swap()
        assert count.nothing
        assert same(run.call("bias"), run.params["layers"][0]["bias"])


def test_a_swap_goes_on_when_a_method_takes_other_inputs_now():
    book = tiny(METHODS)
    with live(book, steps=1) as run:
        run.call("scores", x=book["ROWS"][0]["x"])
        book.cell("@Tiny.hook\ndef scores(self, model, *, z): return model(z)")
        run.swap()
        made = run.call("scores", z=book["ROWS"][0]["x"])
        assert same(made, run.handle.predict(book["ROWS"][0]))


def test_a_method_first_called_after_an_edit_of_its_helper_asks_for_a_swap():
    book = tiny(METHODS)
    with live(book, steps=1) as run:
        book.cell("scale = 5.0")
        with pytest.raises(StaleError, match="scale"):
            run.call("draw")
        run.swap()
        run.call("draw")


def test_a_method_of_a_base_class_written_anew_is_one_still():
    book = tiny(
        METHODS, "class Tiny(Tiny):\n    def draw(self, model): return jnp.ones(3)"
    )
    assert book.handle().call("draw").tolist() == [1, 1, 1]


REFUSED = {
    "no method": ({"name": "forward"}, ("no program method `forward`",)),
    "a typo": ({"name": "score"}, ("did you mean `scores`?",)),
    "a missing input": ({"name": "scores"}, ("`scores` needs `x`", "<cell 5>")),
    "an unknown input": (
        {"name": "scores", "x": 1, "tempo": 2},
        ("no parameter `tempo`", "temperature"),
    ),
    "an object": ({"name": "scores", "x": object()}, ("object", "GraphConst")),
    "an array of texts": ({"name": "scores", "x": np.array(["a"])}, ("ndarray",)),
    "a key that is none": ({"name": "draw", "key": 0.5}, ("`key`", "jax.random.key")),
    "a key for who takes none": (
        {"name": "scores", "x": 1, "key": 3},
        ("no parameter `key`",),
    ),
    "a constant without content": (
        {"name": "draw", "n": threading.Lock()},
        ("`n`", "GraphConst", "lock"),
    ),
    "a wrong shape": ({"name": "scores", "x": np.ones((2, 9))}, ("<cell 5>, line",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(book, name):
    inputs, words = REFUSED[name]
    inputs = dict(inputs)
    with pytest.raises(HookError) as refused:
        book.handle().call(inputs.pop("name"), **inputs)
    check_error(refused.value, *words)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("@nitro.program\ndef loss(self, model): ...", ("`loss`", "another name")),
        ("nitro.program(3)", ("int", "def sample")),
        (
            "class Tiny(Tiny):\n    @nitro.program\n    def f(self): ...\n"
            "nitro.Nitro(Tiny())",
            ("`f` takes (self, model", "<cell 5>"),
        ),
    ],
)
def test_what_cannot_be_a_method_is_refused_before_any_compile(source, words):
    with pytest.raises(HookError) as refused:
        tiny().cell(source)
    check_error(refused.value, *words)


def test_a_swap_of_an_unknown_program_names_the_methods(book):
    with live(book, steps=0) as run, pytest.raises(SwapError, match="did you mean"):
        run.swap("scors")


def test_events_and_the_run_know_the_method_by_its_name(book):
    with live(book, steps=1) as run:
        run.call("scores", x=book["ROWS"][0]["x"][:1])
        event = nitro.programs.events()[-1]
        assert (event.program, event.run, event.step) == ("scores", run.id, 1)
        assert "scores" in [program.name for program in run.status().programs]
