"""Groups of parameters as rows for people: how each is updated now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from .._text import plain, show
from .plan import Plan
from .rates import DECAY, RATE
from .schedules import Schedules

OWN_DECAY = "by the optimizer"


@dataclass(frozen=True)
class GroupRow:
    """One group of parameters.

    Attributes:
        name: Of the group.
        parameters: How many arrays are in it.
        numbers: How many numbers they hold.
        frozen: How many of the arrays are frozen.
        rate: Its learning rate; None if all of it is frozen.
        ratio: Of that to the base, which it moves with; None if it has its own
            schedule.
        decay: Its weight decay.
        decayed: How many of the arrays that pulls.
        anchor: Toward what: "zero", "initial", "given tree", "by the optimizer" where
            the hook uses `hp.weight_decay` itself, or "" where it pulls nothing.
        rule: What `optimizer` gives, in a word, or "".
    """

    name: str
    parameters: int
    numbers: int
    frozen: int
    rate: float | None = None
    ratio: float | None = None
    decay: float | None = None
    decayed: int = 0
    anchor: str = ""
    rule: str = ""


def group_rows(now: Plan, followed: Schedules) -> tuple[GroupRow, ...]:
    """A row for each group in the order of the parameters; none in manual mode."""
    if now.hooks.manual:
        return ()
    groups = dict.fromkeys(now.settled.recipe.groups)
    return tuple(_row(name, now, followed) for name in groups)


def group_table(rows: Sequence[GroupRow]) -> Table:
    """Draw them."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    counts = ("parameters", "frozen", "numbers")
    for name in ("group", *counts, "rate", "ratio", "decay", "toward", "rule"):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(
            plain(row.name, 20),
            plain(row.parameters, 10),
            plain(row.frozen or "", 10),
            plain(f"{row.numbers:,}", 20),
            plain(_number(row.rate), 10),
            plain(_number(row.ratio), 10),
            plain(_number(row.decay), 10),
            plain(_toward(row), 26),
            plain(row.rule, 24),
        )
    return table


def _row(name: str, now: Plan, followed: Schedules) -> GroupRow:
    recipe, names = now.settled.recipe, now.built.structure.names
    avals, mine = now.built.structure.param_avals, range(len(recipe.groups))
    mine = [index for index in mine if recipe.groups[index] == name]
    frozen = sum(recipe.frozen[index] for index in mine)
    numbers = sum(avals[index].size for index in mine)
    row = GroupRow(name, len(mine), numbers, frozen)
    if frozen == len(mine):
        return row
    values = now.values.numbers
    rule = now.blueprint.rules.get(name)
    pulled = [i for i in mine if recipe.decayed[i] and not recipe.frozen[i]]
    toward = dict.fromkeys(_anchor(names[index], index, now) for index in pulled)
    own = rule is not None and rule.decays
    return GroupRow(
        *(name, len(mine), numbers, frozen),
        rate=values.get(f"{name}.{RATE}", values[RATE]),
        ratio=_ratio(f"{name}.{RATE}", now, followed),
        decay=values.get(f"{name}.{DECAY}", values[DECAY]),
        decayed=len(mine) - frozen if own else len(pulled),
        anchor=OWN_DECAY if own else ", ".join(toward),
        rule="" if rule is None else rule.word,
    )


def _ratio(name: str, now: Plan, followed: Schedules) -> float | None:
    """What keeps a rate and the base together; nothing if either goes alone."""
    if name not in now.values.numbers:
        return 1.0
    if name in followed.names or (name in followed.curves and RATE in followed.names):
        return None
    return now.values.tied(RATE).get(name)


def _anchor(name: str, index: int, now: Plan) -> str:
    anchors = now.settled.anchors
    if name not in anchors:
        return "zero"
    return "initial" if anchors[name] is now.built.params[index] else "given tree"


def _toward(row: GroupRow) -> str:
    if row.anchor in ("", OWN_DECAY):
        return row.anchor
    return f"{row.anchor} ({row.decayed} of {row.parameters})"


def _number(value: float | None) -> str:
    return "" if value is None else show(value)
