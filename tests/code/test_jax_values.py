# ruff: noqa: E501 (a source on one line reads as one value)
from __future__ import annotations

import pytest
from code_sources import run

import nitro_repl._programs.key  # noqa: F401 (it teaches the walk what JAX holds)
from nitro_repl._code import Recorder, explain, fingerprint

HEADER = "import functools, jax, jax.numpy as jnp, optax\nfrom flax import nnx\n"

VALUES = {
    "a custom rule": "@jax.custom_vjp\ndef h(x): return x\ndef fw(x): return x, None\ndef bw(_, g): return (2.0 * g,)\nh.defvjp(fw, bw)\ndef root(x): return h(x)",
    "a custom jvp rule": "@jax.custom_jvp\ndef h(x): return x\n@h.defjvp\ndef rule(p, t): return p[0], 2.0 * t[0]\ndef root(x): return h(x)",
    "an inner jit": "@jax.jit\ndef h(x): return 2.0 * x\ndef root(x): return h(x)",
    "an inner nnx jit": "@nnx.jit\ndef h(x): return 2.0 * x\ndef root(x): return h(x)",
    "a checkpoint": "@jax.checkpoint\ndef h(x): return 2.0 * x\ndef root(x): return h(x)",
    "a mapped function": "h = jax.vmap(lambda x: 2.0 * x)\ndef root(x): return h(x)",
    "a gradient": "h = jax.grad(lambda x: 2.0 * x)\ndef root(x): return h(x)",
    "a scan body": "def body(c, _): return c * 2.0, None\ndef root(x): return jax.lax.scan(body, x, None, length=2)",
    "a static argument": "h = jax.jit(lambda x, k: x, static_argnums=(1,))\nk = 2.0\ndef root(x): return h(x, k)",
    "an optimizer": "tx = optax.adam(2.0)\ndef root(x): return tx.init(x)",
    "a schedule": "tx = optax.cosine_decay_schedule(2.0, 10)\ndef root(x): return tx(x)",
    "a chain": "tx = optax.chain(optax.clip(2.0), optax.sgd(1.0))\ndef root(x): return tx.init(x)",
    "an array": "w = jnp.array([1.0, 2.0])\ndef root(x): return w * x",
    "a key": "k = jax.random.key(int(2.0))\ndef root(x): return k",
    "a module class": "class Net(nnx.Module):\n  def __init__(self, rngs): self.a = nnx.Linear(2, 2, rngs=rngs)\n  def __call__(self, x): return self.a(x) * 2.0\ndef root(x): return Net(rngs=nnx.Rngs(0))(x)",
    "a module": "class Net(nnx.Module):\n  def __init__(self, rngs):\n    self.a = nnx.Linear(2, 2, rngs=rngs)\n    self.k = 2.0\n  def __call__(self, x): return self.a(x)\nroot = Net(nnx.Rngs(0))",
    "a graphdef": "class Net(nnx.Module):\n  def __init__(self, rngs):\n    self.a = nnx.Linear(2, 2, rngs=rngs)\n    self.k = 2.0\n  def __call__(self, x): return self.a(x)\nroot = nnx.graphdef(Net(nnx.Rngs(0)))",
    "a sharding": "s = jax.sharding.PartitionSpec('a', 'b2.0')\ndef root(x): return s",
    "a struct": "s = jax.ShapeDtypeStruct((int(2.0),), jnp.float32)\ndef root(x): return s",
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_jax_holds_is_read_by_content(name):
    source = HEADER + VALUES[name]
    first = fingerprint(run(source)["root"])
    again = fingerprint(run("\n\n" + source, "<cell 4>")["root"])
    other = fingerprint(run(source.replace("2.0", "3.0"))["root"])
    assert first.digest == again.digest
    assert first.digest != other.digest
    assert first.unsound == ()
    assert explain(first, other)


def test_library_names_are_tokens():
    source = "def root(x): return jnp.sin(jnp.where(x > 0, jax.nn.gelu(x), x)).sum()"
    found = fingerprint(run(HEADER + source)["root"])
    assert [part.name for part in found.parts] == ["root()"]
    assert found.unsound == ()


def test_the_recorder_sees_a_derivative_rule():
    names = run(HEADER + VALUES["a custom rule"])
    import jax

    with Recorder() as seen:
        jax.grad(names["root"])(1.0)
    ran = {name.partition("(")[0] for name in seen.names.values()}
    assert {"root", "fw", "bw"} <= ran
    assert seen.codes <= fingerprint(names["root"]).codes
