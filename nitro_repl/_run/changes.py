"""Changes of a run's values at a step boundary: set, unset, another horizon.

Each says the values before and after, or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import RunError
from .decay import check_decay
from .schedules import schedules
from .settings import ON_NONFINITE, one_of
from .start import sticky

if TYPE_CHECKING:
    from .loop import Loop

Change = tuple[Any, Any]
"""What was, and what is now."""

_GUARD = "on_nonfinite"


def wishes(changes: object, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The names and values of one `set`, from its mapping and its keywords.

    Raises:
        RunError: There are none, or the first is no mapping.
        SettingError: `on_nonfinite` has no such mode.
    """
    if changes is not None and not isinstance(changes, Mapping):
        raise RunError(
            f"set() got {type(changes).__name__}, not names with values",
            where=where,
            fix='run.set(name=value), or run.set({"name": value})',
        )
    wanted = {**(changes or {}), **values}
    if not wanted:
        raise RunError(
            "set() needs at least one value", where=where, fix="run.set(name=value)"
        )
    if _GUARD in wanted:
        one_of(_GUARD, wanted[_GUARD], ON_NONFINITE)
    return wanted


def set_values(loop: Loop, wanted: Mapping[str, Any], *, override: bool) -> Change:
    """Change values, and what a step does that is not finite.

    Args:
        loop: At a boundary.
        wanted: New values by name, as `wishes` gives them.
        override: Take those too that follow a schedule.

    Raises:
        FieldError: A name or value is refused.
    """
    named = {name: value for name, value in wanted.items() if name != _GUARD}
    if not override:
        loop.schedules.check_set(named)
    plan, values = loop.programs.blueprint, loop.values
    before, after = values.set(named, partial(check_decay, plan, values))
    loop.schedules.hold(named)
    if _GUARD in wanted:
        before[_GUARD], after[_GUARD] = loop.on_nonfinite, wanted[_GUARD]
        loop.on_nonfinite = wanted[_GUARD]
        flag = sticky(loop.on_nonfinite, values.device)
        loop.carry = loop.carry._replace(sticky=flag)
    return before, after


def unset_value(loop: Loop, name: str) -> Change:
    """Give a value back to its schedule, or to what the experiment says.

    Raises:
        FieldError: There is no such value.
    """
    plan, values = loop.programs.blueprint, loop.values
    if loop.schedules.release(name):
        before = {name: values.plain()[name]}
        values.free(name)
        loop.schedules.apply(values, loop.step)
        return before, {name: values.plain()[name]}
    return values.unset(name, partial(check_decay, plan, values))


def reschedule(loop: Loop, horizon: int) -> Change:
    """Make the schedules anew, for another number of optimizer steps.

    Raises:
        ScheduleError: A schedule refuses it; the old ones go on.
    """
    before, plan = loop.schedules, loop.programs.blueprint
    made = schedules(plan.experiment, plan.hooks, loop.values, horizon, loop.step)
    made.begin(loop.values, after=before)
    loop.schedules = made
    return before.horizon, horizon
