"""What the newest code means for a live run: what moved, and whether it fits.

A look only: nothing is traced, nothing compiled, nothing of the run changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._experiment.hooks import HOOKS, Hooks
from .._programs.key import Source
from .._programs.program_set import ProgramSet
from .._programs.standing import Standing, stale_names
from .._text import said, tell
from ..errors import NitroError
from .live import Values
from .moves import RECIPE, Move, moves
from .plan import Plan, newest, newest_experiment
from .requests import Bound
from .setup import build

_OF_PARAMETERS = ("optimizer", "step", "grad")


@dataclass(frozen=True)
class Outlook:
    """What the newest code means for a run.

    Attributes:
        standings: Each program beside what the newest code would make of it.
        moves: Hooks that moved and that none of these shows.
        refusal: Why the newest code does not fit, else ''.
        shapes: The newest model's parameters, if that does not fit.
        alone: Programs whose hooks moved and fit, if those of no other are taken.
    """

    standings: tuple[Standing, ...]
    moves: tuple[Move, ...] = ()
    refusal: str = ""
    shapes: Hashable = None
    alone: tuple[str, ...] = ()

    @property
    def stale(self) -> tuple[str, ...]:
        """Names of programs that the newest code would make anew."""
        return stale_names(self.standings)

    @property
    def labels(self) -> tuple[str, ...]:
        """The hooks that moved: `metrics (host)`."""
        return tuple(move.label for move in self.moves)


class Reminder:
    """Says that the code of a handle has moved on: once for each newer code."""

    def __init__(self) -> None:
        self._told: tuple[str, ...] = ()

    def say(self, found: Outlook) -> None:
        """Name what is newer, if that is news."""
        newer = (*found.stale, *found.labels)
        before, self._told = self._told, newer
        if newer and newer != before:
            takes = "a" if found.refusal else "run.swap() or a"
            tell(
                f"nitro: the code of {', '.join(newer)} has moved on since this handle "
                f"was built; {takes} new Nitro takes it"
            )


def outlook(
    now: Plan,
    live: Values,
    settings: Mapping[str, Any],
    programs: ProgramSet,
    bound: Bound,
    *,
    begins: bool = False,
) -> Outlook:
    """Look at the newest code.

    Args:
        now: What the run steps with.
        live: Its values.
        settings: Of the handle.
        programs: Its programs.
        bound: Functions bound to the run, by hook name.
        begins: Whether its first programs are being made: of them an edit of what a
            hook calls is taken in, so that only the hooks themselves count.
    """

    def take(names: tuple[str, ...] | None) -> Plan:
        return newest(now, live, settings, names, bound)

    compiled = () if begins else {program.name for program in programs.programs}
    try:
        plan = take(None)
    except Exception as error:  # of the user's code too, run to set values up
        text = str(error) if isinstance(error, NitroError) else ""
        refusal = text or said(error)
        return _misfit(now, settings, programs, bound, take, refusal)
    standings = () if begins else tuple(programs.standings(plan.blueprint))
    return Outlook(standings, _unshown(moves(now, plan, settings, compiled), standings))


def _unshown(found: list[Move], standings: tuple[Standing, ...]) -> tuple[Move, ...]:
    """Without the hooks whose answers a stale program shows."""
    shown = RECIPE if stale_names(standings) else frozenset()
    if any(s.model is not None and not s.current for s in standings):
        shown |= {"build_model"}
    return tuple(move for move in found if move.name not in shown)


def _misfit(
    now: Plan,
    settings: Mapping[str, Any],
    programs: ProgramSet,
    bound: Bound,
    take: Callable[[tuple[str, ...]], Plan],
    refusal: str,
) -> Outlook:
    """What of code that does not fit is newer, as far as that can be told."""
    hooks = Hooks.of(newest_experiment(type(now.experiment)))
    known = {name: bound[name] for name in bound if name in hooks or name in HOOKS}
    hooks = hooks.bind(**known)
    blueprint = replace(now.blueprint, hooks=hooks)
    standings = tuple(programs.standings(blueprint))
    alone = _fitting(take, stale_names(standings))
    shapes = _other_shapes(now, hooks, settings)
    if shapes is not None:
        standings = tuple(
            replace(one, current=False) if _of_the_model(one) else one
            for one in standings
        )
    plan = replace(now, hooks=hooks, blueprint=blueprint)
    compiled = {program.name for program in programs.programs}
    found = [m for m in moves(now, plan, settings, compiled) if m.name != "build_model"]
    return Outlook(standings, _unshown(found, standings), refusal, shapes, alone)


def _other_shapes(now: Plan, hooks: Hooks, settings: Mapping[str, Any]) -> Hashable:
    """The parameters of the newest model where they are others, else None."""
    if now.built.made.is_current(Source(now.experiment, hooks, {})):
        return None
    try:
        made = build(now.experiment, hooks, settings["seed"], abstract=True).structure
    except Exception as error:  # of the user's code, in the middle of an edit
        return said(error)
    if made.same_leaves(now.built.structure):
        return None
    return tuple(zip(made.names, map(str, made.param_avals), strict=True))


def _of_the_model(one: Standing) -> bool:
    return one.program.model is not None or one.program.name in _OF_PARAMETERS


def _fitting(
    take: Callable[[tuple[str, ...]], Plan], names: tuple[str, ...]
) -> tuple[str, ...]:
    """As many of these programs as a swap can take, from the first on."""
    found: tuple[str, ...] = ()
    for name in names:
        with contextlib.suppress(Exception):  # of the user's code too
            take((*found, name))
            found = (*found, name)
    return found
