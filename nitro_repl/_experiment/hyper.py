"""Hyperparameters: what the `optimizer` hook finds in `hp`.

Each is a traced input of the optimizer program, so changing one never compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import optax

from ..errors import HookError, suggest

NAMES = ("learning_rate",)
"""The hyperparameters of a run, in order."""


class Hyperparameters:
    """The argument `hp` of the `optimizer` hook: `hp.learning_rate`."""

    def __init__(self, values: Mapping[str, Any]):
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise HookError(
                f"there is no hyperparameter `hp.{name}`",
                where="optimizer",
                fix=suggest(name, self._values) + ", or a Device field by `self.name`",
            ) from None


def transformation(optimizer: Callable[[Any], Any], hp: Hyperparameters) -> Any:
    """What the `optimizer` hook returns, checked; a bare factory gets the rate.

    Raises:
        HookError: It is not an optax transformation.
    """
    made = optimizer(hp)
    if isinstance(made, optax.MultiSteps):
        made = made.gradient_transformation()
    if callable(made) and not isinstance(made, optax.GradientTransformation):
        made = made(hp.learning_rate)
    if not isinstance(made, optax.GradientTransformation):
        raise HookError(
            f"`optimizer` returned {type(made).__name__}, not an optax transformation",
            where="optimizer",
            fix="return optax.adam(hp.learning_rate), for example",
        )
    return optax.with_extra_args_support(made)
