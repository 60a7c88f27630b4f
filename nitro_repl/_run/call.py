"""Runs a `@nitro.program` method on the numbers of one boundary.

Arguments are copied to the device, results to the host: no live buffer goes out.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._code.fingerprint import fingerprint
from .._experiment.fields import Residency
from .._experiment.hooks import Hooks
from .._experiment.routing import KEY, Route
from .._programs.key import struct
from .._programs.method import Constant, Given, returned
from .._programs.program_set import ProgramSet
from ..errors import HookError, suggest
from .evaluation import State


def call(
    state: State, programs: ProgramSet, name: str, inputs: Mapping[str, Any]
) -> Any:
    """What the method returns, arrays as numpy arrays.

    Raises:
        HookError: There is no such method, or an argument is missing, unknown or
            cannot be an input.
    """
    plan = programs.blueprint
    methods = plan.hooks.programs()
    if not isinstance(name, str) or name not in methods:
        raise HookError(
            f"there is no program method `{name}`",
            where=f"call, {type(plan.experiment).__name__}",
            fix=f"{suggest(str(name), methods)}\nmark one with @nitro.program, then "
            "run.swap()",
        )
    wanted = plan.route(name)
    _check_names(wanted, inputs)
    own = dict(inputs)
    key = own.pop(KEY, None)
    used = state.key if key is None else _key(key, state, name)
    given, arrays = _taken(name, plan.hooks, own)
    step = programs.call(given)
    leaves = step((
        used, np.bool_(key is not None), np.uint32(state.step), *state.fields,
        *jax.device_put(arrays, state.device), *state.params, *state.state,
    ))  # fmt: skip
    return returned(step.out, [_to_host(leaf) for leaf in leaves])


def _check_names(wanted: Route, inputs: Mapping[str, Any]) -> None:
    known = {*wanted.required, *wanted.optional, *((KEY,) if wanted.wants_key else ())}
    where = f"{wanted.hook}, {wanted.place}"
    lacking = [f"`{name}`" for name in wanted.required if name not in inputs]
    if lacking:
        names = ", ".join(lacking)
        raise HookError(
            f"`{wanted.hook}` needs {names}",
            where=where,
            fix=f'call("{wanted.hook}", {lacking[0][1:-1]}=...), or give it a default',
        )
    for name in inputs:
        if name not in known and not (wanted.takes_all and name != KEY):
            raise HookError(
                f"`{wanted.hook}` has no parameter `{name}`",
                where=where,
                fix=suggest(name, known),
            )


def _taken(
    name: str, hooks: Hooks, inputs: Mapping[str, Any]
) -> tuple[Given, list[Any]]:
    """Arguments taken apart: arrays to hand over, and all else."""
    fixed = _fixed_parameters(hooks[name])
    constants = {n: value for n, value in inputs.items() if n in fixed}
    others = {
        n: jax.tree.map(_readable, value, is_leaf=_is_list)
        for n, value in sorted(inputs.items())
        if n not in fixed
    }
    leaves, tree = jax.tree.flatten(others)
    arrays = [_array(name, leaf) for leaf in leaves]
    content = tuple((n, _content(name, n, v)) for n, v in sorted(constants.items()))
    avals = tuple(struct(array) for array in arrays)
    return Given(name, tree, avals, constants, content), arrays


def _fixed_parameters(function: Any) -> frozenset[str]:
    """Parameters that are annotated `GraphConst[...]`."""
    return frozenset(
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if Residency.GRAPH_CONST in getattr(parameter.annotation, "__metadata__", ())
        or (
            isinstance(parameter.annotation, str)
            and "GraphConst[" in parameter.annotation
        )
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _readable(value: Any) -> Any:
    """A list of numbers as an array, a text as a constant, all else as it is."""
    if isinstance(value, str | bytes):
        return Constant(value)
    if not isinstance(value, list):
        return value
    try:
        made = np.asarray(value)
    except ValueError:  # rows of different lengths
        made = np.asarray(None)
    if made.dtype.kind in "biufc":
        return made
    return [jax.tree.map(_readable, item, is_leaf=_is_list) for item in value]


def _array(name: str, leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return leaf
    if isinstance(leaf, bool | int | float | complex):
        return jax.device_put(leaf)  # weakly typed, as the Python number it is
    if isinstance(leaf, np.ndarray | np.generic) and (
        leaf.dtype == bool or jnp.issubdtype(leaf.dtype, np.number)
    ):
        return np.array(leaf, jax.dtypes.canonicalize_dtype(leaf.dtype))
    raise HookError(
        f"`{name}` got {type(leaf).__name__}, which is neither a number, an array nor "
        "a text",
        where=f"call {name}",
        fix="give arrays; annotate the parameter nitro.GraphConst[...] to bake it in",
    )


def _content(name: str, parameter: str, value: Any) -> Any:
    found = fingerprint(value, name=parameter)
    if found.unsound:
        raise HookError(
            f"`{parameter}` is a GraphConst; a {type(value).__name__} cannot be "
            f"compared by content: {found.unsound[0]}",
            where=f"call {name}",
            fix="give numbers, texts, enums, lists, dicts or arrays",
        )
    return found.digest


def _key(key: Any, state: State, name: str) -> Any:
    if isinstance(key, int) and not isinstance(key, bool):
        key = jax.random.key(key)
    if getattr(key, "dtype", None) != state.key.dtype or np.shape(key) != ():
        raise HookError(
            f"`key` is {type(key).__name__}, not a random key",
            where=f"call {name}",
            fix=f'call("{name}", key=jax.random.key(0)), or leave it out',
        )
    return jax.device_put(key, state.device, may_alias=False)


def _to_host(leaf: Any) -> Any:
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    return np.array(leaf)
