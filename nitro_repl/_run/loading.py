"""Write weights into a carry: from a module, or from nested dicts of arrays.

Everything is checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from flax import nnx

from .._programs.model import Leaves, Structure, take_apart
from .._programs.step import Carry
from ..errors import ModelError


def leaves_of(weights: Any, structure: Structure, carry: Carry, device: Any) -> Carry:
    """The carry with the parameters (and state, from a module) of `weights`.

    Raises:
        ModelError: Paths, shapes or dtypes are not those of the model.
    """
    if isinstance(weights, nnx.Module):
        given, params, state = take_apart(nnx.clone(weights))
        _same(dict(zip(given.names, params, strict=True)), structure)
        if [(a.shape, a.dtype) for a in given.state_avals] == [
            (a.shape, a.dtype) for a in structure.state_avals
        ]:
            carry = carry._replace(state=_place(state, device))
        return carry._replace(params=_place(params, device))
    if not isinstance(weights, Mapping):
        raise ModelError(
            f"load() got {type(weights).__name__}",
            where="load",
            fix="give an nnx.Module, or nested dicts of arrays like run.params",
        )
    flat = dict(_flat(weights, ""))
    _same(flat, structure)
    ordered = [np.array(flat[name]) for name in structure.names]
    return carry._replace(params=_place(tuple(ordered), device))


def _same(flat: Mapping[str, Any], structure: Structure) -> None:
    expected = dict(zip(structure.names, structure.param_avals, strict=True))
    for name in sorted({*flat, *expected}):
        if name not in expected or name not in flat:
            side = (
                "the model has no such parameter"
                if name not in expected
                else "it is missing"
            )
            raise ModelError(
                f"the weights do not fit at `{name}`: {side}", where="load",
                fix="give the parameters of the same model, as run.params has them",
            )  # fmt: skip
        got, want = np.asarray(flat[name]), expected[name]
        if got.shape != want.shape or got.dtype != want.dtype:
            raise ModelError(
                f"`{name}` is {_aval(got)}, the model has {_aval(want)}",
                where="load",
                fix="give an array of the model's shape and dtype",
            )


def _aval(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}"


def _flat(node: Any, path: str) -> Any:
    if isinstance(node, Mapping):
        for name, child in node.items():
            yield from _flat(child, f"{path}.{name}" if path else str(name))
    else:
        yield path, node


def _place(leaves: Leaves, device: Any) -> Leaves:
    return tuple(jax.device_put(leaf, device, may_alias=False) for leaf in leaves)
