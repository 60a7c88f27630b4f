"""The names in what `schedules` returns: which value each of them means.

A bare name means the one value of that name; where there are two, or none, the error
shows the qualified forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .._experiment.base import Experiment
from .._experiment.fields import Residency
from .._experiment.hyper import injection
from ..errors import ScheduleError, suggest
from .live import Values

_SPACES = ("device", "optimizer")


def resolved(given: Any, cls: type[Experiment], values: Values) -> dict[str, Any]:
    """Factories by the name of the value that each schedules."""
    if not isinstance(given, Mapping):
        raise ScheduleError(
            f"`schedules` returned {type(given).__name__}, not a dict",
            where="schedules",
            fix='return {"learning_rate": lambda total: schedule}',
        )
    found: dict[str, Any] = {}
    for space, name, factory in _walk(given):
        target = _target(space, name, cls, values)
        if target in found:
            raise ScheduleError(
                f"`{target}` has two schedules",
                where="schedules",
                fix=f"keep one: {_qualified(space or 'optimizer', name)}",
            )
        found[target] = factory
    return found


def _walk(given: Mapping[Any, Any]) -> Iterator[tuple[str, str, Any]]:
    """Space (empty for a bare name), dotted name, factory."""
    for name, value in given.items():
        space = name if name in _SPACES and isinstance(value, Mapping) else ""
        inner = value if space else {name: value}
        for path, factory in _flat(inner, ()):
            yield space, ".".join(path), factory


def _flat(
    node: Mapping[Any, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in node.items():
        here = (*path, str(name))
        if isinstance(value, Mapping):
            yield from _flat(value, here)
        else:
            yield here, value


def _target(space: str, name: str, cls: type[Experiment], values: Values) -> str:
    device = {n for n in values.device_names if values.scalar(n) is not None}
    optimizer = set(values.hyper_names)
    known = {"": device | optimizer, "device": device, "optimizer": optimizer}[space]
    if not space and name in device and name in optimizer:
        raise ScheduleError(
            f"`{name}` is a Device field and a hyperparameter",
            where="schedules",
            fix=f"say which: {_qualified('device', name)}\n"
            f"or {_qualified('optimizer', name)}",
        )
    if name in known:
        return name
    field = cls.__fields__.get(name)
    if field is not None and space != "optimizer":
        why = {
            Residency.GRAPH_CONST: "a GraphConst, baked into the programs",
            Residency.HOST: "a Host field, which programs never read",
            Residency.DEVICE: "no single number",
        }[field.residency]
        raise ScheduleError(
            f"`{name}` is {why}; it cannot be scheduled",
            where=f"schedules, {cls.__name__}.{name}",
            fix="schedule a Device[float], Device[int] or Device[bool] field,\n"
            "and compute with it in the hook",
        )
    if fix := injection(name, values.hyper_names):
        raise ScheduleError(
            f"no optimizer of `setup_optimizers` has a live `{name}` to schedule",
            where=f"schedules, {cls.__name__}",
            fix=fix,
        )
    forms = [_qualified("device", n) for n in sorted(device - optimizer)]
    forms += [_qualified("optimizer", n) for n in sorted(optimizer)]
    raise ScheduleError(
        f"there is no value `{name}` to schedule" + (f" in `{space}`" if space else ""),
        where=f"schedules, {cls.__name__}",
        fix=f"{suggest(name, known)}\nin full: {', '.join(forms[:4])}",
    )


def _qualified(space: str, name: str) -> str:
    inner = "..."
    for part in reversed(name.split(".")):
        inner = f'{{"{part}": {inner}}}'
    return f'{{"{space}": {inner}}}'
