"""What a live run would step with if it took the newest code; refuses what cannot fit.

Making a plan compiles nothing and changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._code.references import code_info
from .._experiment.base import Experiment
from .._experiment.hooks import Hooks
from .._experiment.renewal import newest_class
from .._programs import disk
from .._programs.blueprint import Blueprint
from .._programs.key import Source
from .._programs.reason import made_causes
from ..errors import SwapError
from .live import Values
from .manual import check_manual, check_settings, manual_rates
from .rates import hyperparameters
from .recipes import Settled, settle
from .schedules import Schedules
from .settings import FIXED
from .setup import Built, blueprint, build

_FORWARD = ("forward", "build_model", "frozen")
_LOSS = ("loss", "train_metrics")
_OPTIMIZER = (
    "optimizer", "param_group", "no_decay", "decay_anchor", "clip_norm", "ema",
    "frozen", "learning_rate", "weight_decay",
)  # fmt: skip
PROGRAM_HOOKS: Mapping[str, tuple[str, ...]] = {
    "forward": _FORWARD,
    "loss": _LOSS,
    "backward": _FORWARD,
    "optimizer": _OPTIMIZER,
    "eval": ("forward", "build_model"),
    "metrics": ("metrics", "finalize_metrics"),
    "grad": (*_FORWARD, *_LOSS),
    "step": (*_FORWARD, *_LOSS, *_OPTIMIZER, "train_step", "setup_optimizers"),
}
"""The hooks that `swap("loss")` takes."""


def hooks_of(program: str) -> tuple[str, ...]:
    """The hooks that a program is made from; a method's program is its own."""
    return PROGRAM_HOOKS.get(program, (program,))


@dataclass(frozen=True)
class Plan:
    """What a run would step with after a swap.

    Attributes:
        source: The look at the code that it was made with.
        settled: How parameters are updated.
        notes: What is new in the fields, in words.
        schedules: What its values follow, once it is to be switched to.
    """

    experiment: Experiment
    hooks: Hooks
    built: Built
    blueprint: Blueprint
    values: Values
    source: Source
    settled: Settled
    notes: tuple[str, ...] = ()
    schedules: Schedules | None = None


def newest(
    now: Plan,
    live: Values,
    settings: Mapping[str, Any],
    programs: tuple[str, ...] | None = None,
    bound: Mapping[str, Callable[..., Any]] | None = None,
) -> Plan:
    """The plan that the newest class of this name gives.

    Args:
        now: What the run steps with.
        live: Its values; those that still fit stay.
        settings: Of the handle.
        programs: Take only the hooks of these programs; None takes all.
        bound: Functions bound to this run, by hook name.

    Raises:
        SwapError: The newest code does not fit the live run.
    """
    disk.refresh()
    cls = newest_experiment(type(now.experiment))
    hooks = Hooks.of(cls)
    if programs is not None:
        names = tuple({name for program in programs for name in hooks_of(program)})
        hooks, cls = now.hooks.take(hooks, names), type(now.experiment)
    hooks = hooks.bind(**(bound or {}))
    hooks.check_methods()
    experiment, notes = _carry_fields(now.experiment, cls, settings)
    _check_data(now.hooks, hooks)
    check_manual(experiment, hooks)
    check_settings(hooks, settings)
    built = now.built
    settled = settle(experiment, hooks, settings, built, now.settled)
    if hooks.manual:
        like = (now.blueprint, live)
        hyper = manual_rates(experiment, hooks, settings, built.structure, like)
    else:
        recipe = settled.recipe
        hyper = hyperparameters(
            experiment, hooks, settings, recipe.names, recipe.groups
        )
    values = Values(experiment, hyper, like=live, anchors=settled.anchors)
    source = Source(experiment, hooks, values.avals[0], settled.recipe)
    if not built.made.is_current(source):
        built = _rebuilt(experiment, hooks, settings["seed"], built)
        source = source.again()  # `build_model` has run
    made = blueprint(source, built.structure, values, now.blueprint)
    on_device = now.blueprint.device_metrics
    made = replace(made, device_metrics=on_device, made=built.made)
    return Plan(experiment, hooks, built, made, values, source, settled, tuple(notes))


def newest_experiment(cls: type[Experiment]) -> type[Experiment]:
    """The newest class of this name, found where its own hooks look names up."""
    spaces = [
        member.__globals__ for member in vars(cls).values()
        if hasattr(member, "__globals__") and member.__module__ == cls.__module__
    ]  # fmt: skip
    found = newest_class(cls, spaces)
    return found if issubclass(found, Experiment) else cls


def _carry_fields(
    old: Experiment, cls: type[Experiment], settings: Mapping[str, Any]
) -> tuple[Experiment, list[str]]:
    """The values of the live experiment in a newer class, and what is new there."""
    if cls is type(old):
        return old, []
    before, after = type(old).__fields__, cls.__fields__
    for name in before.keys() & after.keys():
        if before[name].residency is not after[name].residency:
            raise SwapError(
                f"`{name}` was {before[name].marker} and is {after[name].marker} now",
                where=f"{cls.__name__}.{name}",
                fix=f"build a new Nitro({cls.__name__}()), or keep the marker",
            )
    notes = [
        f"default of {name} is {after[name].default!r} now; the run keeps "
        f"{getattr(old, name)!r}"
        for name in before.keys() & after.keys()
        if repr(before[name].default) != repr(after[name].default)
    ]
    notes += [
        f"new field {name} = {after[name].default!r}"
        for name in after.keys() - before.keys() - FIXED
    ]
    kept = {name: settings[name] for name in FIXED & after.keys()}
    kept |= {name: getattr(old, name) for name in before.keys() & after.keys()}
    return cls(**kept), notes


def _check_data(old: Hooks, new: Hooks) -> None:
    """A live run keeps its data: its position is in it."""
    if "build_data" not in old or "build_data" not in new:
        return
    if _own_code(old["build_data"]) != _own_code(new["build_data"]):
        raise SwapError(
            "`build_data` has changed, and a live run keeps the data it began with",
            where="build_data",
            fix="build a new Nitro to train on the new data, or undo that edit",
        )


def _own_code(function: Any) -> Any:
    """The content of a function's own code; what it reads may be gigabytes."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code_info(code).codes if code is not None else None


def _rebuilt(experiment: Experiment, hooks: Hooks, seed: int, old: Built) -> Built:
    new = build(experiment, hooks, seed, abstract=True)
    if not new.structure.same_leaves(old.structure):
        before = dict(zip(old.structure.names, old.structure.param_avals, strict=True))
        after = dict(zip(new.structure.names, new.structure.param_avals, strict=True))
        differ = sorted(n for n in {*before, *after} if before.get(n) != after.get(n))
        causes = made_causes(old.made.contents, new.made.contents)
        raise SwapError(
            "the model has other parameters now"
            + (f", first at `{differ[0]}`" if differ else " or state"),
            where=next(iter(causes), "build_model"),
            fix=f"build a new Nitro({type(experiment).__name__}()),\n"
            "or keep names and shapes",
        )
    return replace(new, params=old.params, state=old.state)
