from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import check_error, live, tiny
from flax import nnx

from nitro_repl import FieldError, RunError
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

FIELDS = """
class Tiny(Tiny):
    count: Device[int] = 2
    on: Device[bool] = True
    weights: Device[jax.Array] = nitro.field(default_factory=lambda: np.ones(2, "f"))
    tree: Device[dict] = nitro.field(
        default_factory=lambda: {"a": np.zeros(3), "b": (1.0, np.arange(2))}
    )

    def loss(self, logits, *, y):
        value = super().loss(logits * self.weights, y=y) * self.count
        more = self.tree["a"].sum() + self.tree["b"][0] + self.tree["b"][1].sum()
        return jnp.where(self.on, value + more, 0.0)
"""


@pytest.fixture(scope="module")
def book():
    return tiny(FIELDS)


def values(run):
    return {row.name: row.value for row in run.status().values}


REFUSED = [
    ({"smoothing": "0.1"}, ("`smoothing`", "Device[float]", "'0.1'")),
    ({"smoothing": None}, ("`smoothing`", "None")),
    ({"smoothing": [0.1]}, ("`smoothing`", "[0.1]")),
    ({"smoothing": np.ones(2)}, ("`smoothing`", "(2,)")),
    ({"smoothing": 1j}, ("`smoothing`", "1j")),
    ({"smoothing": jnp.ones((1,))}, ("`smoothing`", "(1,)")),
    ({"count": 1.5}, ("`count`", "1.5", "whole")),
    ({"count": float("inf")}, ("`count`", "inf")),
    ({"count": float("nan")}, ("`count`", "nan")),
    ({"count": 2**40}, ("`count`", str(2**40))),
    ({"weights": np.ones(3)}, ("`weights`", "(2,)", "(3,)")),
    ({"weights": "heavy"}, ("`weights`",)),
    ({"weights": None}, ("`weights`",)),
    ({"weights": np.ones(2, np.complex64)}, ("`weights`", "complex64", "float32")),
    ({"tree": {"a": np.zeros(3)}}, ("`tree`", "structure")),
    ({"tree": 3.0}, ("`tree`",)),
    ({"smoothin": 0.1}, ("`smoothin`", "smoothing")),
    ({"width": 8}, ("`width`", "GraphConst", "Nitro(Tiny(width=")),
    ({"note": "x"}, ("`note`", "Host", "Device")),
    ({"learning_rate": "fast"}, ("`learning_rate`", "'fast'")),
    ({"learning_rat": 0.1}, ("`learning_rat`", "learning_rate")),
    ({"smoothing": 0.5, "count": "x"}, ("`count`",)),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED, ids=lambda v: str(v)[:40])
def test_a_wrong_value_is_refused_and_nothing_changes(book, changes, words):
    with live(book, steps=1) as run:
        before = values(run)
        with pytest.raises(FieldError) as error:
            run.set(changes)
        check_error(error.value, *words)
        after = values(run)
        assert str(before) == str(after)
        run.advance(1)
        assert run.exception is None


def test_values_of_every_kind_are_taken_without_a_compile(book):
    with live(book) as run:
        run.set(smoothing=0.0)
        with count_compiles() as count:
            run.set(
                count=np.int64(3),
                on=False,
                weights=[2, 3],
                tree={"a": [1, 2, 3], "b": (np.float64(2.0), np.arange(2) + 1)},
            )
            run.advance(1)
            assert run.history()["loss"][-1] == 0.0
            run.set(on=True, weights=np.zeros(2, np.float64))
            run.advance(1)
        assert count.total == 0, count
        expected = (0.5 * 3) + 6 + 2 + 3
        assert run.history()["loss"][-1] == pytest.approx(expected)
        found = values(run)
        assert (found["count"], found["on"]) == (3, True)
        assert found["tree"]["b"][1].tolist() == [1, 2]


def test_unset_gives_back_what_the_experiment_says(book):
    with live(book) as run:
        run.set(count=9, learning_rate=0.25)
        run.unset("count")
        run.unset("learning_rate")
        assert values(run)["count"] == 2
        assert values(run)["learning_rate"] == 0.5
        with pytest.raises(FieldError) as error:
            run.unset("cont")
        check_error(error.value, "`cont`", "count", "to unset", "where: unset cont")
        with pytest.raises(FieldError) as error:
            run.unset("note")
        check_error(error.value, "`note`", "Host", "unset note")


def test_set_needs_something_to_set(book):
    with live(book, steps=0) as run:
        with pytest.raises(RunError) as error:
            run.set()
        check_error(error.value, "set(name=value)")


def test_a_number_is_weak_in_arithmetic_as_python_numbers_are(book):
    kinds = tiny("""
class Tiny(Tiny):
    count: Device[int] = 2

    def forward(self, model, *, x):
        half = model(x).astype(jnp.bfloat16)
        assert (half * self.smoothing).dtype == jnp.bfloat16
        assert (half * self.count).dtype == jnp.bfloat16
        assert (jnp.int8(1) + self.count).dtype == jnp.int8
        assert self.smoothing.dtype == jnp.float32
        assert self.count.dtype == jnp.int32
        return model(x)
""")
    with live(kinds) as run:
        run.set(smoothing=np.float64(1), count=np.int64(1))
        run.advance(1)
        assert run.exception is None


def test_what_the_user_holds_is_not_what_the_run_holds(book):
    mine = np.ones(2, np.float32)
    kept = jnp.full(2, 2.0)
    with live(book) as run:
        run.set(weights=mine)
        mine[...] = 100.0
        run.advance(1)
        assert run.history()["loss"][-1] < 100
        run.set(weights=kept)
        run.advance(3)
        assert kept.tolist() == [2.0, 2.0], "not donated"
        status = values(run)
        status["weights"][...] = 5.0
        assert values(run)["weights"].tolist() == [2.0, 2.0]


def test_default_factories_run_once_at_setup():
    book = tiny("""
MADE = []

def make():
    MADE.append(1)
    return np.zeros(2, "f")

class Tiny(Tiny):
    shift: Device[jax.Array] = nitro.field(default_factory=make)

    def loss(self, logits, *, y):
        return super().loss(logits + self.shift, y=y)
""")
    book.train()
    assert len(book["MADE"]) == 1
    assert jax.tree.leaves(book["MADE"]) == [1]


TEACHER = """
class Teacher(nnx.Module):
    def __init__(self, rngs, width=2):
        self.one = nnx.Linear(3, width, rngs=rngs)
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return self.drop(self.norm(self.one(x))) * 1.0

class Tiny(Tiny):
    teacher: Device[nnx.Module] = nitro.field(
        default_factory=lambda: Teacher(nnx.Rngs(7))
    )

    def loss(self, logits, *, x, y):
        return ((logits - self.teacher(x)) ** 2).mean()
"""


def test_a_module_is_an_input_in_eval_mode_without_a_gradient():
    book = tiny(TEACHER)
    with live(book, steps=1) as run:
        teacher = book["Teacher"](nnx.Rngs(9))
        before = np.asarray(teacher.one.kernel[...])
        book.cell(TEACHER)
        with count_compiles() as count:
            run.set(teacher=teacher)
            run.advance(2)
            run.swap()  # the cell of the class ran again, unchanged
            run.advance(1)
        assert count.nothing, count
        assert teacher.norm.mean[...].tolist() == [0, 0]
        assert np.array_equal(np.asarray(teacher.one.kernel[...]), before)
        assert not teacher.drop.deterministic, "the user's own stays as it was"
        model, batch = run.model(), book["ROWS"][4]
        run.advance(1)
        teacher.eval()
        expected = ((model(batch["x"]) - teacher(batch["x"])) ** 2).mean()
        assert run.history()["loss"][-1] == pytest.approx(float(expected), rel=1e-5)
        with pytest.raises(FieldError) as error:
            run.set(teacher=book["Teacher"](nnx.Rngs(0), width=3))
        check_error(error.value, "`teacher`")
        with pytest.raises(FieldError) as error:
            run.set(teacher=nnx.Linear(3, 2, rngs=nnx.Rngs(0)))
        check_error(error.value, "`teacher`", "a Teacher of the same layers")
        assert "teacher" in str(run.status())


def test_an_edit_of_a_modules_code_compiles_what_reads_it():
    book = tiny(TEACHER)
    book.train()
    book.cell(TEACHER.replace("* 1.0", "* 1.5"))
    with count_compiles() as count:
        book.train()
    assert set(count.compiled) == {"loss"}, count
    book.cell("Teacher.__call__ = lambda self, x: self.one(x) * 2.5")
    with count_compiles() as count:
        book.train()
    assert set(count.compiled) == {"loss"}, count


def test_any_pytree_may_be_a_value():
    book = tiny("""
from typing import NamedTuple

class Pair(NamedTuple):
    low: float
    high: float

class Tiny(Tiny):
    pair: Device[Pair] = Pair(0.0, 1.0)

    def loss(self, logits, *, y):
        return jnp.clip(logits, self.pair.low, self.pair.high).mean()
""")
    with live(book) as run:
        with count_compiles() as count:
            run.set(pair=book["Pair"](0.5, 0.5))
            run.advance(1)
        assert count.nothing, count
        assert run.history()["loss"][-1] == pytest.approx(0.5)
