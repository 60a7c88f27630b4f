# ruff: noqa: E501 (cells read best with one statement a line)
"""What is wrong is said with what, where and fix; the session stays usable after."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from cells import TINY, check_error, live, losses, same, tiny

import nitro_repl as nitro
from nitro_repl import (
    DataError,
    ExperimentError,
    FieldError,
    HookError,
    HostFieldError,
    ModelError,
    SettingError,
)
from nitro_repl.testing import count_compiles


class Case(NamedTuple):
    """A cell after which a handle, or its training, is refused."""

    cell: str
    kind: type[Exception]
    words: tuple[str, ...]


def method(source: str) -> str:
    """A class that is like Tiny but for this hook."""
    lines = "\n".join(f"    {line}" for line in source.splitlines())
    return f"class Tiny(Tiny):\n{lines}\n"


def without(hook: str) -> str:
    head, *hooks = TINY.split("\n    def ")
    kept = [text for text in hooks if not text.startswith(f"{hook}(")]
    return "\n    def ".join([head, *kept]) + "\n"


AT_SETUP = {
    "a GraphConst that cannot be compared": Case(
        "class Odd:\n    def __getattr__(self, name): raise OSError\n    __slots__ = ()\n"
        "import threading\n"
        "class Tiny(Tiny):\n    lock: GraphConst[object] = threading.Lock()\n",
        FieldError, ("`lock`", "GraphConst", "Tiny.lock", "Host"),
    ),
    "a Device field read in build_model": Case(
        method("def build_model(self, rngs):\n    return nnx.Linear(3, int(self.smoothing), rngs=rngs)"),
        FieldError, ("`self.smoothing`", "Device", "build_model", "<cell 5>, line 3", "GraphConst"),
    ),
    "a Device field that is a text": Case(
        "class Tiny(Tiny):\n    smoothing: Device[float] = 'much'\n",
        FieldError, ("`smoothing`", "Device[float]", "'much'"),
    ),
    "a Device field that is None": Case(
        "class Tiny(Tiny):\n    smoothing: Device[float] = None\n",
        FieldError, ("`smoothing`", "None"),
    ),
    "a batch without a field": Case(
        "ROWS = [{'x': row['x'], 'label': row['y']} for row in ROWS]",
        DataError, ("`loss` needs `y`", "`label`", "`x`", "`train`"),
    ),
    "a validation batch without a field": Case(
        method("def build_data(self):\n    return {'train': ROWS, 'val': [{'x': ROWS[0]['x']}]}"),
        DataError, ("`loss` needs `y`", "val"),
    ),
    "a generator as a split": Case(
        method("def build_data(self):\n    return {'train': (row for row in ROWS)}"),
        DataError, ("train", "generator", "build_data"),
    ),
    "arrays as a split": Case(
        method("def build_data(self):\n    return {'train': {'x': np.zeros((8, 3)), 'y': np.zeros(8)}}"),
        DataError, ("train", "build_data", "ArrayLoader"),
    ),
    "an empty split": Case(
        method("def build_data(self):\n    return {'train': []}"), DataError, ("train", "empty"),
    ),
    "splits that are no dict": Case(
        method("def build_data(self):\n    return ROWS"), DataError, ("list", "build_data"),
    ),
    "a batch that is no dict": Case(
        method("def build_data(self):\n    return {'train': [(1, 2)]}"),
        DataError, ("train", "tuple", "dict"),
    ),
    "a loader that raises at its first batch": Case(
        method("def build_data(self):\n    class Loader:\n        def __len__(self): return 3\n        def __iter__(self): raise OSError('no disk')\n    return {'train': Loader()}"),
        HookError, ("no disk", "train", "<cell 5>, line 5"),
    ),
    "build_data that raises": Case(
        method("def build_data(self):\n    return {'train': open('/no/such/file')}"),
        HookError, ("no/such/file", "build_data", "<cell 5>, line 3"),
    ),
    "no build_data": Case(without("build_data"), HookError, ("`build_data`", "Tiny", "def build_data")),
    "no build_model": Case(without("build_model"), HookError, ("`build_model`", "def build_model")),
    "no forward": Case(without("forward"), HookError, ("`forward`", "def forward")),
    "no loss": Case(without("loss"), HookError, ("`loss`", "Tiny", "def loss")),
    "a model that is none": Case(
        method("def build_model(self, rngs):\n    return lambda x: x"), ModelError, ("function", "build_model", "nnx.Module"),
    ),
    "a model without parameters": Case(
        method("def build_model(self, rngs):\n    return nnx.Dropout(0.5, rngs=rngs)"),
        ModelError, ("nnx.Param", "build_model"),
    ),
    "build_model that raises": Case(
        method("def build_model(self, rngs):\n    return nnx.Linear(3, rngs=rngs)"),
        HookError, ("TypeError", "build_model", "<cell 5>, line 3"),
    ),
    "batch fields that are not keywords": Case(
        method("def loss(self, logits, y):\n    return logits.mean()"),
        HookError, ("`loss` takes", "self, logits, y", "<cell 5>, line 2", "*, y"),
    ),
    "forward without a model": Case(
        method("def forward(self, *, x):\n    return x"), HookError, ("`forward` takes", "model"),
    ),
    "an optimizer without hp": Case(
        method("def optimizer(self):\n    return optax.sgd(1)"), HookError, ("`optimizer` takes", "hp"),
    ),
    "an optimizer that is none": Case(
        method("def optimizer(self, hp):\n    return 'sgd'"), HookError, ("`optimizer` returned", "optax"),
    ),
    "a hyperparameter that is none": Case(
        method("def optimizer(self, hp):\n    return optax.sgd(hp.learning_rat)"),
        HookError, ("hp.learning_rat", "learning_rate"),
    ),
    "a learning rate that is no number": Case(
        method("def learning_rate(self):\n    return 'fast'"), SettingError, ("learning_rate", "'fast'"),
    ),
    "a Host field without a value": Case(
        "class Tiny(Tiny):\n    path: str\n", FieldError, ("`path`", "Tiny(path=...)"),
    ),
}  # fmt: skip

AT_TRAINING = {
    "a Host field read in forward": Case(
        method("def forward(self, model, *, x):\n    return model(x) * len(self.note)"),
        HostFieldError, ("`self.note`", "Host", "forward", "<cell 5>, line 3", "GraphConst[str]", "Device[str]"),
    ),
    "a Host field read in a helper of loss": Case(
        "def scale(exp): return len(exp.note)\n"
        + method("def loss(self, logits, *, y):\n    return logits.mean() * scale(self)"),
        HostFieldError, ("`self.note`", "loss", "<cell 5>, line 1"),
    ),
    "a loss that is not a scalar": Case(
        method("def loss(self, logits, *, y):\n    return (logits - 1) ** 2"),
        HookError, ("`loss` returned", "(4, 2)", "<cell 5>, line 2", ".mean()"),
    ),
    "a loss that is None": Case(
        method("def loss(self, logits, *, y):\n    pass"), HookError, ("`loss` returned", "NoneType"),
    ),
    "a field that is assigned": Case(
        method("def forward(self, model, *, x):\n    self.last = model(x)\n    return self.last"),
        HookError, ("self.last", "forward", "<cell 5>, line 3", "return"),
    ),
    "an if on a tracer": Case(
        method("def loss(self, logits, *, y):\n    if logits.mean() > 0:\n        return logits.mean()\n    return logits.sum()"),
        HookError, ("if", "loss", "<cell 5>, line 3", "jnp.where"),
    ),
    "numpy on a tracer": Case(
        method("def loss(self, logits, *, y):\n    return np.asarray(logits).mean()"),
        HookError, ("numpy", "<cell 5>, line 3", "jax.numpy"),
    ),
    "float of a tracer": Case(
        method("def loss(self, logits, *, y):\n    return float(logits.mean())"),
        HookError, ("value of an array", "<cell 5>, line 3"),
    ),
    "a tracer that was kept": Case(
        "KEPT = []\n"
        + method("def forward(self, model, *, x):\n    KEPT.append(model(x))\n    return model(x)\n"
                 "def loss(self, logits, *, y):\n    return (logits + KEPT[-1]).mean()"),
        HookError, ("kept", "forward(), In [5]", "return"),
    ),
    "a dropout in a scan": Case(
        "class Net(nnx.Module):\n    def __init__(self, rngs):\n        self.one = nnx.Linear(3, 2, rngs=rngs)\n        self.drop = nnx.Dropout(0.5, rngs=rngs)\n"
        + method("def build_model(self, rngs):\n    return Net(rngs)\n"
                 "def forward(self, model, *, x):\n    def body(c, _):\n        return model.drop(c), None\n    return jax.lax.scan(body, model.one(x), None, length=2)[0]"),
        HookError, ("Dropout", "scan", "<cell 5>", "nnx.scan"),
    ),
    "outputs that are no arrays": Case(
        method("def forward(self, model, *, x):\n    return 'logits'"), HookError, ("forward", "array"),
    ),
    "outputs that have no gradient": Case(
        method("def forward(self, model, *, x):\n    return model(x).argmax(-1)"),
        HookError, ("forward", "floating point", "<cell 5>, line 2"),
    ),
    "a hook that raises": Case(
        method("def loss(self, logits, *, y):\n    return {}['weights']"),
        HookError, ("KeyError", "weights", "loss", "<cell 5>, line 3"),
    ),
    "a train metric that is an array": Case(
        method("def train_metrics(self, logits):\n    return {'top': logits}"),
        HookError, ("`top`", "(4, 2)", "train_metrics"),
    ),
    "a train metric that is a text": Case(
        method("def train_metrics(self, logits):\n    return {'top': 'high'}"),
        HookError, ("`top`", "str", "train_metrics"),
    ),
    "train metrics that are no dict": Case(
        method("def train_metrics(self, logits):\n    return logits.max()"),
        HookError, ("train_metrics", "dict"),
    ),
    "state that changes its shape": Case(
        "class Net(nnx.Module):\n    def __init__(self, rngs):\n        self.one = nnx.Linear(3, 2, rngs=rngs)\n        self.seen = nnx.Variable(jnp.zeros(2))\n"
        "    def __call__(self, x):\n        self.seen = nnx.Variable(jnp.zeros(3))\n        return self.one(x)\n"
        + method("def build_model(self, rngs):\n    return Net(rngs)"),
        HookError, ("state", "forward", "__init__"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def first_loss():
    return losses(tiny().train())


def assert_usable(first_loss):
    """The session goes on: the correct experiment trains as ever."""
    assert losses(tiny().train()) == first_loss


@pytest.mark.parametrize("name", AT_SETUP)
def test_setup_refuses(name, first_loss):
    case = AT_SETUP[name]
    book = tiny(case.cell)
    with count_compiles() as count, pytest.raises(nitro.NitroError) as error:
        book.handle()
    check_error(error.value, *case.words)
    assert type(error.value) is case.kind
    assert count.nothing, "before the first compile"
    assert_usable(first_loss)


@pytest.mark.parametrize("name", AT_TRAINING)
def test_training_refuses(name, first_loss):
    case = AT_TRAINING[name]
    book = tiny(case.cell)
    handle = book.handle(max_steps=2)
    with pytest.raises(nitro.NitroError) as error:
        handle.train(background=False)
    check_error(error.value, *case.words)
    assert type(error.value) is case.kind
    run = handle.run
    assert (run.phase, run.step, run.live) == ("failed", 0, False)
    assert run.exception is error.value
    assert run.params, "its state is kept"
    assert_usable(first_loss)


def test_a_background_run_that_fails_tells_it_with_the_users_frames_only(capsys):
    book = tiny(AT_TRAINING["a hook that raises"].cell)
    run = book.handle().train(background=True)
    with pytest.raises(HookError):
        run.wait()
    said = capsys.readouterr().err
    assert "KeyError" in said
    assert "<cell 5>, line 3, in loss" in said
    assert "site-packages" not in said
    assert "nitro_repl" not in said


def test_a_class_that_cannot_be_an_experiment_is_refused_at_once():
    for source, words in (
        ("class Tiny(Tiny):\n    seed: GraphConst[int] = 0\n", ("seed", "GraphConst")),
        ("class Tiny(Tiny):\n    forward: int = 0\n", ("`forward`", "reserved")),
        ("class Tiny(Tiny):\n    training: bool = True\n", ("`training`", "reserved")),
    ):
        with pytest.raises(ExperimentError) as error:
            tiny(source)
        check_error(error.value, *words)


def test_nitro_takes_an_experiment_or_its_class():
    book = tiny()
    settings = {"run_dir": None, "logger": None}
    assert nitro.Nitro(book["Tiny"], **settings).experiment.width == 4
    for wrong in (Exception, 3, None, "Tiny"):
        with pytest.raises(SettingError) as error:
            nitro.Nitro(wrong, **settings)
        check_error(error.value, "Experiment")


def test_a_handle_predicts_and_validates_before_any_training():
    book = tiny()
    handle = book.handle()
    with count_compiles() as count:
        before = handle.validate()["val_loss"]
    assert not set(count.compiled) & {"forward", "backward", "optimizer"}
    assert handle.run is None
    run = handle.train(background=True, paused=True)
    assert handle.validate()["val_loss"] == before
    run.advance(2)
    assert handle.validate()["val_loss"] != before
    run.stop()


def test_evaluate_names_the_splits_there_are():
    handle = tiny().handle()
    with pytest.raises(DataError) as error:
        handle.evaluate("tset")
    check_error(error.value, "tset", "train", "val")


def test_without_a_split_train_only_training_is_refused():
    book = tiny(method("def build_data(self):\n    return {'val': ROWS}"))
    handle = book.handle()
    assert handle.validate()["val_loss"] > 0
    with pytest.raises(DataError) as error:
        handle.train(background=False)
    check_error(error.value, "train", "build_data")


def test_a_handle_uses_one_state_of_its_live_run():
    book = tiny()
    with live(book) as run:
        x = book["ROWS"][0]["x"]
        expected = np.asarray(run.model()(x))
        assert np.allclose(run.handle.predict({"x": x}), expected, 1e-6)
        assert run.handle.settings["max_steps"] is None
        with pytest.raises(TypeError):
            run.handle.settings["max_steps"] = 3


def test_a_handle_is_a_fixed_point_and_says_that_it_is_stale(capsys):
    book = tiny()
    handle = book.handle()
    before = handle.validate()
    book.cell("@Tiny.hook\ndef loss(self, logits, *, y):\n    return logits.mean()\n")
    assert handle.validate() == before
    assert "loss has moved on" in capsys.readouterr().out
    assert book.handle().validate() != before


def test_experiments_are_not_changed_by_training():
    book = tiny()
    experiment = book["Tiny"](smoothing=0.25)
    handle = nitro.Nitro(experiment, run_dir=None, logger=None, max_steps=3)
    run = handle.train(background=True, paused=True)
    run.set(smoothing=0.75)
    run.resume()
    run.wait()
    assert experiment.smoothing == 0.25
    fresh = handle.train(background=False, fresh=True)
    assert {row.name: row.value for row in fresh.status().values}["smoothing"] == 0.25
    assert not same(run.params, fresh.params)
