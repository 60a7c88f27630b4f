"""Settings of a run: keyword of `Nitro`, else method or field, else default.

Every setting is checked before anything is built.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._experiment.base import Experiment
from .._experiment.hooks import Hooks
from .._text import show
from ..errors import SettingError, suggest

SETTINGS: Mapping[str, Any] = {
    "seed": int,
    "run_dir": str | None,
    "max_epochs": int | None,
    "max_steps": int | None,
    "eval_every": int | str | None,
    "log_every": int,
    "logger": object,
    "checkpointer": object,
    "learning_rate": float,
    "weight_decay": float,
    "clip_norm": float | None,
    "ema": float | None,
    "pad_eval": bool,
    "fuse": bool,
    "weights": object,
    "metrics_residency": str,
    "compile_options": dict | None,
    "accum": int,
    "accum_mode": str,
    "on_nonfinite": str | None,
}
"""Names and types of all settings."""

_LATER = ("early_stop", "n_devices", "prefetch", "resume", "save_every", "snapshots")
"""Settings that are not there yet."""

DEFAULT_LOGGER = "json lines"

_DEFAULTS: Mapping[str, Any] = {
    "seed": 0,
    "run_dir": "runs",
    "max_epochs": None,
    "max_steps": None,
    "eval_every": "1 epoch",
    "log_every": 1,
    "logger": DEFAULT_LOGGER,
    "checkpointer": None,
    "pad_eval": True,
    "fuse": False,
    "metrics_residency": "host",
    "compile_options": None,
    "accum": 1,
    "accum_mode": "mean",
    "on_nonfinite": None,
}
FIXED = frozenset(_DEFAULTS)
"""Settings that a built handle keeps, whatever newer code says."""
ACCUM_MODES = ("mean", "joint")
ON_NONFINITE = ("pause", "stop", "skip")
_EVERY = re.compile(r"(\d+)\s*(epoch|step)s?$")


@dataclass(frozen=True)
class Every:
    """A period in epochs or steps."""

    number: int
    unit: str

    def due(self, step: int, epoch: int, epoch_ended: bool) -> bool:
        """Whether it is time, after `step` steps and `epoch` whole epochs."""
        if self.unit == "step":
            return step % self.number == 0
        return epoch_ended and epoch % self.number == 0


def resolve(
    experiment: Experiment, hooks: Hooks, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The value of every setting.

    Args:
        experiment: Its fields and methods may give settings.
        hooks: Its methods, as pinned.
        given: Keywords of `Nitro`.

    Raises:
        SettingError: A name is unknown, or a value out of range.
    """
    for name in given:
        if name in _LATER:
            raise SettingError(
                f"the setting `{name}` is not part of this version",
                where=f"Nitro({type(experiment).__name__}(), {name}=...)",
                fix=f"leave `{name}` out",
            )
        if name not in SETTINGS:
            raise SettingError(
                f"`{name}` is no setting of Nitro",
                where=f"Nitro({type(experiment).__name__}(), {name}=...)",
                fix=suggest(name, SETTINGS),
            )
    values = {
        name: _own(experiment, hooks, name, default)
        for name, default in _DEFAULTS.items()
    }
    values |= given
    values = {name: _plain(value) for name, value in values.items()}
    _check(values)
    return values


def with_derived(
    settings: Mapping[str, Any], given: Mapping[str, Any], made: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings with those that `derive` computed and no keyword gave.

    Raises:
        SettingError: One is out of range.
    """
    taken = {n: v for n, v in made.items() if n in SETTINGS and n not in given}
    values = {name: _plain(value) for name, value in {**settings, **taken}.items()}
    _check(values)
    return values


def every(value: Any) -> Every | None:
    """Read a period: "1 epoch", "100 steps", a number of steps, or None for never.

    Raises:
        SettingError: It is none of these.
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return Every(value, "step")
    match = _EVERY.match(str(value).strip())
    if match is None or int(match[1]) < 1:
        raise SettingError(
            f"eval_every={value!r} is no period",
            where="setting eval_every",
            fix='"1 epoch", "500 steps", a number of steps, or None',
        )
    return Every(int(match[1]), match[2])


def newly_said(
    old: tuple[Experiment, Hooks],
    new: tuple[Experiment, Hooks],
    settings: Mapping[str, Any],
    given: Mapping[str, Any],
) -> list[str]:
    """A line that names the settings which newer code gives otherwise than a handle.

    Args:
        old: An experiment and its hooks as a run has them.
        new: Those that it switches to; fields of both are told elsewhere.
        settings: Of the handle, which keeps them.
        given: Keywords of the handle, which win over any code.
    """
    found: dict[str, Any] = {}
    for name in _DEFAULTS:
        if name in given:
            continue
        said, says = _says(*old, name), _says(*new, name)
        both = all(name in type(one).__fields__ for one, _ in (old, new))
        if not both and says not in (None, said, settings[name]):
            found[name] = says
    if not found:
        return []
    says = ", ".join(f"{name} = {show(value)}" for name, value in found.items())
    keeps = ", ".join(show(settings[name]) for name in found)
    return [f"only a new Nitro takes {says}; the run keeps {keeps}"]


def _says(experiment: Experiment, hooks: Hooks, name: str) -> Any:
    """What the code gives for a setting, a new field by its default; else None."""
    declared = type(experiment).__fields__.get(name)
    if name == "logger" and callable(hooks.get(name)):
        return None  # it would make another one
    try:
        if declared is None:
            return _own(experiment, hooks, name, _DEFAULTS[name])
        made = declared.default_factory
        return declared.default if made is None else made()
    except Exception:  # the user's method; a new `Nitro` says so
        return None


def _own(experiment: Experiment, hooks: Hooks, name: str, default: Any) -> Any:
    if name in type(experiment).__fields__:
        return getattr(experiment, name)
    if name not in hooks:
        return default
    member = hooks.bound(experiment, name)
    return member() if callable(member) else member


def _plain(value: Any) -> Any:
    """A number of numpy as Python's: people compute seeds and steps with it."""
    return value.item() if isinstance(value, np.generic) else value


def _check(values: Mapping[str, Any]) -> None:
    for name in ("max_epochs", "max_steps"):
        _whole(name, values[name], least=0, optional=True)
    _whole("log_every", values["log_every"], least=1)
    _whole("seed", values["seed"], least=0)
    _whole("accum", values["accum"], least=1)
    one_of("accum_mode", values["accum_mode"], ACCUM_MODES)
    if values["on_nonfinite"] is not None:
        one_of("on_nonfinite", values["on_nonfinite"], ON_NONFINITE)
    every(values["eval_every"])
    for name in ("pad_eval", "fuse"):
        if not isinstance(values[name], bool):
            raise SettingError(
                f"{name}={values[name]!r} is neither True nor False",
                where=f"setting {name}",
                fix=f"{name}={_DEFAULTS[name]}",
            )
    if values["metrics_residency"] not in ("host", "device"):
        raise SettingError(
            f"metrics_residency={values['metrics_residency']!r} is no residency",
            where="setting metrics_residency",
            fix='"host" (numpy arrays), or "device" (compiled, jax arrays)',
        )
    if values["checkpointer"] is not None:
        raise SettingError(
            "checkpoints are not part of this version",
            where="setting checkpointer",
            fix="checkpointer=None",
        )
    if not isinstance(values["run_dir"], str | os.PathLike | None):
        raise SettingError(
            f"run_dir={values['run_dir']!r} is no path",
            where="setting run_dir",
            fix='run_dir="runs", or None for no files',
        )
    logger = values["logger"]
    verbs = ("log_metrics", "log_params", "log_text", "finish")
    lacking = [verb for verb in verbs if not callable(getattr(logger, verb, None))]
    if logger is not None and logger != DEFAULT_LOGGER and lacking:
        raise SettingError(
            f"the logger {type(logger).__name__} lacks {', '.join(lacking)}",
            where="setting logger",
            fix="give an object with " + ", ".join(verbs) + ", or None for no logging",
        )


def one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuse a word that is none of those known.

    Raises:
        SettingError: The known ones are listed.
    """
    if value not in known:
        raise SettingError(
            f"{name}={value!r} is none of {', '.join(map(repr, known))}",
            where=f"setting {name}",
            fix=f"{name}={known[0]!r}",
        )


def _whole(name: str, value: Any, *, least: int, optional: bool = False) -> None:
    if value is None and optional:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingError(
            f"{name}={value!r} is not a whole number of at least {least}",
            where=f"setting {name}",
            fix=f"{name}={max(least, 1)}" + (" or None" if optional else ""),
        )
