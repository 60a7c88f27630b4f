"""Fields that are computed from the data, before the model is built.

A value that the user gave wins over one that `derive` computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._experiment.base import Experiment
from .._experiment.hooks import Hooks
from .._programs.explain import hooks_explained
from ..errors import FieldError, HookError, suggest


def derived(
    experiment: Experiment, hooks: Hooks, data: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of fields that `derive` computes and nobody gave; none without data.

    Raises:
        HookError: `derive` raised, or returned no dict.
        FieldError: It names something that is no field.
    """
    if not data or not hooks.defines("derive"):
        return {}
    with hooks_explained("derive"):
        made = hooks.call(experiment, "derive", data)
    where = f"{type(experiment).__name__}.derive"
    if not isinstance(made, Mapping):
        raise HookError(
            f"`derive` returned {type(made).__name__}, not a dict",
            where=where,
            fix='return {"classes": 10}, values by the names of fields',
        )
    fields = type(experiment).__fields__
    for name in made:
        if name not in fields:
            raise FieldError(
                f"`derive` computes `{name}`, which is no field",
                where=where,
                fix=f"{suggest(str(name), fields)}; or declare it: {name}: int = 0",
            )
    given = experiment.__dict__["_given"]
    return {name: value for name, value in made.items() if name not in given}
