"""Where each value in force comes from: set-up, a schedule, a `set`, swapped code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._experiment.base import Experiment
from .._experiment.device import plain
from .._experiment.hooks import Hooks
from .._experiment.hyper import NAMES
from .._text import show
from .moves import moves
from .plan import Plan
from .schedules import Schedules

if TYPE_CHECKING:
    from .nitro import Nitro

SWAPPED = "swapped hook"


@dataclass(frozen=True)
class Moment:
    """What is in force at one moment, and what led there.

    Attributes:
        handle: What was set up.
        now: What it or its run steps with.
        followed: What values follow.
        on_nonfinite: What a step does that is not finite.
        begun: What the run began with; None before any run.
        entries: Of its journal.
        said: The moment in words; "" for set-up.
    """

    handle: Nitro
    now: Plan
    followed: Schedules
    on_nonfinite: str
    begun: Plan | None = None
    entries: tuple[Mapping[str, Any], ...] = ()
    said: str = ""

    def value(self, name: str) -> Any:
        """A live value as it is now; an array that nobody set is that of set-up."""
        values = self.now.values
        if name in values.numbers:
            return values.numbers[name]
        if values.scalar(name) is not None:
            return values.number(name)
        set_ = name in self.by_hand
        return plain(values.fields[name]) if set_ else values.initial[name]

    def origin(self, name: str, value: Any) -> tuple[str, str]:
        """Where a live value comes from, and what replaces it, if anything does."""
        if self._scheduled(name):
            if self.begun is not None:
                return "schedule", ""
            return self.setting(name, self.now.hooks), "a schedule replaces it"
        values = self.now.values
        single = values.scalar(name) is not None
        step, after = self.by_hand.get(name, (None, None))
        if step is not None and (not single or _same(after, value)):
            return f"set at step {step}", ""
        if not single or _same(value, values.initial[name]):
            return self.setting(name, self.now.hooks), ""
        first = self.begun.values.initial if self.begun is not None else {}
        unset = f"{show(values.initial[name])} after unset"
        if name in first and _same(value, first[name]):
            return self._declared(name, self.handle.hooks), unset
        return "earlier code", unset

    def setting(self, name: str, hooks: Hooks) -> str:
        """Where what the experiment says now comes from."""
        declared = self._declared(name, hooks)
        giving = {name, name.rpartition(".")[2]}
        giving |= {"setup_optimizers"} if hooks.manual else set()
        if declared == "method" and giving & self.moved.keys():
            return SWAPPED
        return declared

    @cached_property
    def moved(self) -> dict[str, tuple[str, ...]]:
        """The hooks that a swap took and that say something else, with what is new."""
        if self.begun is None or self.begun is self.now:
            return {}
        found = moves(self.begun, self.now, self.handle.settings)
        return {move.name: move.causes for move in found}

    @cached_property
    def by_hand(self) -> dict[str, tuple[int, Any]]:
        """By name, the step at which a value was last set, and to what."""
        return set_by_hand(self.entries, self.now.values.initial)

    def _scheduled(self, name: str) -> bool:
        base = name.rpartition(".")[2]
        return name in self.followed.names or (
            name not in self.followed.curves
            and base in self.followed.names
            and name in self.now.values.tied(base)
        )

    def _declared(self, name: str, hooks: Hooks) -> str:
        cls = type(self.now.experiment)
        if name in cls.__fields__ and name not in self.handle.given:
            return field_source(self.handle, name)
        return setting_source(cls, hooks, name, self.handle.given)


def field_source(handle: Nitro, name: str) -> str:
    """Where a handle has the value of a field from."""
    own = handle.experiment.__dict__
    if name in handle.derived:
        return "derive"
    if name not in own["_given"]:
        return "default"
    overridden = own.get("_overridden")
    preset = overridden is not None and name not in overridden
    return "preset" if preset else "keyword"


def setting_source(
    cls: type[Experiment], hooks: Hooks, name: str, given: Mapping[str, Any]
) -> str:
    """Where a setting comes from: keyword, then field or method, then default.

    The rate of a group comes from where the base does.
    """
    base = name.rpartition(".")[2]
    if name in given:
        return "keyword"
    if hooks.manual and base in NAMES:
        return "method"
    for own in dict.fromkeys((name, base)):
        if own in given:
            return "keyword"
        if own in cls.__fields__:
            return "field"
        if own in hooks and hooks[own] is not vars(Experiment).get(own):
            return "method"
    return "default"


def set_by_hand(
    entries: Iterable[Mapping[str, Any]], initial: Mapping[str, Any]
) -> dict[str, tuple[int, Any]]:
    """By name, the step of the last `set` that still holds, and what it gave.

    Args:
        entries: Of a journal; those of a base value hold its groups' too.
        initial: What the experiment says.
    """
    found: dict[str, tuple[int, Any]] = {}
    for entry in entries:
        if entry["command"] == "set":
            found |= {name: (entry["step"], v) for name, v in entry["after"].items()}
        elif entry["command"] == "unset":
            asked, *groups = entry["after"]
            found.pop(asked, None)
            base, value = asked.rpartition(".")[2], entry["after"][asked]
            if base in found and not _same(value, initial.get(asked)):
                found[asked] = (found[base][0], value)  # it goes with the base again
            for name in groups:
                step, _ = found.pop(name, (None, None))
                value = entry["after"][name]
                if step is not None and not _same(value, initial.get(name)):
                    found[name] = (step, value)
    return found


def _same(one: Any, other: Any) -> bool:
    """Whether two values are one number in a program."""
    try:
        return bool(one == other or np.float32(one) == np.float32(other))
    except (TypeError, ValueError):
        return False
