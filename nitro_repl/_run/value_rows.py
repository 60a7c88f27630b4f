"""The live values of a run as rows for people: what each is now and at the next step.

Cheap enough for ten looks a second: a number is read from the device when it is new, an
array only for who asks for it.
"""

from __future__ import annotations

from .live import Values
from .schedules import Schedules
from .status import ValueRow


def value_rows(
    values: Values, followed: Schedules, step: int, *, arrays: bool = False
) -> list[ValueRow]:
    """A row for each Device field and hyperparameter.

    Args:
        values: The values of a run.
        followed: Its schedules.
        step: Optimizer steps done.
        arrays: Read arrays too; else their value is their shape and dtype.
    """
    every = values.plain() if arrays else {name: None for name in values.names}
    return [_row(name, now, values, followed, step) for name, now in every.items()]


def _row(
    name: str, read: object, values: Values, followed: Schedules, step: int
) -> ValueRow:
    scalar, declared = values.scalar(name), values.declared(name)
    if scalar is None:
        shown = values.struct(name) if read is None else read
        return ValueRow(name, shown, kind="array", doc=declared.doc)
    now, first = values.number(name), values.initial.get(name)
    said = followed.said(name)
    return ValueRow(
        name,
        now,
        first,
        bool(now != first) and (bool(said) or not values.follows(name)),
        said,
        following=followed.ahead(name, step, now),
        kind=scalar.word,
        bounds=declared.bounds,
        log=declared.log,
        doc=declared.doc,
        hyper=name in values.hyper_names,
    )
