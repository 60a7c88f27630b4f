"""Which parameters to compute with: those being trained, or their average over steps.

The average is the default where there is one; parameters outside it are the live ones.
"""

from __future__ import annotations

from typing import Any

import jax

from .._programs.blueprint import Blueprint
from .._programs.step import Carry
from ..errors import SettingError, suggest

LIVE, EMA = "live", "ema"


def check_choice(plan: Blueprint, params: str | None) -> str:
    """The choice, or the default.

    Args:
        plan: Says whether there is an average.
        params: "live", "ema", or None for the default.

    Raises:
        SettingError: It is neither, or there is no average.
    """
    on = plan.recipe.ema is not None
    if params is None:
        return EMA if on else LIVE
    if params not in (LIVE, EMA):
        raise SettingError(
            f"params={params!r} names no parameters",
            where="params",
            fix=suggest(str(params), (LIVE, EMA)),
        )
    if params == EMA and not on:
        raise SettingError(
            'params="ema", and this run keeps no average',
            where="params",
            fix='params="live"; Nitro(..., ema=0.999) keeps one',
        )
    return params


def chosen(plan: Blueprint, carry: Carry, params: str | None = None) -> tuple[Any, ...]:
    """The parameter leaves of a choice.

    Raises:
        SettingError: It is none.
    """
    if check_choice(plan, params) == LIVE:
        return carry.params
    average = jax.tree.unflatten(plan.opt, carry.opt).ema
    named = zip(plan.structure.names, carry.params, strict=True)
    return tuple(
        average[name].astype(live.dtype) if name in average else live
        for name, live in named
    )
