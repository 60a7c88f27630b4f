"""The data of a run: the splits that `build_data` returned, and all that reads them.

A split can be iterated again and again; one that cannot is refused before training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import DataError
from .batches import (
    batch_arrays as batch_arrays,
    batch_rows as batch_rows,
    check_batch as check_batch,
    pad_batch as pad_batch,
    private_arrays as private_arrays,
    slice_outputs as slice_outputs,
)
from .feed import (
    Fed as Fed,
    Feed as Feed,
    Position as Position,
    close_iterator as close_iterator,
    open_epoch as open_epoch,
)
from .loader import ArrayLoader as ArrayLoader

_EXAMPLE = '{"train": nitro.ArrayLoader({"image": x, "label": y}, batch_size=64)}'


def check_splits(splits: Any) -> dict[str, Any]:
    """Check what `build_data` returned, without reading a batch.

    Args:
        splits: Name of a split -> a re-iterable of dicts of arrays with `len()`.

    Returns:
        The splits, in a dict of their own.

    Raises:
        DataError: It is not such a dict, or a split cannot be read twice, has no
            `len()`, or is empty.
    """
    if not isinstance(splits, Mapping):
        raise DataError(
            f"The splits are a `{type(splits).__name__}`, not a dict.",
            where="`build_data`",
            fix=f"return {_EXAMPLE}",
        )
    for name, loader in splits.items():
        if not isinstance(name, str):
            what = f"Split {name!r} is not named by a string."
            raise DataError(what, where="`build_data`", fix=f'name it "{name}"')
        _check_split(name, loader)
    return dict(splits)


def first_batch(loader: Any, split: str) -> dict[str, Any]:
    """The first batch of a split, as the loader gives it.

    Raises:
        DataError: There is none, or it is not a dict with string keys.
    """
    iterator = open_epoch(loader, 0)
    try:
        for batch in iterator:
            check_batch(batch, split)
            return dict(batch)
    finally:
        close_iterator(iterator)
    raise DataError(
        f"Split `{split}` gives no batch.",
        where=f"split `{split}`, `build_data`",
        fix="give it samples, or leave the split out",
    )


def check_accum(data: Mapping[str, Any], accum: int) -> None:
    """Refuse an epoch that is no whole number of steps.

    Raises:
        DataError: The micro-batches of a step do not divide its batches.
    """
    batches = len(data["train"]) if "train" in data else accum
    if batches % accum:
        fitting = [n for n in range(1, batches + 1) if batches % n == 0]
        nearest = sorted(fitting, key=lambda n: abs(n - accum))[:2]
        raise DataError(
            f"accum={accum} does not divide the {batches} batches of an epoch",
            where="split `train`, setting accum",
            fix=f"accum={' or '.join(map(str, nearest))}, or give the split "
            f"{batches - batches % accum} batches"
            if batches > accum
            else f"accum={' or '.join(map(str, nearest))}",
        )


def _check_split(name: str, loader: Any) -> None:
    where = f"split `{name}`, `build_data`"
    kind = type(loader).__name__
    if isinstance(loader, Iterator):
        raise DataError(
            f"Split `{name}` is a one-shot `{kind}`: a second epoch finds it empty.",
            where=where,
            fix="return an object whose `__iter__` starts anew each time, a list of\n"
            "batches, or a `nitro.ArrayLoader`",
        )
    if isinstance(loader, Mapping) or hasattr(loader, "dtype"):
        raise DataError(
            f"Split `{name}` is a `{kind}` of samples, not batches of them.",
            where=where,
            fix=f"return {_EXAMPLE}",
        )
    if isinstance(loader, str | bytes) or not (
        hasattr(loader, "__iter__") or hasattr(loader, "__getitem__")
    ):
        raise DataError(
            f"Split `{name}` is a `{kind}`, which cannot be iterated.",
            where=where,
            fix="call it, and return its result"
            if callable(loader)
            else f"return {_EXAMPLE}",
        )
    try:
        length = len(loader)
    except TypeError:
        raise DataError(
            f"Split `{name}` (`{kind}`) has no `len()`: the batches of an epoch.",
            where=where,
            fix="give it a `__len__`; for an endless stream, choose a number",
        ) from None
    if not length:
        raise DataError(
            f"Split `{name}` is empty.",
            where=where,
            fix="give it samples, or leave the split out",
        )
