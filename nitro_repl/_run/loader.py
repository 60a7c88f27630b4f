"""`ArrayLoader`: batches out of arrays that fit in memory.

Which samples a batch holds, and the random numbers its transform gets, are
functions of (seed, epoch, index) alone; the position belongs to the iterator.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import DataError

Batch = dict[str, np.ndarray]
Transform = Callable[[Batch, np.random.Generator], Batch]


class ArrayLoader:
    """Batches out of a dict of arrays, the same ones whenever they are asked for.

    A loader can be iterated any number of times, by several runs at once: each
    iterator has its own position, `get_state` and `set_state`.

    Args:
        arrays: Field name -> array of shape (samples, ...), any dtype but object;
            all of the same length. Lists and `jax.Array`s are taken to the host.
        batch_size: Samples in a batch; the last batch may be shorter.
        shuffle: Draw a new order each epoch, a function of (seed, epoch).
        seed: Not negative.
        drop_last: Leave out a last batch that is not full.
        transform: `transform(batch, rng) -> batch` for augmentation. It gets a dict
            of arrays of shape (batch, ...) of its own and a numpy `Generator` that is
            a function of (seed, epoch, index of the batch).

    Raises:
        DataError: The arrays are not a dict, empty or of different lengths, or
            there would be no batch.

    Example:
        >>> x, y = np.zeros((10, 28, 28), np.float32), np.arange(10)
        >>> loader = ArrayLoader({"image": x, "label": y}, batch_size=4)
        >>> len(loader)
        3
        >>> [batch["label"].tolist() for batch in loader]
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    def __init__(
        self,
        arrays: Mapping[str, Any],
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        transform: Transform | None = None,
    ):
        self._arrays = _check_arrays(arrays)
        self._samples = len(next(iter(self._arrays.values())))
        self.batch_size = _integer("batch_size", batch_size, least=1)
        self.shuffle = shuffle
        self.seed = _integer("seed", seed, least=0)
        self.drop_last = drop_last
        self.transform = transform
        self._epoch = 0
        if not len(self):
            raise DataError(
                f"There is no full batch: {self._samples} samples, "
                f"batch_size={self.batch_size}, drop_last=True.",
                where="ArrayLoader",
                fix=f"pass batch_size={self._samples} or less, or drop_last=False",
            )

    def __len__(self) -> int:
        """Batches in an epoch."""
        whole, rest = divmod(self._samples, self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    @property
    def last_rows(self) -> int:
        """Samples in the last batch."""
        rest = self._samples - (len(self) - 1) * self.batch_size
        return min(rest, self.batch_size)

    def __iter__(self) -> ArrayIterator:
        return ArrayIterator(self, self._epoch)

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{name} {array.dtype}{list(array.shape[1:])}"
            for name, array in self._arrays.items()
        )
        shuffled = ", shuffled" if self.shuffle else ""
        return (
            f"ArrayLoader({self._samples} samples in {len(self)} batches of "
            f"{self.batch_size}{shuffled}: {fields})"
        )

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the iterators made from here on start with."""
        self._epoch = _integer("epoch", epoch, least=0)

    def order(self, epoch: int) -> np.ndarray:
        """The sample numbers of an epoch in order: int64 of shape (samples,)."""
        if not self.shuffle:
            return np.arange(self._samples)
        # The spawn key keeps this stream apart from those of the transform: a seed
        # sequence is padded with zeros, so [seed, epoch] alone equals index 0.
        entropy = np.random.SeedSequence([self.seed, epoch], spawn_key=(0,))
        return np.random.Generator(np.random.Philox(entropy)).permutation(self._samples)

    def batch(self, epoch: int, index: int, order: np.ndarray | None = None) -> Batch:
        """The batch at (epoch, index), whatever was read before.

        Args:
            epoch: From 0.
            index: From 0 to `len(loader) - 1`.
            order: The epoch's `order`, where the caller has it already.

        Returns:
            Field name -> array of shape (batch, ...): copies, free to write to.
        """
        order = self.order(epoch) if order is None else order
        chosen = order[index * self.batch_size : (index + 1) * self.batch_size]
        batch = {name: array[chosen] for name, array in self._arrays.items()}
        if self.transform is None:
            return batch
        entropy = np.random.SeedSequence([self.seed, epoch, index])
        rng = np.random.Generator(np.random.Philox(entropy))
        result = self.transform(batch, rng)
        if not isinstance(result, Mapping):
            raise DataError(
                f"The transform returned a `{type(result).__name__}`, not a dict.",
                where="ArrayLoader(transform=...)",
                fix="end it with `return batch`",
            )
        return dict(result)


class ArrayIterator:
    """One pass over an `ArrayLoader`, with a position that can be kept and set."""

    def __init__(self, loader: ArrayLoader, epoch: int):
        self._loader = loader
        self._move(epoch, 0)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._index >= len(self._loader):
            raise StopIteration
        batch = self._loader.batch(self._epoch, self._index, self._order)
        # After the batch, so that one whose transform fails is not lost.
        self._index += 1
        return batch

    def get_state(self) -> dict[str, int]:
        """The position of the next batch: `{"epoch": int, "index": int}`."""
        return {"epoch": self._epoch, "index": self._index}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Go to a position that `get_state` gave.

        Raises:
            DataError: The state is not one, or lies behind the end of the epoch.
        """
        try:
            epoch, index = state["epoch"], state["index"]
        except (KeyError, TypeError):
            raise DataError(
                f"A loader cannot go to the position {state!r}.",
                where="ArrayLoader iterator, set_state",
                fix="pass what `get_state` returned",
            ) from None
        epoch = _integer("epoch", epoch, least=0)
        index = _integer("index", index, least=0)
        if index > len(self._loader):
            raise DataError(
                f"Batch {index} is behind the end: an epoch has {len(self._loader)}.",
                where="ArrayLoader iterator, set_state",
                fix="keep the arrays and batch_size that the position was made with",
            )
        self._move(epoch, index)

    def _move(self, epoch: int, index: int) -> None:
        self._epoch, self._index = epoch, index
        self._order = self._loader.order(epoch)


def _check_arrays(arrays: Any) -> Batch:
    where = "ArrayLoader"
    if not isinstance(arrays, Mapping):
        raise DataError(
            f"The arrays are a `{type(arrays).__name__}`, not a dict.",
            where=where,
            fix='name them: ArrayLoader({"image": images, "label": labels}, ...)',
        )
    if not arrays:
        raise DataError("There are no arrays.", where=where, fix="give one or more")
    checked = {name: _check_array(name, array) for name, array in arrays.items()}
    lengths = {name: len(array) for name, array in checked.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"`{name}` {length}" for name, length in lengths.items())
        raise DataError(
            f"The arrays differ in length: {sizes}.",
            where=where,
            fix="give each field one row for each sample",
        )
    if not any(lengths.values()):
        raise DataError("The arrays are empty.", where=where, fix="give samples")
    return checked


def _check_array(name: Any, array: Any) -> np.ndarray:
    where = f"ArrayLoader, field `{name}`"
    if not isinstance(name, str):
        what = f"Field {name!r} is not named by a string."
        raise DataError(what, where=where, fix=f'name it "{name}"')
    try:
        array = np.asarray(array)
    except Exception as error:
        what = f"Field `{name}` does not become an array: {error}".splitlines()[0]
        fix = "give it one shape: pad what is ragged"
        raise DataError(what, where=where, fix=fix) from error
    if array.dtype.hasobject:
        raise DataError(
            f"Field `{name}` holds Python objects (dtype {array.dtype}).",
            where=where,
            fix="encode it as numbers, and pad what is ragged",
        )
    if array.ndim == 0:
        raise DataError(
            f"Field `{name}` is a single value, not one for each sample.",
            where=where,
            fix="repeat it for each sample, or make it a field of the experiment",
        )
    return array


def _integer(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise DataError(
            f"{name}={value!r} is not an integer of at least {least}.",
            where="ArrayLoader",
            fix=f"pass {name}={least} or more",
        )
    return number
