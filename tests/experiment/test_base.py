from __future__ import annotations

import copy
import pickle

import jax.numpy as jnp
import numpy as np
import pytest
from cells import Notebook, check_error, tiny

import nitro_repl as nitro
from nitro_repl import ExperimentError, FieldError, HookError


class Exp(nitro.Experiment):
    width: nitro.GraphConst[int] = 3
    rate: nitro.Device[float] = 0.5
    path: str
    items: list = nitro.field(default_factory=list)

    def double(self):
        return self.width * 2


def test_an_experiment_is_made_by_keywords():
    exp = Exp(path="a", width=4)
    assert (exp.width, exp.rate, exp.path, exp.items) == (4, 0.5, "a", [])
    assert exp.double() == 8
    with pytest.raises(TypeError):
        Exp("a")
    with pytest.raises(FieldError) as error:
        Exp(path="a", widht=4)
    check_error(error.value, "`widht`", "width")
    with pytest.raises(FieldError) as error:
        Exp()
    check_error(error.value, "`path`", "Exp(path=...)")


def test_an_experiment_is_frozen():
    exp = Exp(path="a")
    for change in (
        lambda: setattr(exp, "width", 5),
        lambda: setattr(exp, "new", 5),
        lambda: delattr(exp, "width"),
    ):
        with pytest.raises(FieldError) as error:
            change()
        check_error(error.value, "frozen", "replace", "run.set")
    assert exp.width == 3


def test_replace_makes_another():
    exp = Exp(path="a", width=4)
    other = exp.replace(rate=0.25)
    assert (other.width, other.rate, other.path) == (4, 0.25, "a")
    assert exp.rate == 0.5
    assert type(other) is Exp
    with pytest.raises(FieldError):
        exp.replace(wdith=3)


def test_a_name_that_is_not_there_is_suggested():
    with pytest.raises(AttributeError, match="did you mean `width`"):
        _ = Exp(path="a").widht


def test_an_experiment_can_be_shown_copied_and_pickled():
    exp = Exp(path="a" * 100, items=[1])
    shown = repr(exp)
    assert shown.startswith("Exp(width=3, rate=0.5, path='aaa")
    assert len(shown) < 120
    for other in (copy.copy(exp), copy.deepcopy(exp)):
        assert (other.width, other.items) == (3, [1])
    assert pickle.loads(pickle.dumps(Plain(width=9))).width == 9


class Plain(nitro.Experiment):
    width: int = 3


def test_some_names_are_reserved():
    for name in ("forward", "loss", "build_model", "hook", "training", "key"):
        with pytest.raises(ExperimentError) as error:
            type("Wrong", (nitro.Experiment,), {"__annotations__": {name: int}})
        check_error(error.value, f"`{name}`", "Wrong", "another name")


# ---- attaching hooks


def test_a_hook_can_be_attached_and_any_method_too():
    book = tiny()
    book.cell("""
class Tiny(Tiny):
    def helper(self, x):
        return x

@Tiny.hook
def helper(self, x):
    return x + 1

@Tiny.hook
def train_metrics(self, logits):
    return {}
""")
    assert book["Tiny"]().helper(1) == 2
    assert book["Tiny"].__attached__.keys() == {"helper", "train_metrics"}
    assert book["helper"] is book["Tiny"].helper


def test_another_name_is_refused_with_a_suggestion():
    book = tiny()
    with pytest.raises(HookError) as error:
        book.cell("@Tiny.hook\ndef forwrd(self, model, *, x): pass")
    check_error(error.value, "`forwrd`", "`Tiny`", "`forward`", "<cell 5>")
    for name in ("hook", "replace", "__init__", "_private", "width"):
        with pytest.raises(HookError):
            book.cell(f"@Tiny.hook\ndef {name}(self): pass")


@pytest.mark.parametrize(
    "body",
    [
        "return super().loss(logits, y=y)",
        "base = super()\n    return base.loss(logits, y=y)",
        "return [super().loss(logits, y=y) for _ in range(2)][0]",
        "inner = lambda: super().loss(logits, y=y)\n    return inner()",
    ],
)
def test_super_without_arguments_is_refused_in_an_attached_hook(body):
    book = tiny()
    with pytest.raises(HookError) as error:
        book.cell(f"@Tiny.hook\ndef loss(self, logits, *, y):\n    {body}\n")
    check_error(error.value, "super()", "super(Tiny, self).loss(", "<cell 5>, line 1")


def test_super_with_arguments_works_in_an_attached_hook():
    book = tiny("Base = Tiny\nclass Tiny(Base):\n    pass\n")
    expected = book.train().history()["loss"]
    book.cell(
        "@Tiny.hook\ndef loss(self, logits, *, y):\n"
        "    return super(Tiny, self).loss(logits, y=y) * 2\n"
    )
    found = book.train().history()["loss"]
    assert found[0] == pytest.approx(expected[0] * 2)


def test_a_name_called_super_is_the_users_own():
    book = Notebook("""
import nitro_repl as nitro
class Exp(nitro.Experiment):
    def loss(self, outputs): return outputs

def make():
    super = lambda: 3
    @Exp.hook
    def loss(self, outputs):
        return super()
    return loss
""")
    assert book["make"]()(None, None) == 3


def test_the_seed_may_not_be_part_of_programs():
    with pytest.raises(nitro.ExperimentError) as error:

        class Seeded(nitro.Experiment):
            seed: nitro.GraphConst[int] = 0

    assert "each seed would be a new program" in str(error.value)
    assert "seed: int = 0" in error.value.fix


class Valued(nitro.Experiment):
    c: int = 1
    table: object = None
    made: list = nitro.field(default_factory=list)


class Other(nitro.Experiment):
    c: int = 1


def test_experiments_of_one_class_with_the_same_values_are_equal():
    assert Valued(c=2) == Valued(c=2) == Valued(c=1).replace(c=2)
    assert Valued(c=2) != Valued(c=3)
    assert hash(Valued(c=2)) == hash(Valued(c=2))
    assert {Valued(): "a"}[Valued()] == "a"
    assert Other() != Valued()
    assert Other() != 1
    assert (Valued() == None) is False  # noqa: E711


@pytest.mark.parametrize("module", [np, jnp], ids=["numpy", "jax"])
def test_arrays_are_equal_by_what_they_hold(module):
    one, other = module.arange(3.0), module.arange(3.0)
    for held in (lambda a: a, lambda a: [a], lambda a: {"k": (a, 1)}):
        assert Valued(table=held(one)) == Valued(table=held(other))
        assert hash(Valued(table=held(one))) == hash(Valued(table=held(other)))
        assert Valued(table=held(one)) != Valued(table=held(other + 1))
        assert Valued(table=held(one)) != Valued(table=held(other.astype("int32")))
    assert Valued(table=one) != Valued(table=0.0)


def test_a_default_that_a_factory_has_not_made_is_the_same_as_another():
    one, other = Valued(), Valued()
    assert one == other
    before = hash(one)
    one.made.append(1)
    assert one == other, "the other has not made its own"
    assert other.made == []
    assert one != other
    assert hash(one) == before
    assert Valued(made=[]) != Valued()


def test_values_that_cannot_be_compared_differ():
    class Odd:
        __hash__ = None

        def __eq__(self, other):
            raise ValueError("mine")

    held = Odd()
    assert Valued(table=held) == Valued(table=held)
    assert Valued(table=held) != Valued(table=Odd())


def test_equal_experiments_of_a_run_are_told_apart_in_a_hook_as_before():
    book = tiny("""
SEEN = Tiny()

class Tiny(Tiny):
    def loss(self, logits, *, y):
        assert self != SEEN and self == self and hash(self) == hash(self)
        return super().loss(logits, y=y)
""")
    book.train(max_steps=1)
