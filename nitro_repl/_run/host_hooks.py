"""What a swap changes in the hooks that run on the host: no program shows it.

Compared by content, so that a cell that ran again unchanged is no change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._experiment.hooks import HOOKS, reached
from .._experiment.hyper import NAMES
from .._experiment.view import Read
from .._programs.key import Source
from .._text import show
from .plan import Plan

_AT_SET_UP = ("build_data", "build_model")


def changed(old: Plan, new: Plan, settings: Mapping[str, Any]) -> list[str]:
    """A line for each host hook that the newer plan has and the older has not."""
    before = Source(old.experiment, old.hooks, {})
    after = Source(new.experiment, new.hooks, {})
    lines: list[str] = []
    for hook in HOOKS.values():
        name = hook.name
        fixed = name in settings or name in type(new.experiment).__fields__
        compiled = hook.traced or (name == "metrics" and new.blueprint.device_metrics)
        if compiled or name in _AT_SET_UP or fixed:
            continue
        members = reached(name, old.hooks, new.hooks)
        reads = [Read("member", n) for n in members if not _same(n, old, new)]
        if all(before.digest(read) == after.digest(read) for read in reads):
            continue
        if name in NAMES:
            if new.hooks.manual:
                continue
            lines += [_of_value(one, new) for one in _of_groups(name, new)]
        elif name == "derive":
            lines.append("derive: the run keeps what it computed; a new Nitro takes it")
        elif name in new.hooks:
            lines.append(f"{name}: taken; it runs on the host")
        else:
            lines.append(f"{name}: gone")
    return lines + (_of_optimizers(old, new) if new.hooks.manual else [])


def _same(name: str, old: Plan, new: Plan) -> bool:
    """Whether a member is one and the same object; then it says the same, too."""
    return old.hooks.get(name) is new.hooks.get(name)


def _of_groups(name: str, new: Plan) -> list[str]:
    """The base value, and those of groups that the run has otherwise."""
    says, live = new.values.initial, new.values.plain()
    groups = [n for n in says if n.endswith(f".{name}") and says[n] != live[n]]
    return [name, *groups]


def _of_optimizers(old: Plan, new: Plan) -> list[str]:
    """The hyperparameters that `setup_optimizers` gives otherwise now."""
    said, says, live = old.values.initial, new.values.initial, new.values.plain()
    return [
        f"{name}: setup_optimizers gives {show(says[name])} now, the run keeps "
        f'{show(live[name])}: run.unset("{name}") goes by it'
        for name in new.values.hyper_names
        if says[name] not in (live[name], said.get(name))
    ]


def _of_value(name: str, new: Plan) -> str:
    """What a hook that gives a value says now, and what the run does with that."""
    says, live = new.values.initial[name], new.values.plain()[name]
    if says == live:
        return f"{name}: taken; it gives {show(says)}, as the run has it"
    return (
        f"{name}: taken; it gives {show(says)} now, the run keeps {show(live)}: "
        f'run.unset("{name}") goes by the hook'
    )
