from __future__ import annotations

import pytest
from cells import check_error

from nitro_repl import DataError, HookError
from nitro_repl._experiment.routing import route


def test_keyword_only_parameters_are_the_batch_fields():
    def loss(self, outputs, *, label, weight=None, key):
        pass

    found = route(loss, "loss")
    assert found.required == ("label",)
    assert found.optional == ("weight",)
    assert found.wants_key
    assert not found.takes_all
    assert found.names({"label", "other"}) == ("label",)
    assert found.names(["weight", "label"]) == ("label", "weight")
    assert found.pick({"label": 1, "other": 2}) == {"label": 1}


def test_two_stars_take_all():
    def forward(self, model, *, x, **rest):
        pass

    found = route(forward, "forward")
    assert found.takes_all
    assert found.names({"b", "x", "a"}) == ("a", "b", "x")


def test_a_batch_that_lacks_a_field_names_both_sides():
    def loss(self, outputs, *, label, weight):
        pass

    route(loss, "loss").check({"label", "weight", "x"}, "train")
    with pytest.raises(DataError) as error:
        route(loss, "loss").check({"x", "labels"}, "val")
    check_error(
        error.value, "`loss` needs `label`, `weight`", "`val`", "`labels`, `x`",
        "test_routing.py",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("hook", "function", "words"),
    [
        (
            "loss",
            lambda self, outputs, label: 0,
            ("(self, outputs, label)", "*, label"),
        ),
        ("loss", lambda self: 0, ("(self)", "def loss(self, outputs)")),
        ("loss", lambda: 0, ("()", "def loss(self, outputs)")),
        ("forward", lambda self, *, x: 0, ("def forward(self, model)",)),
        ("optimizer", lambda self: 0, ("def optimizer(self, hp)",)),
        ("optimizer", lambda self, hp, more: 0, ("(self, hp, more)",)),
    ],
)
def test_a_wrong_signature_shows_the_right_one(hook, function, words):
    with pytest.raises(HookError) as error:
        route(function, hook)
    check_error(error.value, f"`{hook}` takes", "test_routing.py", *words)


@pytest.mark.parametrize(
    "function",
    [
        lambda self, outputs, *, y: 0,
        lambda self, logits, /, *, y: 0,
        lambda *args, y: 0,
        lambda self, logits, *rest, y: 0,
    ],
)
def test_positional_parameters_may_have_any_name(function):
    assert route(function, "loss").required == ("y",)
