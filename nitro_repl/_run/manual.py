"""Manual mode at set-up: what it refuses, and the first values of its hyperparameters.

Nothing of the automatic step is silently without effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._experiment.base import Experiment
from .._experiment.hooks import Hooks
from .._experiment.hyper import NAMES, injection
from .._programs.blueprint import Blueprint
from .._programs.explain import hooks_explained
from .._programs.key import Source
from .._programs.manual import rates
from .._programs.model import Structure
from ..errors import HookError, SettingError, suggest
from .live import Values

_OFF: Mapping[str, Any] = {"accum": 1, "clip_norm": None, "ema": None}
"""Settings of the automatic step, with the values that ask for nothing."""

_AUTOMATIC = ("param_group", "frozen", "no_decay", "decay_anchor")


def check_manual(experiment: Experiment, hooks: Hooks) -> None:
    """Refuse half of manual mode.

    Raises:
        HookError: One of `train_step` and `setup_optimizers` is missing.
    """
    pair = ("train_step", "setup_optimizers")
    lacking = [name for name in pair if not hooks.defines(name)]
    if len(lacking) == 1:
        [there] = set(pair) - set(lacking)
        raise HookError(
            f"`{there}` is defined, `{lacking[0]}` is not: manual mode needs both",
            where=type(experiment).__name__,
            fix="def setup_optimizers(self, model): return nnx.Optimizer(...)\n"
            "def train_step(self, model, optimizers, *, ...): return {'loss': ...}",
        )
    for name in _AUTOMATIC if not lacking else ():
        if hooks.get(name) is not getattr(Experiment, name):
            raise HookError(
                f"`{name}` has no effect in manual mode: `train_step` owns the step",
                where=f"{type(experiment).__name__}.{name}",
                fix="choose in setup_optimizers what each optimizer updates",
            )


def check_settings(hooks: Hooks, settings: Mapping[str, Any]) -> None:
    """Refuse settings that a step of the user's own cannot follow.

    Raises:
        SettingError: One is on.
    """
    for name, off in _OFF.items() if hooks.manual else ():
        if settings.get(name, off) not in (off, None) or name in hooks:
            raise SettingError(
                f"manual mode has no `{name}`: `train_step` owns the step",
                where=f"setting {name}",
                fix=f"do it in train_step, and leave `{name}` out",
            )


def manual_rates(
    experiment: Experiment,
    hooks: Hooks,
    settings: Mapping[str, Any],
    structure: Structure,
    like: tuple[Blueprint, Values] | None = None,
) -> dict[str, float]:
    """First values of the hyperparameters of `setup_optimizers`, by name.

    Args:
        experiment: Its fields.
        hooks: Its hooks.
        settings: As resolved; a rate given as a keyword wins.
        structure: Of the model.
        like: What a run steps with; if `setup_optimizers` says the same, so do they.

    Raises:
        SettingError: A rate is given by keyword that no optimizer has.
        HookError: `setup_optimizers` failed.
    """
    fields = Values(experiment, {}, like=like[1] if like else None).avals[0]
    if like is not None and like[0].hooks.manual:
        before, values = like
        if before.opt_made.is_current(Source(experiment, hooks, fields)):
            return {name: values.initial[name] for name in values.hyper_names}
    with hooks_explained("setup_optimizers"):
        found = rates(experiment, hooks, structure, fields)
    for name in NAMES:
        if name in settings:
            if name not in found:
                raise SettingError(
                    f"{name}={settings[name]!r}: no optimizer of `setup_optimizers` "
                    f"has `{name}` as a hyperparameter",
                    where=f"setting {name}",
                    fix=injection(name, found) or suggest(name, found),
                )
            found[name] = float(settings[name])
    return found
