"""What traced hooks may return, checked while tracing, before any compile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp

from .._experiment.metrics import Concat, Mean, MetricValue, as_metric
from .._experiment.routing import Route
from ..errors import HookError


def is_differentiable(leaf: Any) -> bool:
    """Whether an array has a gradient: floating point or complex."""
    return jnp.issubdtype(leaf.dtype, jnp.inexact)


def precise(array: Any) -> Any:
    """The array in float32 at least, so that sums of many keep their bits."""
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


def precise_aval(aval: Any) -> jax.ShapeDtypeStruct:
    """What `precise` makes of an array of this aval."""
    dtype = jnp.promote_types(aval.dtype, jnp.float32)
    return jax.ShapeDtypeStruct(aval.shape, dtype)


def merged(leaves: Iterable[Any], chosen: Iterable[Any]) -> list[Any]:
    """The leaves with others in place of the differentiable ones."""
    parts = iter(chosen)
    return [next(parts) if is_differentiable(leaf) else leaf for leaf in leaves]


def check_outputs(outputs: Any, wanted: Route) -> None:
    """Refuse outputs that are no arrays or have no gradient."""
    leaves = jax.tree.leaves(outputs)
    if not leaves or not all(hasattr(leaf, "dtype") for leaf in leaves):
        raise HookError(
            "`forward` must return an array or a pytree of arrays",
            where=f"forward, {wanted.place}",
            fix="return the model's outputs",
        )
    if not any(map(is_differentiable, leaves)):
        raise HookError(
            "`forward` returns no floating point array to differentiate",
            where=f"forward, {wanted.place}",
            fix="return the logits, not their argmax",
        )


def split_loss(result: Any, wanted: Route) -> tuple[Any, dict[str, Any]]:
    """`loss` may return a scalar, a Mean, or either with a dict of train metrics."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
        return result[0], checked_metrics(result[1], wanted)
    return result, {}


def scalar(total: Any, wanted: Route) -> Any:
    """The number to differentiate, at least float32."""
    if isinstance(total, Mean):
        _check_scalars("`loss` returned a Mean that", total, wanted)
        if len(jax.tree.leaves(total)) != 2:
            raise HookError(
                "`loss` returned a Mean around a pytree; a loss is one number",
                where=f"loss, {wanted.place}",
                fix="add the parts up: nitro.Mean(total, count)",
            )
        total = jnp.asarray(total.total) / jnp.asarray(total.count)
    shape = (
        jnp.shape(total)
        if hasattr(total, "shape") or isinstance(total, int | float)
        else None
    )
    if shape != ():
        got = (
            f"an array of shape {tuple(shape)}"
            if shape is not None
            else type(total).__name__
        )
        raise HookError(
            f"`loss` returned {got}, not a scalar",
            where=f"loss, {wanted.place}",
            fix="reduce it: .mean(), or return nitro.Mean(total, count)",
        )
    return precise(jnp.asarray(total))


def weight(total: Any) -> tuple[Any, ...]:
    """What a loss that is a Mean adds to the totals of a step; nothing of a scalar."""
    if not isinstance(total, Mean):
        return ()
    parts = jnp.asarray(total.total), jnp.asarray(total.count)
    dtype = jnp.promote_types(parts[0].dtype, jnp.float32)
    return tuple(part.astype(dtype) for part in parts)


def differentiated(total: Any, wanted: Route) -> Any:
    """The number whose gradient is taken: over no sample it is finite, too.

    Such a micro-batch has a weight of 0 among others.
    """
    number = scalar(total, wanted)
    if not isinstance(total, Mean):
        return number
    count = jnp.asarray(total.count)
    some = jnp.where(count == 0, jnp.ones_like(count), count)
    return scalar(Mean(total.total, some), wanted)


def checked_metrics(metrics: Any, wanted: Route) -> dict[str, Any]:
    """Train metrics: a dict of scalars and metric values."""
    if not isinstance(metrics, dict):
        raise HookError(
            f"`{wanted.hook}` returned {type(metrics).__name__}, not a dict",
            where=f"{wanted.hook}, {wanted.place}",
            fix='return {"name": value}',
        )
    return {name: _metric(name, value, wanted) for name, value in metrics.items()}


def _metric(name: str, value: Any, wanted: Route) -> Any:
    if isinstance(value, dict):
        return {k: _metric(f"{name}/{k}", v, wanted) for k, v in value.items()}
    if isinstance(value, Concat):
        raise HookError(
            f"the train metric `{name}` is a Concat, which would pile up all samples",
            where=f"{wanted.hook}, {wanted.place}",
            fix="report it in `metrics`, for a whole split; or reduce it to\n"
            "nitro.Mean(total, count)",
        )
    pair = type(value) is tuple and len(value) == 2
    if pair or isinstance(value, MetricValue):
        made = as_metric(name, value, f"{wanted.hook}, {wanted.place}")
        _check_scalars(f"the train metric `{name}`", made, wanted)
        return made
    try:
        array = jnp.asarray(value)
        got = f"has shape {array.shape}, not ()"
    except TypeError:
        array, got = None, f"is a {type(value).__name__}, not a number"
    if array is None or array.shape != ():
        raise HookError(
            f"the train metric `{name}` {got}",
            where=f"{wanted.hook}, {wanted.place}",
            fix="reduce it to a scalar, or use nitro.Mean(total, count)",
        )
    return array


def _check_scalars(what: str, value: MetricValue, wanted: Route) -> None:
    """A metric value of a train step becomes a number of its row."""
    for leaf in jax.tree.leaves(value):
        if jnp.ndim(leaf):
            raise HookError(
                f"{what} has shape {jnp.shape(leaf)}, not ()",
                where=f"{wanted.hook}, {wanted.place}",
                fix="sum over the samples: nitro.Mean(total.sum(), count)",
            )
