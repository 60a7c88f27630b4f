"""`plain`: any value as JSON, for the files of a run.

It never raises, and nothing has to be executed to read the result; what has no plain
form is recorded by its repr.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import hashlib
import math
import os
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

Json: TypeAlias = Any

_SMALL_ARRAY = 64
_HASHED_BYTES = 1_000_000  # a data set on a Host field is not read to start a run
_HASHED_ITEMS = 100_000
_LONG = 1000
_DEEP = 20
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def plain(value: Any) -> Json:
    """Turn a value into what `json.dumps(..., allow_nan=False)` accepts.

    Args:
        value: Anything.

    Returns:
        Numbers, strings, lists and dicts; nan and infinities, enums, dtypes, paths,
        classes and functions by name; an array of more than 64 elements as text with
        dtype, shape and, up to a megabyte, SHA-256; else the repr without addresses.
    """
    return _plain(value, 0)


def _plain(value: Any, depth: int) -> Json:
    try:
        if depth > _DEEP:
            return _repr(value)
        return _convert(value, depth + 1)
    except Exception:
        # A lazy object, a deleted array, a tracer: the record must not fail for it.
        return _repr(value)


def _convert(value: Any, depth: int) -> Json:
    if value is None or type(value) in (bool, int, str):
        return value
    for kinds, convert in _BY_KIND:
        if isinstance(value, kinds):
            return convert(value, depth)
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value)]
        return _record(value, {name: getattr(value, name) for name in fields}, depth)
    if callable(value) and hasattr(value, "__qualname__"):
        return _qualified(value)
    if not jax.tree_util.all_leaves([value]):
        return _pytree(value)
    return _repr(value)


def _float(value: float, depth: int) -> Json:
    if math.isfinite(value):
        return float(value)
    # Names that `float()` of Python and `Number()` of JavaScript both read.
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _enum(value: enum.Enum, depth: int) -> Json:
    return value.name if value.name is not None else _repr(value)


def _scalar(value: Any, depth: int) -> Json:
    return _plain(value.item(), depth)


def _array(value: Any, depth: int) -> Json:
    array = _host(value)
    if array.size <= _SMALL_ARRAY:
        return _plain(array.tolist(), depth)
    return _repr(value) if array.dtype.hasobject else _digest(array)


def _host(value: Any) -> np.ndarray:
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def _digest(array: np.ndarray) -> str:
    text = f"{array.dtype}{list(array.shape)}"
    if array.nbytes > _HASHED_BYTES:
        return f"{text} of {array.nbytes:,} bytes"
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{text} sha256:{digest}"


def _dtype(value: np.dtype, depth: int) -> Json:
    return value.name


def _class(value: Any, depth: int) -> Json:
    # `jnp.float32` is no numpy type, but has its dtype.
    if issubclass(value, np.generic) or isinstance(
        getattr(value, "dtype", None), np.dtype
    ):
        return np.dtype(value).name
    return _qualified(value)


def _qualified(value: Any) -> str:
    module = getattr(value, "__module__", None)
    name = value.__qualname__
    return name if module in (None, "builtins", "__main__") else f"{module}.{name}"


def _mapping(value: Mapping[Any, Any], depth: int) -> Json:
    return {_key(key, depth): _plain(item, depth) for key, item in value.items()}


def _key(key: Any, depth: int) -> str:
    key = key if type(key) is str else _plain(key, depth)
    return key if isinstance(key, str) else str(key)


def _sequence(value: Any, depth: int) -> Json:
    if len(value) > _LONG:
        text = f"{type(value).__name__} of {len(value)}"
        if len(value) > _HASHED_ITEMS:
            return text
        digest = hashlib.sha256(repr(value).encode(errors="replace")).hexdigest()
        return f"{text} sha256:{digest}"
    if hasattr(value, "_asdict"):
        return _record(value, value._asdict(), depth)
    return [_plain(item, depth) for item in value]


def _set(value: Any, depth: int) -> Json:
    # Ordered, so that the same set is the same text in every process.
    return sorted((_plain(item, depth) for item in value), key=repr)


def _record(value: Any, fields: Mapping[str, Any], depth: int) -> Json:
    # No field can be called "class": it is a keyword.
    return {"class": type(value).__qualname__, **_mapping(fields, depth)}


def _pytree(value: Any) -> str:
    """A model, or another container of arrays, by the content of its arrays."""
    leaves = jax.tree.leaves(value)
    digests = "".join(_digest(_host(leaf)) for leaf in leaves)
    digest = hashlib.sha256(digests.encode()).hexdigest()
    return f"{type(value).__qualname__} of {len(leaves)} arrays sha256:{digest}"


def _repr(value: Any) -> str:
    try:
        text = _ADDRESS.sub("", repr(value))
    except Exception:
        return f"<{type(value).__qualname__}>"
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."


# In order: a numpy float is a Python float too, and an enum may be an int.
_BY_KIND: tuple[tuple[Any, Any], ...] = (
    (enum.Enum, _enum),
    (float, _float),
    (np.generic, _scalar),
    ((np.ndarray, jax.Array), _array),
    (np.dtype, _dtype),
    (type, _class),
    (int, lambda value, depth: int(value)),
    (str, lambda value, depth: str(value)),
    (os.PathLike, lambda value, depth: os.fspath(value)),
    ((datetime.date, datetime.time), lambda value, depth: value.isoformat()),
    (Mapping, _mapping),
    ((list, tuple), _sequence),
    ((set, frozenset), _set),
)
