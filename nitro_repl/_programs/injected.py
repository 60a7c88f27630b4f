"""Numbers that `optax.inject_hyperparams` keeps in an optimizer's state.

The hook says what they are, at each step: optax itself reads them once, when it makes
the state, and would keep them through an edit or a new rate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

_STATES = (optax.InjectStatefulHyperparamsState,)


def injects(state: Any) -> bool:
    """Whether such numbers are anywhere in a state."""
    return any(map(_is_injected, jax.tree.leaves(state, is_leaf=_is_injected)))


def as_given(state: Any, initial: Callable[[], Any]) -> Any:
    """A state with the numbers that its transformation was just built with.

    Args:
        state: Of the step before.
        initial: Makes the state of a first step; called if there are such numbers.
    """
    return _renewed(state, initial()) if injects(state) else state


def _is_injected(node: Any) -> bool:
    return isinstance(node, _STATES)


def _renewed(state: Any, initial: Any) -> Any:
    def renew(old: Any, new: Any) -> Any:
        if not _is_injected(old):
            return old
        return old._replace(
            hyperparams=jax.tree.map(_like, old.hyperparams, new.hyperparams),
            inner_state=_renewed(old.inner_state, new.inner_state),
        )

    return jax.tree.map(renew, state, initial, is_leaf=_is_injected)


def _like(old: Any, new: Any) -> Any:
    return jnp.asarray(new, old.dtype)
