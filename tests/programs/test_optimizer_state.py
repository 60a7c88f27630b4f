from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from nitro_repl._programs.optimizer_state import carry_over

PARAMS = {"a": {"kernel": jnp.ones((2, 3)), "bias": jnp.ones(3)}, "b": jnp.ones(4)}


def state(made, params=PARAMS, value=0.0):
    return jax.tree.map(lambda leaf: leaf + leaf.dtype.type(value), made.init(params))


def paths(slots):
    return [slot.path for slot in slots]


def test_slots_of_the_same_class_field_and_path_are_kept():
    old = state(optax.adam(1.0), value=5.0)
    new = state(optax.chain(optax.clip(1.0), optax.adam(1.0), optax.trace(0.5)))
    taken = carry_over(old, new)
    assert len(taken.kept) == 7
    assert "ScaleByAdamState.mu.a.kernel" in paths(taken.kept)
    assert [float(leaf.ravel()[0]) for leaf in jax.tree.leaves(taken.state)] == (
        [5.0] * 7 + [0.0] * 3
    )
    assert jax.tree.structure(taken.state) == jax.tree.structure(new)
    assert paths(taken.fresh) == [
        "TraceState.trace.a.bias", "TraceState.trace.a.kernel", "TraceState.trace.b"
    ]  # fmt: skip
    assert taken.dropped == ()
    assert str(taken) == (
        "7 arrays kept; fresh: TraceState.trace (3 arrays); dropped: nothing"
    )


def test_what_no_slot_of_the_new_state_takes_is_dropped():
    taken = carry_over(state(optax.adam(1.0)), state(optax.sgd(1.0)))
    assert taken.kept == taken.fresh == ()
    assert len(taken.dropped) == 7
    assert str(taken) == (
        "0 arrays kept; fresh: nothing; dropped: ScaleByAdamState.count, "
        "ScaleByAdamState.mu (3 arrays), ScaleByAdamState.nu (3 arrays)"
    )


def test_a_slot_of_another_shape_is_dropped_and_starts_fresh():
    other = {**PARAMS, "b": jnp.ones(9)}
    taken = carry_over(state(optax.trace(0.5)), state(optax.trace(0.5), other))
    assert paths(taken.dropped) == paths(taken.fresh) == ["TraceState.trace.b"]
    assert len(taken.kept) == 2


def test_states_by_group_are_told_by_group():
    split = {"a": "one", "b": "two"}
    old = optax.partition({"one": optax.adam(1.0), "two": optax.trace(0.5)}, split)
    said = str(carry_over(state(old), state(optax.sgd(1.0))))
    assert "one.MaskedState.inner_state.ScaleByAdamState.mu (2 arrays)" in said
    assert "two.MaskedState.inner_state.TraceState.trace" in said
