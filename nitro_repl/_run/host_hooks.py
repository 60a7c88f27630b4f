"""What a swap says of the hooks that it takes and that no program shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .._experiment.hyper import NAMES
from .._text import show
from .moves import moves
from .plan import Plan

_KEEPS = {
    "derive": "derive: the run keeps what it computed; a new Nitro takes it",
    "build_model": "build_model: the run keeps its parameters; a new Nitro takes it",
}


def changed(
    old: Plan, new: Plan, settings: Mapping[str, Any], programs: Collection[str]
) -> list[str]:
    """A line for each such hook that the newer plan has otherwise than the older.

    Args:
        old: What the run stepped with.
        new: What it switches to.
        settings: Of the handle.
        programs: Names of the compiled programs, whose lines say it otherwise.
    """
    lines: list[str] = []
    for move in moves(old, new, settings, programs):
        name = move.name
        if name in NAMES:
            lines += [_of_value(one, new) for one in _of_groups(name, new)]
        elif name in _KEEPS:
            lines.append(_KEEPS[name])
        elif name not in new.hooks:
            lines.append(f"{name}: gone")
        elif move.host:
            lines.append(f"{name}: taken; it runs on the host")
        else:
            lines.append(f"{name}: taken; it compiles when it is used")
    return lines + (_of_optimizers(old, new) if new.hooks.manual else [])


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
