"""Learning rates and weight decay of the groups: numbers of their own, tied to a base.

A group's learning rate keeps its ratio to the base; its decay is the base's until it
gets one of its own. What was set of a group holds until it is given back: then the
group goes with the base again as at set-up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isfinite, nan
from typing import Any

from .._experiment.base import Experiment
from .._experiment.hooks import Hooks
from .._experiment.hyper import NAMES
from .._programs.recipe import DEFAULT_GROUP
from ..errors import FieldError, SettingError, suggest

RATE, DECAY = NAMES
_DEFAULTS = {RATE: 1e-3, DECAY: 0.0}


class Rates:
    """The values of groups that go with those of the base, and at what ratio.

    Args:
        hyper: The hyperparameters by name, those of groups as `head.learning_rate`.

    Raises:
        SettingError: The base rate is 0 and a group's is not.
    """

    def __init__(self, hyper: Mapping[str, float]):
        self._ratios: dict[str, float] = {}
        self._set: dict[str, float] = {}  # of groups, as set by hand
        groups: list[str] = []
        for name, value in hyper.items():
            _, dot, base = name.rpartition(".")
            if not dot or base not in hyper:  # an optimizer of manual mode
                continue
            if base == RATE and not hyper[RATE] and value:
                raise SettingError(
                    f"{name} is {value:g} and the base learning_rate 0: rates of "
                    "groups are kept as ratios to the base",
                    where=RATE,
                    fix="give the base a rate above 0, and freeze what is not to move",
                )
            groups.append(name)
            self._tie(name, value, hyper[base])
        self._first = {name: self._ratios.get(name) for name in groups}

    def follows(self, name: str) -> bool:
        """Whether the value of a group goes with the base as at set-up."""
        first = self._first.get(name)
        return first is not None and (
            name not in self._set and self._ratios.get(name) == first
        )

    def tied(self, base: str) -> dict[str, float]:
        """The values that go with a base value, with their ratios to it."""
        return {n: r for n, r in self._ratios.items() if n.endswith(f".{base}")}

    def after(
        self, changes: Mapping[str, float], now: Mapping[str, float]
    ) -> tuple[dict[str, float], Rates]:
        """What follows from a change of hyperparameters.

        Args:
            changes: The new values by name.
            now: The values before.

        Returns:
            More new values, and the ratios from then on.

        Raises:
            FieldError: A group gets a rate while the base is 0.
        """
        more: dict[str, float] = {}
        rates = self._with(self._ratios, self._set)
        for base in NAMES:
            if base not in now:
                continue
            if base in changes:
                more |= {n: r * changes[base] for n, r in self.tied(base).items()}
            value = changes.get(base, now.get(base, 0.0))
            for name in changes:
                if name.endswith(f".{base}"):
                    if base == RATE and not value:
                        raise _no_ratio(name)
                    rates._tie(name, changes[name], value)
                    rates._set[name] = changes[name]
        return {n: v for n, v in more.items() if n not in changes}, rates

    def without(
        self, name: str, now: Mapping[str, float], initial: Mapping[str, float]
    ) -> tuple[dict[str, float], Rates]:
        """What follows when a value is given back.

        A group goes with the base of now as at set-up. With a base go the groups
        that were not set; those that were have again what they were set to.

        Args:
            name: Of the value.
            now: The values before.
            initial: Those of set-up.

        Returns:
            The new values, the one given back first, and the ratios from then on.
        """
        ratio, value = self._first.get(name), initial[name]
        if ratio is not None:
            value = ratio * now[name.rpartition(".")[2]]
        changes, rates = {name: value}, self.freed(name)
        for group in self._first:
            if not group.endswith(f".{name}"):
                continue
            if group in self._set and (value or name != RATE):
                changes[group] = self._set[group]
                rates._tie(group, changes[group], value)
            elif self.follows(group):
                changes[group] = initial[group]
            elif group in self._ratios:
                changes[group] = self._ratios[group] * value
        return changes, rates

    def freed(self, name: str) -> Rates:
        """These, with a group at its ratio of set-up, as if it was never set."""
        rates = self._with(self._ratios, self._set)
        rates._set.pop(name, None)
        rates._ratios.pop(name, None)
        first = self._first.get(name)
        if first is not None:
            rates._ratios[name] = first
        return rates

    def keeping(self, other: Rates) -> Rates:
        """These, with the ratios that another has for the same groups."""
        ratios = {
            name: (other if name in other._first else self)._ratios.get(name)
            for name in self._first
        }
        known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
        return self._with(
            known, {n: v for n, v in other._set.items() if n in self._first}
        )

    def _tie(self, name: str, value: float, base: float) -> None:
        """Keep a rate as a ratio; a decay goes with the base while it is the same."""
        self._ratios.pop(name, None)
        if name.endswith(f".{RATE}"):
            self._ratios[name] = value / base if base else 1.0
        elif value == base:
            self._ratios[name] = 1.0

    def _with(self, ratios: Mapping[str, float], given: Mapping[str, float]) -> Rates:
        made = Rates({})
        made._first = self._first
        made._ratios, made._set = dict(ratios), dict(given)
        return made


def _no_ratio(name: str) -> FieldError:
    return FieldError(
        f"`{name}` cannot be set while learning_rate is 0: it is kept as a ratio to "
        "that",
        where=f"set {name}",
        fix=f"set(learning_rate=1e-3), and {name} with it",
    )


def hyperparameters(
    experiment: Experiment,
    hooks: Hooks,
    settings: Mapping[str, Any],
    groups: Sequence[str] = (DEFAULT_GROUP,),
    known: Collection[str] = (),
) -> dict[str, float]:
    """First values of the hyperparameters: keyword, else field, else hook.

    Args:
        experiment: Its fields may give some.
        hooks: Give the hooks.
        settings: Keywords of `Nitro`.
        groups: Of the parameters that are trained.
        known: Groups of all: a number for one that is frozen waits until it is not.

    Returns:
        Numbers by name: the base, and `head.learning_rate` for other groups than
        "default". The base is what "default" has, or the first group if all have
        their own.

    Raises:
        SettingError: One is not a number, or a group is unknown.
    """
    values: dict[str, float] = {}
    for name in NAMES:
        if name in settings:
            said = settings[name]
        elif name in type(experiment).__fields__:
            said = getattr(experiment, name)
        else:
            member = hooks.bound(experiment, name)
            said = member() if callable(member) else member
        where = f"{type(experiment).__name__}.{name}"
        given = dict(said) if isinstance(said, Mapping) else {DEFAULT_GROUP: said}
        for group in given:
            if group not in (*groups, *known, DEFAULT_GROUP):
                raise SettingError(
                    f"`{name}` names the group `{group}`, which no parameter is in",
                    where=where,
                    fix=f"{suggest(str(group), groups)}; `param_group` says which",
                )
        numbers = {group: _number(name, v, where) for group, v in given.items()}
        values[name] = base = _base(name, numbers, groups)
        values |= {
            f"{group}.{name}": numbers.get(group, base)
            for group in groups
            if group != DEFAULT_GROUP
        }
    return values


def _base(name: str, numbers: Mapping[str, float], groups: Sequence[str]) -> float:
    if DEFAULT_GROUP in numbers:
        return numbers[DEFAULT_GROUP]
    if numbers and all(group in numbers for group in groups):
        return next(iter(numbers.values()))
    return _DEFAULTS[name]


def _number(name: str, value: Any, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = nan
    if isfinite(number):
        return number
    raise SettingError(
        f"`{name}` is {value!r}, not a finite number",
        where=where,
        fix=f"return a number, for example {name} = {_DEFAULTS[name] or 0.01}",
    )
