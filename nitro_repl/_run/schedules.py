"""The scheduled values of a run: which they are, and what each is at a step.

The number that a step computes with is the number in its row of the history. A value
that was set by hand stays as set until it is given back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .._experiment.base import Experiment
from .._experiment.hooks import Hooks, reached
from .._experiment.view import Read
from .._programs.explain import hooks_explained
from .._programs.key import Snapshot, Source
from ..errors import FieldError, ScheduleError
from .curve import Curve, curve
from .live import Values
from .schedule_names import resolved

SCHEDULED = "scheduled"
"""Said of a value that follows its schedule."""

BLOCK = 256
"""Steps that are evaluated at a time, from a multiple of it on."""


class _Block(NamedTuple):
    """Values of one name from step `start` on, on the host and on the device."""

    start: int
    numbers: list[Any]
    leaves: list[Any]
    same: bool


class Schedules:
    """What the hook `schedules` says of a run's values.

    Args:
        curves: By the name of the value.
        horizon: Optimizer steps that they were made for; None for no end.
        made: The code that made them.

    Attributes:
        held: Names that were set by hand and are not followed.
    """

    def __init__(
        self,
        curves: Mapping[str, Curve],
        horizon: int | None = None,
        made: Snapshot | None = None,
    ):
        self.curves = dict(curves)
        self.horizon = horizon
        self.made = made
        self.held: frozenset[str] = frozenset()
        self._blocks: dict[str, _Block] = {}
        self._settled: dict[str, _Block] = {}
        self._scaled: dict[str, tuple[_Block, float, _Block]] = {}

    @property
    def names(self) -> frozenset[str]:
        """The values that follow a schedule now."""
        return frozenset(self.curves) - self.held

    def apply(self, values: Values, step: int) -> None:
        """Give the values what they have at the step after `step` steps.

        Raises:
            NitroError: A schedule fails; the values are as they were.
        """
        changed: dict[str, tuple[Any, Any]] = {}
        for name in self.curves:
            if name in self.held:
                continue
            block = self._blocks.get(name)
            if block is None or not 0 <= step - block.start < len(block.numbers):
                block = self._blocks[name] = self._evaluate(name, values, step)
            elif block.same and self._settled.get(name) is block:
                continue
            place = step - block.start
            changed[name] = (block.numbers[place], block.leaves[place])
            changed |= self._of_groups(name, values, block, place)
            self._settled[name] = block
        if changed:
            values.follow(changed)

    def begin(self, values: Values, after: Schedules | None = None) -> None:
        """Schedule values that follow nothing yet, or that followed `after`."""
        if after is not None:
            self.held = after.held & self.curves.keys()
            after.rest()
        for one in self.curves.values():
            one.begin()
        self._settled.clear()
        values.show(self.curves)

    def rest(self) -> None:
        """Compute nothing ahead until the next step."""
        for one in self.curves.values():
            one.rest()

    def hold(self, names: Iterable[str]) -> None:
        """Leave values as they are set by hand."""
        self.held |= self.curves.keys() & set(names)
        self._settled.clear()  # what goes with a value that was set may be scheduled

    def release(self, name: str) -> bool:
        """Follow the schedule of a value again; false if it has none."""
        self.held -= {name}
        self._settled.pop(name, None)
        return name in self.curves

    def said(self, name: str) -> str:
        """What a value follows, in a word for people; empty if it was not scheduled."""
        if name not in self.curves:
            return ""
        return "set, not scheduled" if name in self.held else SCHEDULED

    def ahead(self, name: str, step: int, now: Any) -> Any:
        """What a value has at the step after `step`, as far as it was evaluated.

        Args:
            name: Of the value.
            step: Optimizer steps done.
            now: Its value now, which it keeps if it follows nothing.
        """
        block = self._blocks.get(name)
        if name not in self.names or block is None:
            return now
        place = step - block.start
        return block.numbers[place] if 0 <= place < len(block.numbers) else now

    def check_set(self, names: Iterable[str]) -> None:
        """Refuse to set values that a schedule would overwrite.

        Raises:
            FieldError: One is scheduled.
        """
        for name in names:
            if name in self.names:
                raise FieldError(
                    f"`{name}` follows a schedule",
                    where=f"set {name}",
                    fix=f"run.set({_keyword(name)}, override=True), or\n"
                    f"%nitro set {name} ... --override; unset gives it back",
                )

    def _of_groups(
        self, base: str, values: Values, block: _Block, place: int
    ) -> dict[str, tuple[Any, Any]]:
        """What the values of groups have that go with a scheduled one."""
        changed: dict[str, tuple[Any, Any]] = {}
        for name, ratio in values.tied(base).items():
            if name in self.curves:
                continue
            of, at, scaled = self._scaled.get(name, (None, None, block))
            if of is not block or at != ratio:
                kind = values.scalar(name)
                assert kind is not None, name
                numbers = [ratio * number for number in block.numbers]
                scaled = _Block(block.start, numbers, kind.place(numbers), block.same)
                self._scaled[name] = (block, ratio, scaled)
            changed[name] = (scaled.numbers[place], scaled.leaves[place])
        return changed

    def _evaluate(self, name: str, values: Values, step: int) -> _Block:
        one = self.curves[name]
        start = step if one.by_step else step - step % BLOCK
        numbers = one.at(start, start + BLOCK)
        if len(numbers) <= step - start:  # it ends before, or goes step by step
            start, numbers = step, one.at(step, start + BLOCK)
        kind = values.scalar(name)
        assert kind is not None, name
        cast = [kind.cast(number) for number in numbers.tolist()]
        if all(number == cast[0] for number in cast):
            return _Block(start, cast, kind.place(cast[:1]) * len(cast), same=True)
        return _Block(start, cast, kind.place(cast), same=False)


def schedules(
    experiment: Experiment,
    hooks: Hooks,
    values: Values,
    horizon: int | None,
    step: int = 0,
    like: Schedules | None = None,
) -> Schedules:
    """What the hook `schedules` says, checked by its first values.

    Args:
        experiment: Its fields may be read.
        hooks: Gives `schedules`; without it nothing is scheduled.
        values: Says what can be scheduled.
        horizon: Optimizer steps of the run.
        step: The first one that they are for.
        like: Earlier ones; if the code still says the same, so do they.

    Raises:
        ScheduleError: A name or a schedule is refused.
        HookError: The hook raised.
    """
    if not hooks.defines("schedules"):
        return Schedules({}, horizon)
    reads = [Read("member", name) for name in reached("schedules", hooks)]
    made = Snapshot.of(reads, Source(experiment, hooks, {}))
    if like is not None and like.made == made and made.digests is not None:
        known = {*values.device_names, *values.hyper_names}
        if like.horizon == horizon and like.curves.keys() <= known:
            return Schedules(like.curves, horizon, made)
    with hooks_explained("schedules"):
        given = hooks.call(experiment, "schedules")
    named = resolved(given, type(experiment), values)
    curves = {name: curve(name, factory, horizon) for name, factory in named.items()}
    for one in curves.values():
        one.at(step, step + BLOCK)
    return Schedules(curves, horizon, made)


def check_horizon(horizon: Any) -> None:
    """Refuse a horizon that is no number of steps.

    Raises:
        ScheduleError: It is not a whole number of at least 1, nor None.
    """
    whole = isinstance(horizon, int) and not isinstance(horizon, bool)
    if horizon is not None and not (whole and horizon > 0):
        raise ScheduleError(
            f"horizon={horizon!r} is no number of optimizer steps",
            where="train",
            fix="train(horizon=1000)",
        )


def _keyword(name: str) -> str:
    return f"{name}=..." if name.isidentifier() else f'{{"{name}": ...}}'
