"""Learning rates and weight decay of the groups: numbers of their own, tied to a base.

A group's learning rate keeps its ratio to the base; its decay is the base's until it
gets one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
            self._tie(name, value, hyper[base])

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
        rates = self._with(self._ratios)
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
        return {n: v for n, v in more.items() if n not in changes}, rates

    def keeping(self, other: Rates) -> Rates:
        """These, with the ratios that another has for the same groups."""
        known = {n: r for n, r in other._ratios.items() if n in self._ratios}
        return self._with({**self._ratios, **known})

    def _tie(self, name: str, value: float, base: float) -> None:
        """Keep a rate as a ratio; a decay goes with the base while it is the same."""
        self._ratios.pop(name, None)
        if name.endswith(f".{RATE}"):
            self._ratios[name] = value / base if base else 1.0
        elif value == base:
            self._ratios[name] = 1.0

    @staticmethod
    def _with(ratios: Mapping[str, float]) -> Rates:
        made = Rates({})
        made._ratios = dict(ratios)
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
) -> dict[str, float]:
    """First values of the hyperparameters: keyword, else field, else hook.

    Args:
        experiment: Its fields may give some.
        hooks: Give the hooks.
        settings: Keywords of `Nitro`.
        groups: Of the parameters that are trained.

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
            if group not in groups and group != DEFAULT_GROUP:
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
        return float(value)
    except (TypeError, ValueError):
        raise SettingError(
            f"`{name}` is {value!r}, not a number",
            where=where,
            fix=f"return a number, for example {name} = {_DEFAULTS[name] or 0.01}",
        ) from None
