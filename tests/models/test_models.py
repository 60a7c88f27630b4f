"""Models as their authors write them, against plain flax: same numbers, same state."""

from __future__ import annotations

import textwrap

import jax
import numpy as np
import optax
import pytest
from cells import IMPORTS, Notebook
from flax import nnx

from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*Module.sow:DeprecationWarning"  # flax would have nnx.capture around it
)

BASE = """
_rng = np.random.default_rng(0)
ROWS = [
    {"x": _rng.normal(size=(6, 5, 4)).astype("float32"),
     "y": _rng.integers(0, 3, 6).astype("int32")}
    for _ in range(3)
]

class Task(nitro.Experiment):
    rate: Device[float] = 0.3
    scale: Device[float] = 1.0

    def build_data(self):
        return {"train": ROWS, "val": ROWS[:1]}

    def build_model(self, rngs):
        return Net(rngs)

    def forward(self, model, *, x):
        return model(x)

    def loss(self, logits, *, y):
        each = optax.softmax_cross_entropy_with_integer_labels(logits * self.scale, y)
        return each.astype("float32").mean()

    def optimizer(self, hp):
        return optax.sgd(hp.learning_rate)

    def learning_rate(self):
        return 0.2
"""
MODELS = {
    "recurrent": """
class Net(nnx.Module):  # RNN, BatchNorm, Dropout
    def __init__(self, rngs):
        self.rnn = nnx.RNN(nnx.SimpleCell(4, 4, rngs=rngs))
        self.norm = nnx.BatchNorm(4, momentum=0.7, rngs=rngs)
        self.drop = nnx.Dropout(0.4, rngs=rngs)
        self.head = nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x):
        return self.head(self.drop(nnx.relu(self.norm(self.rnn(x)[:, -1]))))
""",
    "tied_bfloat16": """
class Net(nnx.Module):  # shared layers, sown intermediates, mixed precision
    def __init__(self, rngs):
        half = {"dtype": jnp.bfloat16, "param_dtype": jnp.float32, "rngs": rngs}
        self.embed = nnx.Embed(3, 4, **half)
        self.mix = nnx.Linear(4, 4, **half)
        self.layers = nnx.List([self.mix, nnx.Linear(4, 4, **half), self.mix])

    def __call__(self, x):
        x = x.mean(1) + self.embed(jnp.arange(3)).mean(0)
        for layer in self.layers:
            x = jnp.tanh(layer(x))
            self.sow(nnx.Intermediate, "hidden", x)
        return self.embed.attend(x)
""",
    "linen": """
from flax import linen as nn

class Inner(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        x = nn.Dense(8)(x.mean(1))
        x = nn.BatchNorm(use_running_average=not train, momentum=0.7)(x)
        self.sow("intermediates", "normed", x)
        x = nn.Dropout(0.3, deterministic=not train)(nn.relu(x))
        return nn.Dense(3)(x)

class Net(nnx.Module):
    def __init__(self, rngs):
        self.inner = nnx.bridge.ToNNX(Inner(), rngs=rngs)
        self.inner.lazy_init(jnp.ones((1, 5, 4)))
        self.deterministic = False  # nnx's train() and eval() set it

    def __call__(self, x):
        written = False if self.deterministic else ["batch_stats", "intermediates"]
        return self.inner(x, train=not self.deterministic, mutable=written)
""",
}
FUSED = ("linen",)
STEPS = 5
CLOSE = {"rtol": 2e-4, "atol": 2e-5}


def plain_flax(book):
    """Losses and model after some steps of plain flax, without a line of ours."""
    experiment, rows = book["Task"](), book["ROWS"]
    model = experiment.build_model(nnx.Rngs(0))
    model.train()
    optimizer = nnx.Optimizer(model, optax.sgd(0.2), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, batch):
        def value(model):
            return experiment.loss(
                experiment.forward(model, x=batch["x"]), y=batch["y"]
            )

        loss, grads = nnx.value_and_grad(value)(model)
        optimizer.update(model, grads)
        nnx.pop(model, nnx.Intermediate)
        return loss

    losses = [float(step(model, optimizer, rows[i % 3])) for i in range(STEPS)]
    model.eval()
    return losses, model, experiment


def leaves(model, kind=...):
    nnx.pop(model, nnx.Intermediate)
    state = nnx.state(model, kind) if kind is not ... else nnx.state(model)
    found = {
        jax.tree_util.keystr(p): v
        for p, v in jax.tree_util.tree_leaves_with_path(nnx.to_pure_dict(state))
    }
    return {
        name: jax.random.key_data(leaf)
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        else leaf
        for name, leaf in found.items()
    }


@pytest.fixture(scope="module", params=MODELS)
def trained(request):
    book = Notebook(IMPORTS, BASE, MODELS[request.param])
    run = book.train("Task", max_steps=STEPS, fuse=request.param in FUSED)
    return request.param, book, run


def test_training_is_that_of_plain_flax(trained):
    name, book, run = trained
    losses, model, experiment = plain_flax(book)
    close = {"rtol": 3e-2, "atol": 1e-2} if name == "tied_bfloat16" else CLOSE
    np.testing.assert_allclose(run.history("train")["loss"], losses, **close)
    ours, theirs = leaves(run.model()), leaves(model)
    assert ours.keys() == theirs.keys()
    for path, leaf in theirs.items():
        assert ours[path].dtype == leaf.dtype, path
        np.testing.assert_allclose(ours[path], leaf, err_msg=path, **close)
    _check_dtypes_and_sharing(name, run)
    batch = book["ROWS"][0]
    outputs = np.asarray(model(batch["x"]), np.float32)
    found = run.handle.predict(batch)
    assert found.dtype == ("bfloat16" if name == "tied_bfloat16" else "float32")
    np.testing.assert_allclose(np.asarray(found, np.float32), outputs, **close)
    expected = experiment.loss(outputs, y=batch["y"])
    assert run.handle.validate()["val_loss"] == pytest.approx(float(expected), rel=2e-2)


def _check_dtypes_and_sharing(name, run):
    parameters = jax.tree.leaves(run.params)
    assert {leaf.dtype.name for leaf in parameters} == {"float32"}
    if name == "tied_bfloat16":
        model = run.model()
        assert model.layers[0] is model.layers[2] is model.mix
        assert sum(leaf.size for leaf in parameters) == 3 * 4 + 2 * (4 * 4 + 4)


def test_more_steps_compile_nothing_and_an_edit_of_the_loss_only_the_loss(trained):
    name, book, run = trained
    run.handle.validate()
    with count_compiles() as count:
        run.handle.train(background=False)
        run.handle.validate()
        book.train("Task", max_steps=1, fuse=name in FUSED)
    assert count.compiled == {}, count
    if name not in FUSED:
        source = BASE[BASE.index("def loss") : BASE.index("def optimizer")]
        book.cell(
            "@Task.hook\n"
            + textwrap.dedent("    " + source).replace("self.scale", "(1 + y.sum())")
        )
        assert run.stale == ("loss",)
        with count_compiles() as count:
            run.swap()
        assert set(count.compiled) <= {"loss"}, count  # the same for every model
