from __future__ import annotations

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import Notebook, check_error
from counting import count_compiles
from jax._src.interpreters import partial_eval

from nitro_repl import HookError
from nitro_repl._experiment.view import Reads
from nitro_repl._programs.trace import select, trace

FLOAT = jax.ShapeDtypeStruct((2,), jnp.float32)


def traced(function, **arguments):
    given = arguments or {"x": FLOAT}
    return trace("loss", lambda groups, reads: function(groups), given, Reads())


def test_inputs_have_a_slot_each_in_the_order_of_the_groups():
    made = traced(
        lambda groups: groups["b"][1] + groups["a"]["key"],
        b=(FLOAT, FLOAT), a={"key": FLOAT},
    )  # fmt: skip
    assert made.slots == (("a", "key"), ("b", 0), ("b", 1))
    assert (made.out.shape, made.out.dtype) == ((2,), jnp.float32)
    closed, kept = select(made.jaxpr, [0])
    assert [made.slots[i] for i in kept] == [("a", "key"), ("b", 1)]
    assert len(closed.jaxpr.invars) == 2


def test_weak_types_are_kept():
    weak = jax.ShapeDtypeStruct((), jnp.float32, weak_type=True)
    half = jax.ShapeDtypeStruct((), jnp.bfloat16)
    made = traced(
        lambda groups: (groups["x"] * 2, groups["x"] * groups["y"]), x=weak, y=half
    )
    assert [leaf.weak_type for leaf in made.out] == [True, False]
    assert made.out[1].dtype == jnp.bfloat16


WAYS = {
    "as an operand": lambda x, w: x * w,
    "as an array": lambda x, w: x * jnp.asarray(w),
    "under a jit": lambda x, w: jax.jit(lambda y: y * w)(x),
    "given to a jit": lambda x, w: jax.jit(jnp.multiply)(w, x),
    "in a branch": lambda x, w: jax.lax.cond(x[0] > 0, lambda: x * w, lambda: x),
    "scanned over": lambda x, w: jax.lax.scan(lambda c, e: (c, c[0] * e), x, w)[1],
    "under a checkpoint": lambda x, w: jax.checkpoint(lambda y: y * w)(x),
    "as a result": lambda x, w: (x, w)[1],
}


@pytest.mark.parametrize("way", WAYS)
def test_an_array_of_64_bits_is_traced_as_it_is_now_whoever_holds_an_older_trace(way):
    weights = np.ones(2)

    def function(groups):
        return WAYS[way](groups["x"], weights)

    def compute(jaxpr):
        return jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, x)[0]

    x = jnp.ones(2)
    user = jax.jit(lambda y: WAYS[way](y, weights)).trace(x)  # JAX keeps what it took
    before = traced(function).jaxpr
    np.testing.assert_array_equal(compute(before), [1, 1])
    weights[1] = 6
    np.testing.assert_array_equal(compute(traced(function).jaxpr), [1, 6])
    np.testing.assert_array_equal(compute(before), [1, 1])
    np.testing.assert_array_equal(compute(user.jaxpr), [1, 1])


def test_an_array_of_64_bits_is_one_constant_of_a_trace():
    weights = np.arange(2.0)
    made = traced(lambda groups: groups["x"] * weights + jnp.asarray(weights))
    assert len(made.jaxpr.consts) == 1


def test_every_trace_runs_the_code_under_an_inner_jit_anew():
    book = Notebook("""
import jax
GAIN = 2.0

@jax.jit
def helper(x):
    return x * GAIN

def function(groups):
    return helper(groups["x"])
""")
    before = str(traced(book["function"]).jaxpr)
    assert str(traced(book["function"]).jaxpr) == before
    book.cell("GAIN = 3.0")
    after = str(traced(book["function"]).jaxpr)
    assert "3.0" in after
    assert "3.0" not in before


def test_it_says_which_code_of_the_user_ran():
    book = Notebook("""
def helper(x):
    return x + 1

def unused(x):
    return x

def function(groups):
    return helper(groups["x"])
""")
    made = traced(book["function"])
    names = {name.partition("(")[0] for name in made.ran.values()}
    assert names >= {"helper", "function"}
    assert "unused" not in names


def test_a_listener_of_jax_is_no_code_of_the_trace():
    with count_compiles() as count:
        made = traced(lambda groups: groups["x"] * 2)
    assert count.traced["loss"] == 1, "it was told"
    assert all("on_duration" not in name for name in made.ran.values())


def test_garbage_is_not_collected_in_the_middle_of_a_trace():
    """The finalizer of an old loader is user code, and would run whenever it likes."""
    book = Notebook("""
class Loader:
    def __del__(self):
        FINALIZED.append(1)

FINALIZED = []

def function(groups):
    loader = Loader()
    loader.itself = loader
    del loader
    filler = [[] for _ in range(100_000)]  # the collector would have come by now
    return groups["x"]
""")
    assert gc.isenabled()
    made = traced(book["function"])
    names = {name.partition("(")[0] for name in made.ran.values()}
    assert "function" in names
    assert "__del__" not in names
    assert gc.isenabled()
    gc.collect()
    assert book["FINALIZED"], "a control: there was garbage"


def test_a_failing_trace_leaves_everything_as_it_was():
    with pytest.raises(HookError) as error:
        traced(lambda groups: groups["x"] @ groups["x"][:1])
    check_error(error.value, "program `loss`", "test_trace.py")
    assert gc.isenabled()
    assert traced(lambda groups: groups["x"]).slots == (("x",),)


def test_many_traces_leave_no_more_than_so_much_in_the_caches_of_jax():
    def function(groups, reads):
        return jax.nn.gelu(jnp.clip(groups["a"], 0, 1)) + jnp.linspace(0, 1, 3)

    cache = partial_eval.trace_to_jaxpr
    cache.cache_clear()  # what other tests left may be emptied in the middle of this
    trace("x", function, {"a": jnp.zeros(3)}, Reads())
    sizes = []
    for _ in range(150):
        trace("x", function, {"a": jnp.zeros(3)}, Reads())
        sizes.append(cache.cache_info().currsize)
    grown = sizes[2] - sizes[1]
    assert grown > 0, "each trace is of an epoch of its own"
    assert max(sizes) - sizes[0] < 1024 + 2 * grown < 150 * grown
