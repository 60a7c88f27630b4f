"""One side of a comparison: all that a run is and did, at one moment.

Plain values, but for programs, whose content is only compared; a live run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._code.texts import text_of
from .._programs.spec import Program
from .curves import Curves, losses_first
from .schedules import SCHEDULED
from .status import Progress
from .story import CHANGES, change
from .strokes import Curve

if TYPE_CHECKING:
    from .readings import Readings


@dataclass(frozen=True)
class Side:
    """What is compared of a run.

    Attributes:
        run: Its id, or another name.
        experiment: Class name.
        progress: How far it is.
        fields: Values of the fields, live ones as they are now.
        settings: Settings and hyperparameters, likewise.
        hooks: Source of each function of the experiment, by name.
        programs: By name and form.
        curves: Steps and values by label, losses first.
        last: Last value of each curve.
        rows: The columns of the train split.
        changes: What was done to it, in words, oldest first.
    """

    run: str
    experiment: str
    progress: Progress
    fields: Mapping[str, Any]
    settings: Mapping[str, Any]
    hooks: Mapping[str, str]
    programs: Mapping[tuple[str, str], Program]
    curves: Mapping[str, Curve]
    last: Mapping[str, float]
    rows: Mapping[str, np.ndarray]
    changes: Sequence[str] = ()


def side(run: Readings) -> Side:
    """Take down a run as it is now."""
    curves = Curves(run.record.history)
    curves.read()
    blueprint, programs = run.programs.blueprint, run.programs.programs
    experiment, now = blueprint.experiment, run.in_force()
    live = {
        row.name: row.follows if row.follows == SCHEDULED else row.value
        for row in run.values(arrays=True)
    }
    names = [row.name for row in now.fields]
    settings = {row.name: row.value for row in now.settings}
    settings |= {name: live[name] for name in live if name not in names}
    last = curves.last()
    return Side(
        run.id,
        type(experiment).__name__,
        run.progress(),
        {name: live.get(name, getattr(experiment, name)) for name in names},
        settings,
        {name: text_of(made) for name, made in blueprint.hooks.functions.items()},
        {(program.name, program.form): program for program in programs},
        curves.labelled(),
        {name: last[name] for name in losses_first(last)},
        dict(run.history()),
        changes_of(run),
    )


def changes_of(run: Readings) -> list[str]:
    """What was done to a run, in words, with the step."""
    return [
        f"step {one['step']:,}  {change(one)}"
        for one in run.record.journal.entries
        if one["command"] in CHANGES
    ]
