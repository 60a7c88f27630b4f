from __future__ import annotations

import jax.numpy as jnp
import pytest
from cells import check_error

import nitro_repl as nitro
from nitro_repl import FieldError, HookError, HostFieldError
from nitro_repl._experiment import view as views
from nitro_repl._experiment.hooks import Hooks
from nitro_repl._experiment.view import Reads


class Base(nitro.Experiment):
    def scaled(self, x):
        return x * self.gain


class Exp(Base):
    width: nitro.GraphConst[int] = 3
    rate: nitro.Device[float] = 0.5
    path: str = "here"
    gain = 2

    def scaled(self, x):
        return super().scaled(x) + self.width

    @property
    def twice(self):
        return self.width * 2

    @staticmethod
    def plain(x):
        return x

    def reads(self):
        return {(read.kind, read.name) for read in self}


def traced(experiment=None, training=True, **device):
    reads = Reads()
    experiment = experiment or Exp()
    made = views.traced_view(
        experiment,
        Hooks.of(type(experiment)),
        reads,
        device=device or {"rate": jnp.float32(0.25)},
        training=training,
        program="loss",
    )
    return made, reads


def noted(reads):
    return {(read.kind, read.name) for read in reads}


def test_it_is_an_instance_of_the_users_class():
    exp, _ = traced()
    assert isinstance(exp, Exp)
    assert exp.scaled(2) == 7
    assert exp.plain(4) == 4
    assert exp.twice == 6
    assert type(exp).__name__ == "Exp"
    assert type(exp).__fields__ == Exp.__fields__


def test_it_notes_what_is_read():
    exp, reads = traced()
    assert noted(reads) == set()
    assert exp.width == 3
    assert exp.rate == 0.25
    assert noted(reads) == {("const", "width"), ("device", "rate")}
    exp, reads = traced()
    exp.scaled(1)
    assert noted(reads) == {
        ("member", "scaled"),
        ("member", "gain"),
        ("const", "width"),
    }
    exp, reads = traced()
    assert getattr(exp, "wi" + "dth") == 3
    assert not hasattr(exp, "nothing")
    assert noted(reads) == {("const", "width"), ("absent", "nothing")}


def test_training_is_a_literal():
    assert traced(training=True)[0].training is True
    assert traced(training=False)[0].training is False


def test_a_host_field_says_the_three_ways_out():
    exp, _ = traced()
    with pytest.raises(HostFieldError) as error:
        _ = exp.path
    check_error(
        error.value, "`self.path`", "`loss`", "test_view.py",
        "GraphConst[str]", "Device[str]", "build_data",
    )  # fmt: skip


def test_nothing_can_be_kept_on_it():
    exp, _ = traced()
    with pytest.raises(HookError) as error:
        exp.last = 3
    check_error(error.value, "self.last", "leak", "test_view.py", "return")
    with pytest.raises(HookError):
        exp.width = 3


def test_a_hook_that_is_not_there_says_so():
    exp, _ = traced()
    with pytest.raises(HookError) as error:
        exp.forward(None)
    check_error(error.value, "`forward`", "def forward")
    assert not hasattr(exp, "metrics"), "an optional hook may be asked for"


def test_build_model_reads_host_fields_and_no_device_field():
    reads = Reads()
    exp = views.host_view(Exp(), Hooks.of(Exp), reads)
    assert (exp.path, exp.width) == ("here", 3)
    assert noted(reads) == {("const", "path"), ("const", "width")}
    with pytest.raises(FieldError) as error:
        _ = exp.rate
    check_error(error.value, "`self.rate`", "build_model", "GraphConst")


def test_printing_it_reads_nothing():
    exp, reads = traced()
    assert "Exp" in repr(exp)
    assert noted(reads) == set()


def test_two_views_do_not_share_what_they_note():
    one, first = traced()
    two, second = traced()
    _ = one.width, two.rate
    assert noted(first) == {("const", "width")}
    assert noted(second) == {("device", "rate")}
