"""Write weights into a carry: from a module, or from nested dicts of arrays.

Everything is checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from flax import nnx

from .._experiment.device import default_device
from .._programs.model import Leaves, Structure, take_apart
from .._programs.step import Carry
from ..errors import ModelError
from .setup import Built


def leaves_of(
    weights: Any, structure: Structure, carry: Carry, device: Any, where: str = "load"
) -> Carry:
    """The carry with the parameters (and state, from a module) of `weights`.

    Args:
        weights: A module, or nested dicts of arrays.
        structure: Of the model that takes them.
        carry: Gives what `weights` does not have.
        device: Where the leaves go.
        where: For messages: what asked.

    Raises:
        ModelError: Paths, shapes or dtypes are not those of the model.
    """
    if isinstance(weights, nnx.Module):
        given, params, state = take_apart(nnx.clone(weights))
        _same(dict(zip(given.names, params, strict=True)), structure, where)
        if [(a.shape, a.dtype) for a in given.state_avals] == [
            (a.shape, a.dtype) for a in structure.state_avals
        ]:
            carry = carry._replace(state=_place(state, device))
        return carry._replace(params=_place(params, device))
    if not isinstance(weights, Mapping):
        raise ModelError(
            f"`{where}` got {type(weights).__name__}, which holds no parameters",
            where=where,
            fix="give an nnx.Module, or nested dicts of arrays like run.params",
        )
    flat = dict(_flat(weights, ""))
    _same(flat, structure, where)
    ordered = [np.array(flat[name]) for name in structure.names]
    return carry._replace(params=_place(tuple(ordered), device))


def starting_from(built: Built, weights: Any) -> Built:
    """A model as built, with other weights to start from.

    Raises:
        ModelError: Paths, shapes or dtypes are not those of the model.
    """
    carry = Carry(built.params, built.state, (), None, None, None)
    device = default_device()
    carry = leaves_of(weights, built.structure, carry, device, "weights")
    return replace(built, params=carry.params, state=carry.state)


def _same(flat: Mapping[str, Any], structure: Structure, where: str) -> None:
    expected = dict(zip(structure.names, structure.param_avals, strict=True))
    for name in sorted({*flat, *expected}):
        if name not in expected or name not in flat:
            side = (
                "the model has no such parameter"
                if name not in expected
                else "it is missing"
            )
            raise ModelError(
                f"the weights do not fit at `{name}`: {side}", where=where,
                fix="give the parameters of the same model, as run.params has them",
            )  # fmt: skip
        got, want = np.asarray(flat[name]), expected[name]
        if got.shape != want.shape or got.dtype != want.dtype:
            raise ModelError(
                f"`{name}` is {_aval(got)}, the model has {_aval(want)}",
                where=where,
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
