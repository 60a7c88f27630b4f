"""A feed: the endless stream of batches that a run trains on, with its position.

A position taken between two batches and restored later, in this process or
another, continues with the same batch.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

from .._text import warn
from ..errors import DataError

# Runs that share a loader (a fork, a sweep) must not come between another's
# `set_epoch` and `iter`. Striped by identity, so that no loader is kept alive.
_OPENING = [threading.RLock() for _ in range(64)]


@dataclasses.dataclass(frozen=True, slots=True)
class Fed:
    """A batch as the loader gave it, and where it came from."""

    epoch: int
    index: int
    batch: Any


@dataclasses.dataclass(frozen=True)
class Position:
    """Where a feed stands: before batch `index` of `epoch`.

    `state` is the iterator's own `get_state`, None for an iterator without one.
    """

    epoch: int = 0
    index: int = 0
    state: Any = None


class Feed:
    """Batches of a split, epoch after epoch, for one thread at a time.

    Args:
        loader: A re-iterable with `len()`. `set_epoch` and, on its iterators,
            `get_state` and `set_state` are used where they exist.
        split: Name of the split, for errors.
        position: Where to start.

    Raises:
        DataError: From `next`: the loader gives fewer batches than its `len()`.
            What the loader itself raises passes through, and a later `next` asks
            for the same batch again.
    """

    def __init__(
        self, loader: Any, split: str = "train", position: Position | None = None
    ):
        self._loader = loader
        self._split = split
        self.steps_per_epoch = len(loader)
        self._iterator: Any = None
        self._warned = False
        if not self.steps_per_epoch:
            raise self._too_few(0, 0)
        self.restore(position or Position())

    def __iter__(self) -> Feed:
        return self

    def __next__(self) -> Fed:
        if self._index >= self.steps_per_epoch:
            self._end_epoch()
        if self._iterator is None:
            self._iterator = self._open()
        try:
            batch = next(self._iterator)
        except StopIteration:
            raise self._too_few(self._epoch, self._index) from None
        except BaseException:
            # A generator that raised is over; another iterator may go on.
            if not hasattr(self._iterator, "get_state"):
                self._iterator = None
                self._start = Position(self._epoch, self._index)
            raise
        fed = Fed(self._epoch, self._index, batch)
        self._index += 1
        return fed

    def take(self, count: int) -> list[Fed]:
        """So many batches, or none of them: what is raised leaves all to come."""
        fed = [next(self)]
        try:
            while len(fed) < count:
                fed.append(next(self))
        except BaseException:
            self.restore(Position(fed[0].epoch, fed[0].index))
            raise
        return fed

    @property
    def position(self) -> Position:
        """The position of the next batch; for the thread that calls `next`."""
        if self._index >= self.steps_per_epoch:
            return Position(self._epoch + 1, 0)
        if self._iterator is None:
            return self._start
        if not hasattr(self._iterator, "get_state"):
            return Position(self._epoch, self._index)
        # A copy, since an iterator may hand out the dict that it counts in.
        state = copy.deepcopy(self._iterator.get_state())
        return Position(self._epoch, self._index, state)

    def restore(self, position: Position) -> None:
        """Continue with the batch at `position`.

        The iterator's `set_state` is used where it has one; otherwise as many
        batches as had been read are read again and dropped.

        Raises:
            DataError: An epoch has fewer batches than that.
        """
        if position.index > self.steps_per_epoch:
            raise DataError(
                f"Batch {position.index} is behind the end of an epoch of "
                f"{self.steps_per_epoch}.",
                where=f"split `{self._split}`",
                fix="give the run the data that it was saved with",
            )
        self._drop()
        self._start = position
        self._epoch, self._index = position.epoch, position.index

    def close(self) -> None:
        """Let go of the iterator, keeping the position; a generator is closed."""
        self._start = self.position
        self._epoch, self._index = self._start.epoch, self._start.index
        self._drop()

    def _open(self) -> Any:
        iterator = open_epoch(self._loader, self._epoch)
        if self._start.state is not None and hasattr(iterator, "set_state"):
            iterator.set_state(self._start.state)
            return iterator
        skipped = _skip(iterator, self._index)
        if skipped < self._index:
            raise self._too_few(self._epoch, skipped)
        return iterator

    def _end_epoch(self) -> None:
        if self._iterator is not None:
            # Run to its end, for what a generator does after its last batch.
            more = _skip(self._iterator, 1)
            if more and not self._warned:
                self._warned = True
                warn(
                    f"The loader of split `{self._split}` gives more batches than the "
                    f"{self.steps_per_epoch} of its len(); the rest is not used."
                )
        self._drop()
        self._epoch, self._index = self._epoch + 1, 0
        self._start = Position(self._epoch, 0)

    def _drop(self) -> None:
        iterator, self._iterator = self._iterator, None
        close_iterator(iterator)

    def _too_few(self, epoch: int, given: int) -> DataError:
        once = given == 0 and epoch > 0
        return DataError(
            f"The loader of split `{self._split}` gave {given} batches in epoch "
            f"{epoch}; its len() is {self.steps_per_epoch}.",
            where=f"split `{self._split}`, `build_data`",
            fix="let each `iter(loader)` start anew: it was used up by the first epoch"
            if once
            else "give at least one batch, and a `__len__` that counts them",
        )


def open_epoch(loader: Any, epoch: int) -> Any:
    """A fresh iterator of an epoch, which the loader is told if it has `set_epoch`."""
    if not hasattr(loader, "set_epoch"):
        return iter(loader)
    with _OPENING[id(loader) // 16 % len(_OPENING)]:
        loader.set_epoch(epoch)
        iterator = iter(loader)
        # A generator looks at the loader's epoch only when it is first advanced.
        return iterator if hasattr(iterator, "set_state") else _Begun(iterator)


def close_iterator(iterator: Any) -> None:
    """Close a generator, or an iterator that can be closed like one."""
    close = getattr(iterator, "close", None)
    if callable(close):
        close()


def _skip(iterator: Iterator[Any], count: int) -> int:
    """Read and drop `count` batches; returns how many there were."""
    for skipped in range(count):
        try:
            next(iterator)
        except StopIteration:
            return skipped
    return count


class _Begun:
    """An iterator whose first batch has been read already."""

    def __init__(self, iterator: Iterator[Any]):
        self._iterator = iterator
        self._first = []
        with contextlib.suppress(StopIteration):
            self._first.append(next(iterator))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._first.pop() if self._first else next(self._iterator)

    def close(self) -> None:
        close_iterator(self._iterator)
