from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from cells import QUIET
from flax import nnx

import nitro_repl as nitro
from nitro_repl import Device, Mean
from nitro_repl._programs.clock import hook_id

rng = np.random.default_rng(0)
STEPS = 3


def rows(**shapes):
    """Batches of normal numbers; an int range gives integers below it."""

    def one(shape):
        if isinstance(shape[-1], str):
            *shape, below = shape
            return rng.integers(0, int(below), tuple(shape)).astype(np.int32)
        return rng.normal(size=shape).astype(np.float32)

    return [{name: one(s) for name, s in shapes.items()} for _ in range(STEPS)]


def become_the_gradient():
    """An optimizer after whose step the parameters are the gradients."""

    def update(grads, state, params, **_):
        wide = jax.tree.map(lambda g, p: (g.astype(p.dtype), p), grads, params)
        return (
            jax.tree.map(
                lambda pair: pair[0].astype(jnp.float32) - pair[1].astype(jnp.float32),
                wide,
                is_leaf=lambda node: isinstance(node, tuple),
            ),
            state,
        )

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def numbers(key, shape, dtype=jnp.float32, *_, **__):
    """An initializer that compiles nothing."""
    made = np.random.default_rng(sum(shape)).normal(size=shape) / np.sqrt(shape[0])
    return jnp.asarray(made.astype(np.float32), dtype)


def linear(fan_in, fan_out, rngs, **kind):
    return nnx.Linear(fan_in, fan_out, kernel_init=numbers, rngs=rngs, **kind)


class Plain(nitro.Experiment):
    """Dense layers and a smoothed cross entropy; the others differ from it."""

    smoothing: Device[float] = 0.1
    data = rows(x=(4, 3), y=(4, "2"))

    def build_data(self):
        return {"train": self.data}

    def build_model(self, rngs):
        return nnx.Sequential(linear(3, 4, rngs), nnx.relu, linear(4, 2, rngs))

    def forward(self, model, *, x):
        return model(x)

    def loss(self, logits, *, y):
        targets = optax.smooth_labels(jax.nn.one_hot(y, 2), self.smoothing)
        return optax.softmax_cross_entropy(logits, targets).mean()

    def optimizer(self, hp):
        return become_the_gradient()


class Conv(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(1, 3, (3, 3), kernel_init=numbers, rngs=rngs)
        self.norm = nnx.BatchNorm(3, rngs=rngs)
        self.drop = nnx.Dropout(0.4, rngs=rngs)
        self.out = linear(3, 2, rngs)

    def __call__(self, x):
        x = nnx.relu(self.norm(self.conv(x)))
        return self.out(self.drop(x.mean((1, 2))))


class WithConv(Plain):
    data = rows(x=(4, 5, 5, 1), y=(4, "2"))

    def build_model(self, rngs):
        return Conv(rngs)


class Block(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(7, 8, embedding_init=numbers, rngs=rngs)
        self.norm = nnx.LayerNorm(8, rngs=rngs)
        self.attend = nnx.MultiHeadAttention(
            2, 8, decode=False, kernel_init=numbers, rngs=rngs
        )
        self.out = linear(8, 7, rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        mask = nnx.make_causal_mask(tokens)
        return self.out(x + self.attend(self.norm(x), mask=mask))


class WithAttention(Plain):
    data = rows(x=(2, 5, "7"), y=(2, 5, "7"))

    def build_model(self, rngs):
        return Block(rngs)

    def loss(self, logits, *, y):
        targets = optax.smooth_labels(jax.nn.one_hot(y, 7), self.smoothing)
        return optax.softmax_cross_entropy(logits, targets).mean()


class InBfloat16(Plain):
    gain: Device[float] = 1.5

    def build_model(self, rngs):
        kind = {"dtype": jnp.bfloat16, "param_dtype": jnp.bfloat16}
        return nnx.Sequential(linear(3, 4, rngs, **kind), linear(4, 2, rngs, **kind))

    def forward(self, model, *, x):
        out = model(x.astype(jnp.bfloat16)) * self.gain
        assert out.dtype == jnp.bfloat16
        return out


class WithDict(Plain):
    """Outputs hold an integer leaf, which has no gradient."""

    def forward(self, model, *, x):
        logits = model(x)
        return {"logits": logits, "best": logits.argmax(-1), "scale": logits**2}

    def loss(self, outputs, *, y):
        wrong = (outputs["best"] != y).astype(jnp.float32)
        value = optax.softmax_cross_entropy_with_integer_labels(outputs["logits"], y)
        return (value * (1 + wrong)).mean() + self.smoothing * outputs["scale"].sum()


@jax.custom_vjp
def clipped(x):
    return x * 2


def clipped_forward(x):
    return x * 2, jnp.sign(x)


def clipped_backward(sign, cotangent):
    return (cotangent * sign * 0.3,)


clipped.defvjp(clipped_forward, clipped_backward)


class WithCustomRule(Plain):
    """A derivative rule of the user's in forward and loss, and a parent's hook."""

    def forward(self, model, *, x):
        return clipped(model(clipped(x)))

    def loss(self, logits, *, y):
        return super().loss(clipped(logits), y=y)


class Tied(nnx.Module):
    def __init__(self, rngs):
        self.first = linear(3, 3, rngs)
        self.again = self.first
        self.out = linear(3, 2, rngs)

    def __call__(self, x):
        return self.out(self.again(nnx.relu(self.first(x))))


class WithSharedLayers(Plain):
    """One layer used twice, and a weighted mean as loss."""

    def build_model(self, rngs):
        return Tied(rngs)

    def loss(self, logits, *, y):
        keep = (y > 0) + 0.5
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return Mean((losses * keep).sum(), keep.sum())


class WithScan(Plain):
    """A loop and a checkpoint between the parameters and the outputs."""

    def forward(self, model, *, x):
        def body(carry, _):
            return jnp.tanh(carry * 0.9), carry.sum()

        last, sums = jax.lax.scan(body, model(x), None, length=3)
        return jax.checkpoint(jnp.sin)(last) + sums.mean()


class WithKey(Plain):
    def forward(self, model, *, x, key):
        return model(x + jax.random.normal(key, x.shape))

    def loss(self, logits, *, y, key):
        return super().loss(logits + jax.random.uniform(key, logits.shape), y=y)


EXPERIMENTS = (
    Plain, WithConv, WithAttention, InBfloat16, WithDict, WithCustomRule,
    WithSharedLayers, WithScan,
)  # fmt: skip


def whole(experiment, batch, keys=None):
    """Loss and gradients by one `jax.value_and_grad` over everything."""
    model = experiment.build_model(nnx.Rngs(0))
    model.train()
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    keys = keys or {}

    def value(params):
        merged = nnx.merge(graph, params, rest, copy=True)
        given = {"key": keys["forward"]} if keys else {}
        outputs = experiment.forward(merged, x=batch["x"], **given)
        given = {"key": keys["loss"]} if keys else {}
        result = experiment.loss(outputs, y=batch["y"], **given)
        if isinstance(result, Mean):
            result = result.total / result.count
        return result.astype(jnp.float32)

    loss, grads = jax.jit(jax.value_and_grad(value))(params)
    return float(loss), nnx.to_pure_dict(grads)


def split(experiment, **settings):
    """Loss and gradients of the first step of a run."""
    handle = nitro.Nitro(experiment, **{**QUIET, "max_steps": 1, **settings})
    run = handle.train(background=False)
    return run.history("train")["loss"][0], run.params


def not_params(model):
    """Arrays by path of all state that is no parameter."""
    state = nnx.to_flat_state(nnx.state(model, nnx.Not(nnx.Param)))

    def array(value):
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        return np.asarray(value)

    return {"/".join(map(str, path)): array(var[...]) for path, var in state}


def assert_close(got, expected, tolerance=2e-6):
    flat = jax.tree_util.tree_flatten_with_path
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for (path, one), (_, two) in zip(flat(got)[0], flat(expected)[0], strict=True):
        assert one.dtype == two.dtype, path
        mine, theirs = (np.asarray(leaf, np.float32) for leaf in (one, two))
        assert np.abs(theirs).max() > 0, f"{path}: a zero gradient shows nothing"
        np.testing.assert_allclose(mine, theirs, tolerance * 10, tolerance)


@pytest.mark.parametrize("kind", EXPERIMENTS)
def test_the_split_step_has_the_gradients_of_the_whole(kind):
    loss, grads = split(kind())
    expected_loss, expected = whole(kind(), kind.data[0])
    assert loss == pytest.approx(expected_loss, rel=1e-6)
    wide = kind is InBfloat16
    assert_close(grads, expected, tolerance=4e-3 if wide else 2e-6)


def test_a_wrong_gradient_would_be_seen():
    _, grads = split(Plain())
    _, expected = whole(Plain(smoothing=0.2), Plain.data[0])
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_close(grads, expected)


def test_a_key_is_the_same_in_forward_and_backward_and_differs_by_hook():
    def key_of(hook):  # of step 0, micro-batch 0
        key = jax.random.fold_in(jax.random.key(3), hook_id(hook))
        return jax.random.fold_in(jax.random.fold_in(key, 0), 0)

    by_hook = {hook: key_of(hook) for hook in ("forward", "loss")}
    loss, grads = split(WithKey(), seed=3)
    expected_loss, expected = whole(WithKey(), WithKey.data[0], by_hook)
    assert loss == pytest.approx(expected_loss, rel=1e-6)
    assert_close(grads, expected)


def test_a_key_is_new_each_step_and_repeats_with_the_seed():
    class Still(WithKey):
        def build_data(self):
            return {"train": [self.data[0]]}

        def optimizer(self, hp):
            return optax.sgd(0.0)

    def losses(seed):
        handle = nitro.Nitro(Still(), **QUIET, seed=seed, max_steps=4)
        return handle.train(background=False).history()["loss"].tolist()

    first = losses(1)
    assert len(set(first)) == 4
    assert losses(1) == first
    assert not set(losses(2)) & set(first)


def test_statistics_and_random_counts_are_those_of_a_hand_written_loop():
    class Trained(WithConv):
        def optimizer(self, hp):
            return optax.sgd(hp.learning_rate, momentum=0.9)

    model = Conv(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(1e-3, momentum=0.9), wrt=nnx.Param)
    experiment = Trained()

    @nnx.jit
    def step(model, optimizer, x, y):
        def value(model):
            return experiment.loss(experiment.forward(model, x=x), y=y)

        loss, grads = nnx.value_and_grad(value)(model)
        optimizer.update(model, grads)
        return loss

    model.train()
    expected = [float(step(model, optimizer, **batch)) for batch in Trained.data]
    handle = nitro.Nitro(experiment, **QUIET, max_steps=STEPS)
    run = handle.train(background=False)
    np.testing.assert_allclose(run.history()["loss"], expected, 1e-6)
    mine, theirs, fresh = map(not_params, (run.model(), model, Conv(nnx.Rngs(0))))
    assert mine.keys() == theirs.keys()
    for path, value in mine.items():
        np.testing.assert_allclose(value, theirs[path], 1e-5, 1e-7, err_msg=path)
    moved = {path for path in mine if not np.array_equal(theirs[path], fresh[path])}
    assert moved == {"norm/mean", "norm/var", "drop/rngs/count"}


def test_ten_steps_of_adam_equal_a_hand_written_loop():
    class Trained(Plain):
        def optimizer(self, hp):
            return optax.adam(hp.learning_rate)

        def learning_rate(self):
            return 0.05

    experiment = Trained()
    transform = optax.adam(0.05)
    model = experiment.build_model(nnx.Rngs(0))
    graph, params = nnx.split(model, nnx.Param)

    @jax.jit
    def step(params, state, batch):
        def value(params):
            outputs = experiment.forward(nnx.merge(graph, params), x=batch["x"])
            return experiment.loss(outputs, y=batch["y"])

        loss, grads = jax.value_and_grad(value)(params)
        updates, state = transform.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    state = transform.init(params)
    expected = []
    for batch in itertools.islice(itertools.cycle(Trained.data), 10):
        params, state, loss = step(params, state, batch)
        expected.append(float(loss))
    handle = nitro.Nitro(experiment, **QUIET, max_steps=10)
    found = handle.train(background=False).history()["loss"]
    np.testing.assert_allclose(found, expected, 1e-6)
    assert expected[-1] < expected[0] - 0.03


def test_a_bfloat16_model_stays_bfloat16_beside_a_device_scalar():
    handle = nitro.Nitro(InBfloat16(), **QUIET, max_steps=2)
    run = handle.train(background=True, paused=True)
    run.set(gain=np.float64(0.5), smoothing=np.float32(0.2))
    run.resume()
    run.wait()
    assert {leaf.dtype.name for leaf in jax.tree.leaves(run.params)} == {"bfloat16"}
    assert handle.predict(Plain.data[0]).dtype.name == "bfloat16"
