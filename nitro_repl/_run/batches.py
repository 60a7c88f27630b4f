"""A batch: from what a loader yields to host arrays that a program can take.

Dtypes come out as JAX would make them, so that a batch has the same avals
whoever built it, and no array shares memory that a loader may write again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import DataError

Arrays: TypeAlias = dict[str, Any]
"""Fields of a batch: name -> `numpy.ndarray` or `jax.Array`."""

_REAL_OR_COMPLEX = (np.number, np.bool_)
_KEPT = frozenset(  # dtypes that JAX takes as they are, with x64 and without
    map(np.dtype, ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4"])
)
_ALIGNMENT = 64
_LARGE = 1 << 16  # bytes; below, a copy costs less than looking where it lies


def batch_arrays(
    batch: Any, split: str, names: Collection[str] | None = None
) -> Arrays:
    """Turn the fields of a batch into arrays of dtypes that JAX keeps.

    Args:
        batch: What the loader yielded: a dict of arrays, lists or numbers.
        split: Name of the split, for the error.
        names: The fields wanted, where not all are; the others may hold anything.

    Returns:
        A numpy array per field, or the `jax.Array` that was given. Without x64,
        64-bit numbers become 32-bit ones, as `jnp.asarray` does it; the mode is
        the calling thread's.

    Raises:
        DataError: The batch is not a dict with string keys, a field is not an
            array of numbers, or an integer does not fit 32 bits.
    """
    check_batch(batch, split)
    return {
        name: _as_array(name, value, split)
        for name, value in batch.items()
        if names is None or name in names
    }


def check_batch(batch: Any, split: str) -> None:
    """Refuse a batch that is not a dict with string keys."""
    if not isinstance(batch, Mapping):
        raise DataError(
            f"A batch of split `{split}` is a `{type(batch).__name__}`, not a dict.",
            where=f"split `{split}`",
            fix='yield dicts of arrays, as in {"image": images, "label": labels}',
        )
    for name in batch:
        if not isinstance(name, str):
            raise DataError(
                f"Batch field {name!r} is not named by a string.",
                where=f"split `{split}`",
                fix=f'name it "{name}": hooks ask for fields by keyword',
            )


def batch_rows(arrays: Mapping[str, Any], split: str) -> int:
    """The length of the first axis that all fields share; 0-d fields have none.

    Raises:
        DataError: The fields disagree, or none has a first axis.
    """
    lengths = {name: np.shape(a)[0] for name, a in arrays.items() if np.ndim(a)}
    if len(set(lengths.values())) == 1:
        return next(iter(lengths.values()))
    where = f"split `{split}`"
    if not lengths:
        what = "No field of the batch has a first axis."
        raise DataError(what, where=where, fix="batch the samples on the first axis")
    sizes = ", ".join(f"`{name}` {length}" for name, length in lengths.items())
    raise DataError(
        f"The fields of a batch differ in length: {sizes}.",
        where=where,
        fix="give each field one row for each sample, or pass `pad_eval=False`",
    )


def private_arrays(
    batch: Mapping[str, Any], split: str, names: Iterable[str]
) -> Arrays:
    """Turn the named fields into arrays that nobody else can write, in that order.

    Host arrays are copied; `jax.Array`s, which nobody can write, are left as they are.
    A transfer to the device reads its source after the call has returned, on a CPU
    too, and by then a loader may have refilled its buffer.

    Raises:
        DataError: As `batch_arrays` does.
    """
    return {name: _private(name, batch[name], split) for name in names}


def pad_batch(arrays: Mapping[str, Any], rows: int, split: str = "") -> tuple[Any, int]:
    """Repeat the last row until the batch has `rows` rows.

    Args:
        arrays: Fields of a batch; 0-d fields stay as they are.
        rows: Rows wanted. A batch that has as many, or more, is left alone.
        split: Name of the split, for the error.

    Returns:
        The padded fields, as numpy arrays where they grew, and the number of rows
        that are real.

    Raises:
        DataError: The fields differ in length, or the batch has no row to repeat.
    """
    n = batch_rows(arrays, split)
    if n >= rows:
        return dict(arrays), n
    if n == 0:
        raise DataError(
            "A batch is empty.",
            where=f"split `{split}`" if split else "",
            fix="leave empty batches out",
        )
    # On the host: each shape would be one more compilation on the device.
    index = np.minimum(np.arange(rows), n - 1)
    padded = {
        name: np.asarray(array)[index] if np.ndim(array) else array
        for name, array in arrays.items()
    }
    return padded, n


def slice_outputs(tree: Any, n: int, rows: int, where: str) -> Any:
    """Cut the padding rows off what a program returned for a padded batch.

    Args:
        tree: Outputs: an array or a pytree of arrays.
        n: Rows that are real.
        rows: Rows of the padded batch.
        where: Hook and split, for the error.

    Returns:
        The first `n` rows of each leaf; the tree itself where nothing was padded.

    Raises:
        DataError: A leaf does not have one row for each sample.
    """
    if n == rows:
        return tree

    def cut(path: Any, leaf: Any) -> Any:
        shape = np.shape(leaf)
        if not shape or shape[0] != rows:
            name = jax.tree_util.keystr(path)
            raise DataError(
                f"Output {f'`{name}` ' if name else ''}has shape {shape}, not one row "
                f"for each of the {rows} samples: padding cannot be cut off.",
                where=where,
                fix="return one row for each sample, batch axis first, or pass\n"
                "`pad_eval=False` (a last batch of another size compiles again)",
            )
        return leaf[:n]

    return jax.tree_util.tree_map_with_path(cut, tree)


def _private(name: str, value: Any, split: str) -> Any:
    array = _as_array(name, value, split)
    if not isinstance(array, np.ndarray):
        return array
    if array.nbytes < _LARGE:
        return np.array(array, order="C")
    # XLA on a CPU reads an array in place if it begins at a multiple of 64 bytes, and
    # copies it for each program if not; where numpy puts one is chance.
    room = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _as_array(name: str, value: Any, split: str) -> Any:
    if type(value) is np.ndarray and value.dtype in _KEPT:
        return value
    if isinstance(value, jax.Array):
        return value
    where = f"split `{split}`, field `{name}`"
    if isinstance(value, Mapping):
        raise DataError(
            f"Batch field `{name}` is a dict, not an array.",
            where=where,
            fix="give each of its arrays a field of its own",
        )
    try:
        array = np.asarray(value)
    except Exception as error:
        what = f"Batch field `{name}` does not become an array: {error}"
        raise DataError(
            what.splitlines()[0],
            where=where,
            fix="give it one shape: pad what is ragged",
        ) from error
    if not any(jnp.issubdtype(array.dtype, kind) for kind in _REAL_OR_COMPLEX):
        raise DataError(
            f"Batch field `{name}` has dtype {array.dtype}; only numbers and booleans "
            "reach a device.",
            where=where,
            fix="encode it as numbers (token ids, class ids), or leave it out",
        )
    return _canonical(array, where)


def _canonical(array: np.ndarray, where: str) -> np.ndarray:
    dtype = jax.dtypes.canonicalize_dtype(array.dtype.newbyteorder("="))
    if dtype == array.dtype:
        return array
    if jnp.issubdtype(dtype, np.integer) and array.size:
        # A cast wraps around in silence.
        bounds = np.iinfo(dtype)
        for extreme in (array.min(), array.max()):
            if not bounds.min <= int(extreme) <= bounds.max:
                raise DataError(
                    f"The value {int(extreme)} does not fit {dtype}, which is what JAX "
                    f"makes of {array.dtype} without x64.",
                    where=where,
                    fix="renumber it, or set JAX_ENABLE_X64=1",
                )
    return array.astype(dtype)
