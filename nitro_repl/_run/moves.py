"""Hooks that newer code says otherwise, found by their content.

A cell that ran again unchanged moves nothing. What a hook calls by a global name is as
it is now for the old hook too, so that it moves nothing either.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._code.arrays import light_look
from .._code.diff import explain
from .._code.fingerprint import Fingerprint
from .._experiment.hooks import HOOKS, Hooks, reached
from .._experiment.hyper import NAMES
from .._experiment.view import Read
from .._programs.key import Source
from .plan import Plan, hooks_of

_AT_SET_UP = ("build_model", "derive")
RECIPE = frozenset(
    ["param_group", "no_decay", "frozen", "decay_anchor", "clip_norm", "ema"]
)
"""Hooks whose answers programs show: how each parameter is updated."""


@dataclass(frozen=True)
class Move:
    """One hook that moved.

    Attributes:
        name: Of the hook.
        content: What it says now; equal for equal code.
        causes: What is different, in words.
        host: Whether it runs on the host.
    """

    name: str
    content: Hashable
    causes: tuple[str, ...]
    host: bool

    @property
    def at_set_up(self) -> bool:
        """Whether only a new `Nitro` calls it."""
        return self.name in _AT_SET_UP

    @property
    def label(self) -> str:
        """`metrics (host)`."""
        if self.at_set_up:
            return f"{self.name} (for a new Nitro)"
        return f"{self.name} (host)" if self.host else self.name


def moves(
    old: Plan, new: Plan, settings: Mapping[str, Any], programs: Collection[str] = ()
) -> list[Move]:
    """The hooks that moved and that no program shows.

    Args:
        old: What a run steps with.
        new: What the newest code gives.
        settings: Of the handle; a hook that one of them replaces counts for nothing.
        programs: Names of the compiled programs, which show the hooks they hold.
    """
    shown = {name for program in programs for name in hooks_of(program)}
    found: list[Move] = []
    with light_look():
        for name in _candidates(old.hooks, new.hooks):
            host = _is_host(name, new)
            fixed = name in settings or name in type(new.experiment).__fields__
            if fixed or (not host and name in shown):
                continue
            if move := _moved(name, old, new, host):
                found.append(move)
    return found


def _candidates(old: Hooks, new: Hooks) -> Iterator[str]:
    """Hooks that are called at all; `build_data` fits a run or does not."""
    asked = {*RECIPE, *NAMES, "optimizer", "train_metrics"}
    unused = {"build_data", *(asked if new.manual else ())}
    yield from (name for name in HOOKS if name not in unused)
    yield from dict.fromkeys((*old.programs(), *new.programs()))


def _is_host(name: str, plan: Plan) -> bool:
    if name == "metrics":
        return not plan.blueprint.device_metrics
    return name in HOOKS and not HOOKS[name].traced


def _moved(name: str, old: Plan, new: Plan, host: bool) -> Move | None:
    """Compare one hook, and the members of the class that it calls."""
    members = reached(name, old.hooks, new.hooks)
    reads = [
        Read("member", member)
        for member in members
        if old.hooks.get(member) is not new.hooks.get(member)
    ]
    before = Source(old.experiment, old.hooks, {})
    after = Source(new.experiment, new.hooks, {})
    differ = [read for read in reads if before.digest(read) != after.digest(read)]
    if not differ:
        return None
    causes: list[str] = []
    for read in differ:
        was, now = before.content(read), after.content(read)
        if isinstance(was, Fingerprint) and isinstance(now, Fingerprint):
            causes += explain(was, now)
        else:
            what = "new" if isinstance(now, Fingerprint) else "gone"
            causes.append(f"{what}: {read.name}()")
    digests = tuple(map(after.digest, differ))
    return Move(name, digests, tuple(dict.fromkeys(causes)), host)
