from __future__ import annotations

import pytest

import nitro_repl
from tests.code.test_files import cell, folder as folder, namespace

FUNCTION = "def f(x, n=1): return {0} * n * x\n"
EXPERIMENT = """
import nitro_repl as nitro
def act(x): return {0} * x
class Sub(nitro.Experiment):
    width: nitro.GraphConst[int] = 1
    scale: nitro.Device[float] = 1.0
    def loss(self, out, *, y): return {0}
"""

WRAPPERS = {
    "jit": ("h = jax.jit(m1.f)", "h(2.0)"),
    "jit of a partial": ("h = jax.jit(functools.partial(m1.f, n=1))", "h(2.0)"),
    "static name": ("h = jax.jit(m1.f, static_argnames='n')", "h(2.0, n=1)"),
    "static number": ("h = jax.jit(m1.f, static_argnums=1)", "h(2.0, 1)"),
    "donated": ("h = jax.jit(m1.f, donate_argnums=0)", "h(jnp.float32(2))"),
    "grad": ("h = jax.grad(m1.f)", "2 * h(1.0)"),
    "jit of grad": ("h = jax.jit(jax.grad(m1.f))", "2 * h(1.0)"),
    "grad of jit": ("h = jax.grad(jax.jit(m1.f))", "2 * h(1.0)"),
    "vmap": ("h = jax.vmap(m1.f)", "h(jnp.array([2.0]))[0]"),
    "checkpoint": ("h = jax.checkpoint(m1.f)", "h(2.0)"),
    "jit in a registry": ("R = {'h': jax.jit(m1.f)}", "R['h'](2.0)"),
    "jit of a closure": (
        "def make(g): return lambda x: g(x)\nh = jax.jit(make(m1.f))",
        "h(2.0)",
    ),
    "optax schedule": (
        "tx = optax.scale_by_schedule(lambda step: m1.f(2.0))\n"
        "ty = optax.chain(optax.scale_by_schedule(functools.partial(m1.f, n=2)))",
        "step(tx, 0)",
    ),
    "optax chain": (
        "tx = optax.chain(optax.scale_by_schedule(functools.partial(m1.f, n=2)))",
        "step(tx, 1)",
    ),
}

BOOK = """
import functools, jax, jax.numpy as jnp, optax, m1
__name__ = "__main__"
def step(tx, count):
    state = tx.init(jnp.float32(0))
    for _ in range(count): _, state = tx.update(jnp.float32(1), state)
    return tx.update(jnp.float32(1), state)[0]
"""


@pytest.fixture
def notebook(folder):
    """Runs cells in a notebook that has imported m1, and edits of m1."""

    def make(source):
        folder.make("m1", source.format(3))
        names = namespace(folder, BOOK)

        def edit(k):
            changes = folder.edit("m1", source.format(k))
            return [held for change in changes for held in change.held]

        return names, lambda source: cell(names, source), edit

    return make


@pytest.mark.parametrize("kind", WRAPPERS)
def test_what_jax_wraps_is_the_newest_code(notebook, kind):
    names, run, edit = notebook(FUNCTION)
    source, used = WRAPPERS[kind]
    run(source)
    assert eval(used, names) == 6
    for k in (5, 7):  # called before, so that JAX has kept the trace of the old one
        assert edit(k) == []
        assert eval(used, names) == 2 * k


def test_options_of_a_jit_stay(notebook):
    names, run, edit = notebook(FUNCTION)
    run("h = jax.jit(m1.f, static_argnames='n', keep_unused=True, donate_argnums=0)")
    before = vars(names["h"]), names["h"].__getstate__()["static_argnames"]
    edit(5)
    text = names["h"].lower(2.0, n=1).as_text()
    assert "tf.aliasing_output" in text or "jax.buffer_donor" in text
    assert names["h"].__getstate__()["static_argnames"] == before[1]


LEFT = {
    "shardings": "h = jax.jit(m1.f, out_shardings=jax.sharding."
    "SingleDeviceSharding(jax.devices()[0]))",
    "compiler options": "h = jax.jit(m1.f, compiler_options="
    "{'xla_embed_ir_in_executable': True})",
    "custom derivative": "h = jax.custom_jvp(m1.f)",
}


@pytest.mark.parametrize("kind", LEFT)
def test_a_wrapper_that_cannot_be_made_again_is_said(notebook, kind):
    _, run, edit = notebook(FUNCTION)
    run(LEFT[kind])
    assert [(h.name, h.what, h.cell) for h in edit(5)] == [("h", "m1.f", 2)]
    assert edit(7) == []


def test_an_experiment_is_one_of_the_newest_class_with_its_values(notebook):
    names, run, edit = notebook(EXPERIMENT)
    run("e = m1.Sub(width=4)\nL = [e]")
    held = names["e"]
    assert edit(5) == []
    now = names["e"]
    assert type(now) is names["m1"].Sub is not type(held)
    assert (now.width, now.scale, now.loss(None, y=0)) == (4, 1.0, 5)
    assert type(names["L"][0]) is type(now)
    assert held.loss(None, y=0) == 3  # a run that holds it keeps what it began with


def test_an_experiment_whose_field_is_a_function_takes_the_newest(notebook):
    names, run, edit = notebook(EXPERIMENT)
    run(
        "import nitro_repl as nitro, typing\n"
        "class Mine(nitro.Experiment):\n"
        "    act: nitro.GraphConst[typing.Any] = None\n"
        "    def loss(self, out, *, y): return 1\n"
        "e = Mine(act=m1.act)"
    )
    assert edit(5) == []
    assert names["e"].act(2) == 10
    assert type(names["e"]) is names["Mine"]


def test_a_notebook_class_on_an_edited_base_is_said(notebook):
    _, run, edit = notebook(EXPERIMENT)
    run("class Mine(m1.Sub):\n    def loss(self, out, *, y): return 1")
    assert [(h.name, h.what, h.cell) for h in edit(5)] == [("Mine", "m1.Sub", 2)]


def test_handles_and_runs_are_no_holders(notebook):
    names, _, edit = notebook(EXPERIMENT)

    names["handle"] = object.__new__(nitro_repl.Run)
    names["handle"].kept = names["m1"].act
    assert edit(5) == []
    assert names["handle"].kept(2) == 6
