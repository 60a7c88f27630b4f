from __future__ import annotations

import pytest
from cells import check_error

import nitro_repl as nitro
from nitro_repl import HookError
from nitro_repl._experiment.hooks import HOOKS, Hooks, uses_bare_super


class Base(nitro.Experiment):
    gain = 2

    def loss(self, outputs):
        return "base"

    def helper(self):
        return self.gain


class Exp(Base):
    def loss(self, outputs):
        return "exp"

    @property
    def twice(self):
        return self.gain * 2

    @classmethod
    def name(cls):
        return cls.__name__

    @staticmethod
    def add(a, b):
        return a + b


def test_a_table_is_the_class_of_one_moment():
    class Changing(Exp):
        pass

    pinned = Hooks.of(Changing)
    Changing.loss = lambda self, outputs: "later"
    exp = Changing()
    assert exp.loss(None) == "later"
    assert pinned.call(exp, "loss", None) == "exp"
    assert Hooks.of(Changing).call(exp, "loss", None) == "later"


def test_members_are_bound_as_python_binds_them():
    pinned, exp = Hooks.of(Exp), Exp()
    assert pinned.call(exp, "helper") == 2
    assert pinned.bound(exp, "twice") == 4
    assert pinned.bound(exp, "gain") == 2
    assert pinned.call(exp, "name") == "Exp"
    assert pinned.call(exp, "add", 1, b=2) == 3


def test_batch_fields_may_have_any_name():
    class Named(nitro.Experiment):
        def metrics(self, outputs, *, name, experiment, hooks):
            return {"all": (name, experiment, hooks)}

    given = {"name": 1, "experiment": 2, "hooks": 3}
    found = Hooks.of(Named).call(Named(), "metrics", None, **given)
    assert found == {"all": (1, 2, 3)}


def test_binding_replaces_in_a_copy():
    pinned = Hooks.of(Exp)
    other = pinned.bind(loss=lambda self, outputs: "bound")
    assert other.call(Exp(), "loss", None) == "bound"
    assert pinned.call(Exp(), "loss", None) == "exp"
    assert other.take(pinned, ("loss",)).call(Exp(), "loss", None) == "exp"
    with pytest.raises(HookError) as error:
        pinned.bind(los=lambda self: None)
    check_error(error.value, "`los`", "`Exp`", "loss")


def test_taking_a_hook_that_is_gone_drops_it():
    with_metrics = Hooks.of(Exp).bind(metrics=lambda self, outputs: {})
    taken = with_metrics.take(Hooks.of(Exp), ("metrics",))
    assert with_metrics.defines("metrics")
    assert not taken.defines("metrics")


@pytest.mark.parametrize("name", [n for n, hook in HOOKS.items() if hook.required])
def test_a_required_hook_that_is_missing_says_how_to_write_it(name):
    class Empty(nitro.Experiment):
        pass

    pinned = Hooks.of(Empty)
    with pytest.raises(HookError) as error:
        pinned.call(Empty(), name)
    check_error(error.value, f"`{name}`", "Empty", f"def {name}(self")


def test_defaults_of_the_optional_hooks():
    pinned = Hooks.of(Exp)
    assert {"optimizer", "learning_rate", "finalize_metrics"} <= set(pinned)
    assert pinned.call(Exp(), "learning_rate") == 1e-3
    assert not pinned.defines("metrics")


def test_bare_super_is_told_from_its_like():
    def bare(self):
        return super().loss()

    def full(self):
        return super(Exp, self).loss(None)

    def shadowed(super):
        return super()

    def other(self):
        return max(1, 2)

    assert uses_bare_super(bare)
    assert not any(map(uses_bare_super, (full, shadowed, other, len, Exp.loss)))
