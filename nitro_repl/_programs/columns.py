"""The columns that the row of every step has: no metric may take the name of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._experiment.hyper import ANCHORS
from .._experiment.routing import Route
from ..errors import HookError
from .blueprint import Blueprint

_EVERY_STEP = ("step", "epoch", "split", "loss", "grad_norm")


def check_names(names: Iterable[Any], plan: Blueprint, wanted: Route) -> None:
    """Refuse a train metric of the name of a column, which one of both would lose.

    Args:
        names: Of the train metrics.
        plan: Its hyperparameters and Device numbers are columns, too.
        wanted: The hook that reports them.

    Raises:
        HookError: The first such name.
    """
    columns = set(_EVERY_STEP)
    if plan.hooks.manual:
        columns.remove("grad_norm")  # a norm of the user's own goes first
    values = {name for name, tree in plan.fields.items() if _is_number(tree)}
    values |= plan.hyper.keys() - {ANCHORS}
    for name in names:
        if name in columns:
            what = "a column that each step has"
        elif name in values:
            what = "a value that the history has beside it"
        else:
            continue
        raise HookError(
            f"the train metric `{name}` has the name of {what}",
            where=f"{wanted.hook}, {wanted.place}",
            fix=f"name it otherwise, for example `{name}_metric`",
        )


def check_twice(first: Iterable[Any], more: Iterable[Any], wanted: Route) -> None:
    """Refuse a name that `loss` and `train_metrics` both report.

    Raises:
        HookError: The first such name.
    """
    known = set(first)
    for name in more:
        if name in known:
            raise HookError(
                f"`loss` and `train_metrics` both report `{name}`",
                where=f"{wanted.hook}, {wanted.place}",
                fix="leave one of them out, or name it otherwise",
            )


def _is_number(tree: Any) -> bool:
    return getattr(tree, "shape", None) == ()
