from __future__ import annotations

import copy
import pickle

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
