"""The clock of a run inside programs, and what a hook is called with.

Randomness is a function of (seed, hook, step, micro-batch); in evaluation of (seed,
hook, split, batch index).
"""

from __future__ import annotations

import functools
import zlib
from typing import Any

import jax
import jax.numpy as jnp

from .._experiment.routing import KEY, Route


def hook_id(hook: str) -> int:
    """A number per hook name, the same in every process."""
    return zlib.crc32(hook.encode())


def train_clock() -> dict[str, Any]:
    return {
        "key": _key_aval(),
        "step": jax.ShapeDtypeStruct((), jnp.uint32),
        "micro": jax.ShapeDtypeStruct((), jnp.uint32),
        "bad": jax.ShapeDtypeStruct((), jnp.bool_),
        "sticky": jax.ShapeDtypeStruct((), jnp.bool_),
    }


def eval_clock() -> dict[str, Any]:
    return {
        "key": _key_aval(),
        "split": jax.ShapeDtypeStruct((), jnp.uint32),
        "index": jax.ShapeDtypeStruct((), jnp.uint32),
    }


def _key_aval() -> Any:
    return _key_aval_of(getattr(jax.config, "jax_default_prng_impl"))  # noqa: B009


@functools.lru_cache
def _key_aval_of(impl: str) -> Any:
    return jax.eval_shape(lambda: jax.random.key(0, impl=impl))


def hook_arguments(wanted: Route, groups: Any) -> dict[str, Any]:
    """The batch fields of a hook, and its key if it asks for one."""
    given = wanted.pick(groups["batch"])
    if wanted.wants_key:
        clock = groups["clock"]
        key = jax.random.fold_in(clock["key"], hook_id(wanted.hook))
        for part in ("step", "micro") if "step" in clock else ("split", "index"):
            key = jax.random.fold_in(key, clock[part])
        given[KEY] = key
    return given
