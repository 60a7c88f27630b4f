"""What `loss` and `optimizer` refuse is said before XLA works on the model."""

from __future__ import annotations

import pytest
from cells import check_error, live, tiny

from nitro_repl import HookError
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

VECTOR = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return logits
"""


def test_a_loss_that_is_one_is_compiled(fresh_programs):
    with count_compiles() as count:
        tiny().train(max_steps=1)
    assert set(count.compiled) == {"forward", "loss", "backward", "optimizer"}


LOUD = """
class Tiny(Tiny):
    def optimizer(self, hp):
        made = optax.sgd(hp.learning_rate)
        return optax.GradientTransformation(made.init, {})
"""
UPDATES = {
    "raises": ("lambda *_: {}['nothing']", "KeyError"),
    "another state": ("lambda u, s, p: (u, (s, s))", "changes its structure"),
}
STEPS = [
    {},
    {"fuse": True},
    {"accum": 5},
    {"accum": 5, "fuse": True},
    {"accum": 5, "accum_mode": "joint"},
    {"accum": 5, "accum_mode": "joint", "fuse": True},
]


@pytest.mark.parametrize("settings", STEPS, ids=str)
@pytest.mark.parametrize("kind", UPDATES)
def test_an_update_that_fails_is_refused_before_any_compile(
    fresh_programs, kind, settings
):
    update, words = UPDATES[kind]
    handle = tiny(LOUD.replace("{}", update, 1)).handle(max_steps=1, **settings)
    with count_compiles() as count, pytest.raises(HookError) as error:
        handle.train(background=False)
    check_error(error.value, words)
    assert count.compiled == {}


@pytest.mark.parametrize("settings", STEPS, ids=str)
@pytest.mark.parametrize(
    ("loss", "words"), [("logits", "not a scalar"), ("{}['nothing']", "KeyError")]
)
def test_an_ill_formed_loss_is_refused_before_any_compile(
    fresh_programs, loss, words, settings
):
    source = VECTOR.replace("return logits", f"return {loss}")
    handle = tiny(source).handle(max_steps=1, **settings)
    with count_compiles() as count, pytest.raises(HookError) as error:
        handle.train(background=False)
    check_error(error.value, words)
    assert count.compiled == {}


SAID = """
@Tiny.hook
def optimizer(self, hp):
    print("{}")
    return optax.sgd(hp.learning_rate)
"""
LOSS = """
    def loss(self, logits, *, y):
        return (logits ** 3).mean()
"""
FORWARD = """
@Tiny.hook
def forward(self, model, *, x):
    return model(x) * {}
"""


def test_what_is_known_is_not_rehearsed(fresh_programs, capsys):
    book = tiny(SAID.format("first"))
    with live(book) as run:
        capsys.readouterr()
        book.cell(FORWARD.format(2.0))
        run.swap()
        assert "first" not in capsys.readouterr().out
        book.cell(SAID.format("second"))  # control
        run.swap()
        assert "second" in capsys.readouterr().out


def test_an_update_that_fails_is_refused_before_a_new_loss_compiles(fresh_programs):
    tiny().train(max_steps=1)
    update, words = UPDATES["raises"]
    source = LOUD.replace("{}", update, 1) + LOSS
    with count_compiles() as count, pytest.raises(HookError) as error:
        tiny(source).train(max_steps=1)
    check_error(error.value, words)
    assert count.compiled == {}
