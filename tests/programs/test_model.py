"""Models of all kinds are taken apart and put together again."""

from __future__ import annotations

import numpy as np
import pytest
from cells import by_hand, check_error, losses, tiny
from counting import count_compiles
from flax import nnx

import nitro_repl as nitro
from nitro_repl._programs.model import take_apart

MODELS = {
    "more than ten layers": """
def make(rngs):
    inner = [nnx.Linear(3, 3, rngs=rngs) for _ in range(11)]
    return nnx.Sequential(*inner, nnx.Linear(3, 2, rngs=rngs))
""",
    "layers by name": """
class Net(nnx.Module):
    def __init__(self, rngs):
        first, last = nnx.Linear(3, 3, rngs=rngs), nnx.Linear(3, 2, rngs=rngs)
        self.parts = nnx.Dict(z=first, a=last)

    def __call__(self, x):
        return self.parts["a"](self.parts["z"](x))

make = Net
""",
    "a Linen module": """
import flax.linen as nn

class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(nn.relu(nn.Dense(4)(x)))

def make(rngs):
    return nnx.bridge.ToNNX(Net(), rngs=rngs).lazy_init(jnp.ones((1, 3)))
""",
    "parameters of another kind": "def make(rngs): return nnx.LoRA(3, 2, 2, rngs=rngs)",
    "a scalar parameter": """
class Net(nnx.Module):
    def __init__(self, rngs):
        self.one = nnx.Linear(3, 2, rngs=rngs)
        self.scale = nnx.Param(jnp.float32(2.0))

    def __call__(self, x):
        return self.one(x) * self.scale

make = Net
""",
}
USES = """
class Tiny(Tiny):
    def build_model(self, rngs):
        return make(rngs)
"""


@pytest.mark.parametrize("name", MODELS)
def test_training(name):
    book = tiny(MODELS[name], USES)
    run = book.train()
    assert losses(run) == pytest.approx(by_hand(book), rel=1e-5)
    x = book["ROWS"][0]["x"]
    np.testing.assert_allclose(
        run.handle.predict({"x": x}), np.asarray(run.model()(x)), 1e-5, 1e-6
    )
    run.handle.train(background=True, paused=True)
    run.load(run.params)
    run.load(run.model())
    run.stop()


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model_built_again_is_known_and_not_stale(name):
    book = tiny(MODELS[name], USES)
    run = book.train()
    assert run.stale == ()
    with count_compiles() as count:
        again = book.train()
    assert count.nothing
    assert again.stale == ()
    assert all(not program.unsound for program in again._loop.programs.programs)


def test_an_edit_of_a_linen_module_compiles_and_is_stale():
    source = MODELS["a Linen module"]
    book = tiny(source, USES)
    run = book.train()
    book.cell(source.replace("nn.relu", "nn.tanh"))
    assert {"forward", "backward"} <= set(run.stale)
    with count_compiles() as count:
        book.train()
    assert count["forward"] == 1


@pytest.mark.filterwarnings("ignore:Using 'Module.sow:DeprecationWarning")
def test_what_a_module_sows_does_not_grow_the_state():
    book = tiny(
        """
class Net(nnx.Module):
    def __init__(self, rngs):
        self.one = nnx.Linear(3, 2, rngs=rngs)

    def __call__(self, x):
        self.sow(nnx.Intermediate, "seen", x)
        return self.one(x)

make = Net
""",
        USES,
    )
    with count_compiles() as count:
        run = book.train(max_steps=4)
    assert max(count.compiled.values()) == 1
    run.handle.validate()
    assert not nnx.state(run.model(), nnx.Intermediate)


def test_a_parameter_without_a_gradient_is_refused():
    class Net(nnx.Module):
        def __init__(self):
            self.one = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
            self.steps = nnx.Param(np.arange(3))

    with pytest.raises(nitro.ModelError) as error:
        take_apart(Net())
    check_error(error.value, "`steps`", "int", "nnx.Variable")


def test_names_are_paths_in_the_order_of_the_leaves():
    structure, params, _ = take_apart(
        nnx.Sequential(*[nnx.Linear(n, n + 1, rngs=nnx.Rngs(0)) for n in range(1, 12)])
    )
    assert structure.names[:3] == ("layers.0.bias", "layers.0.kernel", "layers.1.bias")
    assert structure.names[-1] == "layers.10.kernel"
    assert params[-1].shape == (11, 12)
    nested = structure.nested(params)
    assert nested["layers"][10]["kernel"] is params[-1]


def test_train_and_eval_mode_are_two_structures_of_one_model():
    class Net(nnx.Module):
        def __init__(self):
            self.norm = nnx.BatchNorm(2, rngs=nnx.Rngs(0))
            self.drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    structure, params, state = take_apart(Net())
    for training in (True, False):
        made = structure.merge(params, state, training=training)
        assert made.drop.deterministic is not training
        assert made.norm.use_running_average is not training
    assert structure.same_leaves(take_apart(Net())[0])
