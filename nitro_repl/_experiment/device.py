"""Values of Device fields: cast to what the field holds, placed on the device.

A number stays weakly typed, so in arithmetic it behaves like the Python number it
replaces; a cast never changes the avals that programs already take.
"""

from __future__ import annotations

import numbers
from math import isfinite
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from ..errors import FieldError
from .fields import Field

Signature = tuple[Any, ...]
"""Structure, shapes, dtypes and weak types of a Device value."""


_LONG = 200
_INT32 = np.iinfo(np.int32)
_FLOAT32_MAX = float(np.finfo(np.float32).max)


def place(value: Any, declared: Field, current: Any = None) -> Any:
    """Put a value of a Device field on the default device.

    Args:
        value: What the user assigned: a number for `Device[float]`, `Device[int]` and
            `Device[bool]`, else an array, a pytree of arrays or an `nnx.Module`.
        declared: The field.
        current: The present value, whose dtypes, shapes and structure are kept.

    Returns:
        A jax array, or a pytree of them; a module as a copy in eval mode.

    Raises:
        FieldError: The value does not fit the field.
    """
    kind = declared.type if declared.type in (float, int, bool) else None
    if kind is None and current is None and isinstance(value, bool | int | float):
        kind = type(value)
    if kind is None and _is_weak(current):
        kind = float if np.issubdtype(current.dtype, np.floating) else int
    if kind is not None:
        number = _number(value, kind, declared.name)
        with jax.enable_x64(False):  # float32 and int32 whatever the mode
            return jax.device_put(number, default_device())
    if isinstance(value, nnx.Module):
        value = _evaluating(value)
    if current is None:
        made = jax.tree.map(lambda leaf: _array(leaf, declared.name), value)
    else:
        made = _like(value, current, declared.name)
    return jax.tree.map(lambda leaf: jax.device_put(leaf, default_device()), made)


def default_device() -> Any:
    """The device that this thread's settings choose."""
    chosen = getattr(jax.config, "jax_default_device", None)
    if isinstance(chosen, str):
        return jax.devices(chosen)[0]
    return chosen or jax.devices()[0]


def signature(value: Any) -> Signature:
    """What programs compiled for `value` depend on: all but the numbers."""
    leaves, structure = jax.tree.flatten(value)
    avals = tuple(
        (leaf.shape, str(leaf.dtype), bool(getattr(leaf, "weak_type", False)))
        for leaf in leaves
    )
    return (structure, *avals)


def plain(value: Any) -> Any:
    """The value as Python number or numpy arrays, for people and files.

    A float32 gives the shortest number that it stands for: 0.1, not 0.10000000149.
    """
    return jax.tree.map(_plain, value)


def _plain(leaf: Any) -> Any:
    if _is_key(leaf):
        leaf = jax.random.key_data(leaf)
    array = np.array(leaf)
    if array.ndim:
        return array
    return float(str(array)) if array.dtype == np.float32 else array.item()


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _number(value: Any, kind: type, name: str) -> bool | int | float:
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        if np.ndim(value):
            raise _misfit(name, f"an array of shape {np.shape(value)}", kind)
        value = value.item()
    if not isinstance(value, bool | int | float | numbers.Real):
        raise _misfit(name, f"{value!r} ({type(value).__name__})", kind)
    number: Any = value
    if kind is float and isfinite(number) and abs(number) > _FLOAT32_MAX:
        raise _misfit(name, f"{value!r}, which does not fit float32", kind)
    if kind is int and not (isfinite(number) and number == int(number)):
        raise _misfit(name, repr(value), kind)
    if kind is int and not _INT32.min <= number <= _INT32.max:
        raise _misfit(name, f"{value!r}, which does not fit int32", kind)
    return kind(number)


def _misfit(name: str, got: str, kind: type) -> FieldError:
    return FieldError(
        f"`{name}` is a Device[{kind.__name__}] and cannot be {got}",
        where=f"field {name}",
        fix=f"give one{' whole' if kind is int else ''} number: {name}={kind(1)}",
    )


def _array(leaf: Any, name: str) -> Any:
    if isinstance(leaf, jax.Array):
        return leaf
    try:
        array = np.asarray(leaf)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if not any(jnp.issubdtype(array.dtype, kind) for kind in (np.number, np.bool_)):
        raise FieldError(
            f"`{name}` is a Device field and cannot hold {type(leaf).__name__}",
            where=f"field {name}",
            fix="give a number, an array, or a pytree of arrays;\n"
            "or leave the field unmarked (Host)",
        )
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=True)


def _like(value: Any, current: Any, name: str) -> Any:
    """The value with the structure, shapes and dtypes of the present one."""
    leaves, structure = jax.tree.flatten(current)
    try:
        # A list where an array is becomes an array.
        given = [_array(part, name) for part in structure.flatten_up_to(value)]
    except ValueError:
        raise FieldError(
            f"`{name}` has another structure than the value it replaces",
            where=f"field {name}",
            fix=f"give {_shape_of(current)}",
        ) from None

    def fit(new: Any, old: Any) -> Any:
        if new.shape != old.shape:
            raise FieldError(
                f"`{name}` has shape {tuple(old.shape)}, not {tuple(new.shape)}",
                where=f"field {name}",
                fix="give the same shape, or build a new Nitro",
            )
        keys = _is_key(new) or _is_key(old)
        if keys and new.dtype == old.dtype:
            return new
        if keys or not np.can_cast(new.dtype, old.dtype, "same_kind"):
            raise FieldError(
                f"`{name}` has dtype {old.dtype} and cannot become {new.dtype}",
                where=f"field {name}",
                fix=f"cast it: value.astype('{old.dtype}')",
            )
        return new.astype(old.dtype)

    fitted = [fit(new, old) for new, old in zip(given, leaves, strict=True)]
    return jax.tree.unflatten(structure, fitted)


def _evaluating(module: nnx.Module) -> nnx.Module:
    """A copy in eval mode: it writes no state, which no trace could keep."""
    copied = nnx.clone(module)
    copied.eval()
    return copied


def _shape_of(tree: Any) -> str:
    """The structure of a tree, with `*` for its arrays."""
    if isinstance(tree, nnx.Module):
        return f"a {type(tree).__name__} of the same layers"
    text = str(jax.tree.structure(tree)).removeprefix("PyTreeDef(").removesuffix(")")
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."


def _is_weak(value: Any) -> TypeGuard[jax.Array]:
    return isinstance(value, jax.Array) and bool(value.weak_type)
