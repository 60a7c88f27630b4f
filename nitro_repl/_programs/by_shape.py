"""The steps of a run by batch shape: those used last, so that many shapes cost no more.

Written by the thread that steps, read by any.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

KEPT = 32  # more shapes are looked up in the cache again when they come back

Step = TypeVar("Step")
Key = tuple[Hashable, Hashable]
"""JAX settings, and the shapes of a batch."""


class ByShape(Generic[Step]):
    """Steps of one kind; what was used longest ago leaves.

    Args:
        kind: "train", "eval", "value" or "metrics".
        make: Makes a step for avals.
    """

    def __init__(self, kind: str, make: Callable[..., Step]):
        self.kind = kind
        self.make = make
        self._kept: OrderedDict[Key, tuple[Step, tuple[Any, ...]]] = OrderedDict()
        self._last: tuple[Key, Step] | None = None

    def get(self, key: Key) -> Step | None:
        """The step for these shapes, if it is here."""
        if (last := self._last) is not None and key == last[0]:
            return last[1]  # as in most steps; a key is long, its hash takes longer
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        self._last = (key, found[0])
        return found[0]

    def keep(self, key: Key, step: Step, shapes: tuple[Any, ...]) -> Step:
        """Keep a step, with the avals it was made for."""
        self._kept[key] = (step, shapes)
        self._last = (key, step)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return step

    def newest(self) -> tuple[Step, tuple[Any, ...]] | None:
        """The step used last, with the avals it was made for."""
        kept = list(self._kept.copy().values())
        return kept[-1] if kept else None

    def items(self) -> list[tuple[Key, Step]]:
        """What is kept now."""
        return [(key, step) for key, (step, _) in self._kept.copy().items()]

    def shapes(self, settings: Hashable) -> list[tuple[Any, ...]]:
        """What the steps that were made under these JAX settings were made for."""
        kept = self._kept.copy().items()
        return [shapes for (under, _), (_, shapes) in kept if under == settings]
