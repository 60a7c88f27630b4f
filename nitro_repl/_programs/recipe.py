"""How each parameter is updated: groups, decay, frozen leaves, clipping, averaging.

Plain values, compared by content: a hook that moved but says the same compiles nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any

DEFAULT_GROUP = "default"


@dataclass(frozen=True)
class Recipe:
    """What is decided once for the parameters of a model, in their order.

    Attributes:
        groups: The group of each parameter.
        frozen: Which parameters are left as they are.
        decayed: Which parameters weight decay pulls.
        anchored: Toward an array instead of zero.
        clip_norm: Most that the norm of all gradients may be.
        ema: Decay of the average over steps.
    """

    groups: tuple[str, ...]
    frozen: tuple[bool, ...]
    decayed: tuple[bool, ...]
    anchored: tuple[bool, ...]
    clip_norm: float | None = None
    ema: float | None = None

    @classmethod
    def plain(cls, count: int) -> Recipe:
        """One group, nothing frozen, decay toward zero for all."""
        no = (False,) * count
        return cls((DEFAULT_GROUP,) * count, no, (True,) * count, no)

    @property
    def names(self) -> tuple[str, ...]:
        """The groups that have something to train, sorted."""
        return tuple(sorted(set(self.trained(self.groups))))

    def trained(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Those of one leaf per parameter that are not frozen."""
        pairs = zip(leaves, self.frozen, strict=True)
        return tuple(leaf for leaf, frozen in pairs if not frozen)

    def whole(self, trained: Sequence[Any], leaves: Sequence[Any]) -> tuple[Any, ...]:
        """All leaves, with others in place of the trained ones."""
        given = iter(trained)
        pairs = zip(leaves, self.frozen, strict=True)
        return tuple(leaf if frozen else next(given) for leaf, frozen in pairs)

    def members(self, group: str) -> tuple[bool, ...]:
        """Which parameters are of a group and not frozen."""
        pairs = zip(self.groups, self.frozen, strict=True)
        return tuple(name == group and not frozen for name, frozen in pairs)

    def content(self, part: str) -> Hashable:
        """One attribute, as what a program that reads it is known by."""
        return getattr(self, part)


PARTS = tuple(one.name for one in fields(Recipe))
