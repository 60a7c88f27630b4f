"""Swap: newer code compiled beside a live run, switched to at a step boundary.

Until the switch the old programs run; a swap that is refused or fails changes nothing.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import jax

from .._code.arrays import light_look
from .._experiment.hooks import Hooks
from .._programs.optimizer_state import carry_over
from .._programs.program_set import ProgramSet
from .._programs.report import Reasons
from .._programs.standing import Standing, stale_names
from .._text import tell
from ..errors import NitroError, RunError, SwapError, suggest
from .commands import Command
from .failure import describe
from .plan import PROGRAM_HOOKS, Plan, newest, newest_experiment
from .setup import check, optimizer_state, place
from .surroundings import Surroundings
from .worker import Worker, asker

if TYPE_CHECKING:
    from .loop import Loop
    from .run import Run

_UNDO_KEPT = 8
_SWITCH_INTERVAL_S = 5e-4  # tracing holds the GIL; this lets the steps in

Bound = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class _Kept:
    """What a run stepped with before a swap, to go back to."""

    plan: Plan
    programs: ProgramSet
    bound: Bound


@dataclass(frozen=True)
class _Request:
    """One swap that was asked for."""

    number: int
    programs: tuple[str, ...]
    hooks: Bound
    undo: bool
    by: str
    done: Future[list[str]]


class Swapper:
    """Carries out the swaps of one run; the newest request wins.

    Args:
        run: The run.
        loop: What it steps; touched on its worker only, at a boundary.
        worker: Its worker.
    """

    def __init__(self, run: Run, loop: Loop, worker: Worker):
        self._run = run
        self._worker = worker
        self._loop = loop
        self._lock = threading.Lock()
        self._newest = 0
        self._asked = 0
        self._bound: Bound = {}
        self._before: list[_Kept] = []
        handle = run.handle
        self._plan = Plan(
            handle.experiment,
            handle.hooks,
            handle.built,
            loop.programs.blueprint,
            loop.values,
        )

    def stale(self) -> tuple[str, ...]:
        """Names of programs that the newest code would make anew.

        A light look: an in-place change of a few elements of a large array is seen by
        the next swap or `Nitro`, which read it all, but perhaps not by this.
        """
        try:
            with light_look():
                return stale_names(self.standings())
        except NitroError:  # it does not fit the run; it is newer all the same
            return self._unfit()

    def _unfit(self) -> tuple[str, ...]:
        """Names of programs whose hooks moved, where no plan can be made."""
        now, programs = self._loop.programs.blueprint, self._loop.programs
        try:
            hooks = Hooks.of(newest_experiment(type(now.experiment)))
            with light_look():
                plan = replace(now, hooks=hooks.bind(**self._bound))
                return stale_names(programs.standings(plan))
        except NitroError:
            return tuple(dict.fromkeys(p.name for p in programs.programs))

    def standings(self) -> list[Standing]:
        """Each program beside what the newest code would make of it.

        Raises:
            NitroError: The newest code does not fit the run.
        """
        plan = self._take(None, self._bound)
        return self._loop.programs.standings(plan.blueprint)

    @property
    def busy(self) -> bool:
        """Whether a swap is on its way."""
        return self._asked > 0

    def request(
        self,
        programs: tuple[str, ...] = (),
        hooks: Bound = MappingProxyType({}),
        *,
        undo: bool = False,
        wait: bool = False,
        by: str = "",
    ) -> Reasons | None:
        """Start a swap; with `wait`, return after the switch what it did."""
        if not self._run.live:
            raise RunError(
                f"run {self._run.id} is over, at step {self._loop.step}",
                where="swap",
                fix="build a new Nitro: it takes the new code",
            )
        for name in programs:
            if name not in PROGRAM_HOOKS:
                raise SwapError(
                    f"there is no program `{name}`",
                    where="swap",
                    fix=suggest(name, PROGRAM_HOOKS),
                )
        with self._lock:
            self._newest += 1
            self._asked += 1
            asked = _Request(
                self._newest, programs, dict(hooks), undo, by or asker(), Future()
            )
        thread = threading.Thread(
            target=Surroundings().run,
            args=(self._work, asked, not wait),
            name=f"nitro-swap-{self._run.id}",
            daemon=True,
        )
        thread.start()
        if not wait:
            return None
        said = self._worker.answer(asked.done)
        if said is None:  # interrupted: the swap goes on
            return None
        thread.join()
        return Reasons(said)

    def _work(self, asked: _Request, tells: bool) -> None:
        """Do a swap in its own thread; what comes of it is told, the run goes on."""
        self._run.note = "compiling a swap"
        try:
            # Its prints belong to the cell that asked, its programs to the run.
            with self._run.surroundings.config(), _short_switches():
                notes = self._undo(asked) if asked.undo else self._make(asked)
        except BaseException as error:
            if tells and asked.number == self._newest:  # else the newest tells
                said = f"swap refused, the old programs go on.\n{describe(error)}"
                tell(said, bad=True)
            asked.done.set_exception(error)
        else:
            lines = [f"switched at step {self._loop.step}", *notes]
            if tells:
                tell("\n".join(lines))
            asked.done.set_result(lines)
        finally:
            self._run.note = ""
            with self._lock:
                self._asked -= 1

    def _make(self, asked: _Request) -> list[str]:
        """Compile the newest code and switch to it."""
        if asked.hooks and not asked.programs:
            taken: tuple[str, ...] | None = ()
        else:
            taken = asked.programs or None
        bound = {**self._bound, **asked.hooks}
        plan = self._take(taken, bound)
        check(plan.experiment, plan.hooks)
        made = ProgramSet(
            plan.blueprint,
            self._run.handle.cache,
            self._run.asker,
            fuse=self._loop.programs.fuse,
        )
        for split, names in self._run.handle.available.items():
            made.check(split, names)
        cache = self._run.handle.cache
        since = cache.count()
        made.prepare(self._loop.programs)
        why = list(cache.why_of(self._run.id, since))
        return [*why, *self._switch(asked, plan, made, bound, why)]

    def _undo(self, asked: _Request) -> list[str]:
        """Switch back to the programs before the last swap: nothing is compiled."""
        if not self._before:
            raise SwapError(
                "there is no swap to undo",
                where=f"run {self._run.id}",
                fix="swap first",
            )
        kept = self._before[-1]
        return self._switch(asked, kept.plan, kept.programs, kept.bound)

    def _switch(
        self,
        asked: _Request,
        plan: Plan,
        made: ProgramSet,
        bound: Bound,
        why: Sequence[str] = (),
    ) -> list[str]:
        """Have the worker take the new programs at its next boundary."""

        def apply(loop: Loop, command: Command) -> list[str]:
            if asked.number != self._newest:
                raise SwapError(
                    "a newer swap was asked for meanwhile",
                    where="swap",
                    fix="nothing to do: the newest wins",
                )
            notes = [*plan.notes, *_take_optimizer(loop, plan)]
            if asked.undo:
                self._before.pop()
            else:
                self._before.append(_Kept(self._plan, loop.programs, self._bound))
                del self._before[:-_UNDO_KEPT]
            plan.values.keep(loop.values)
            before, loop.programs, loop.values = loop.programs, made, plan.values
            self._plan, self._bound = plan, bound
            self._run.journal.record(
                "undo" if asked.undo else "swap",
                step=loop.step,
                by=command.by,
                before=before.variant,
                after=made.variant,
                why=list(why),
                notes=notes,
            )
            self._run.record.variant(made.variant)
            return notes

        command = Command("swap", apply, asked.by)
        if not self._run.mailbox.put(command):
            raise RunError(
                f"run {self._run.id} ended before the switch",
                where="swap",
                fix="build a new Nitro: it takes the new code",
            )
        return command.reply.result()

    def _take(self, programs: tuple[str, ...] | None, bound: Bound) -> Plan:
        settings = self._run.handle.settings
        return newest(self._plan, self._loop.values, settings, programs, bound)


_switching = threading.Lock()
_intervals: list[float] = []  # what to go back to, once for each swap at work


@contextlib.contextmanager
def _short_switches() -> Iterator[None]:
    """Have threads take turns more often while any swap is compiled."""
    with _switching:
        _intervals.append(_intervals[0] if _intervals else sys.getswitchinterval())
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        with _switching:
            interval = _intervals.pop()
            if not _intervals:
                sys.setswitchinterval(interval)


def _take_optimizer(loop: Loop, plan: Plan) -> list[str]:
    """Make the optimizer state fit the new optimizer; say what starts fresh."""
    new, old = plan.blueprint, loop.programs.blueprint
    if (new.opt, new.opt_avals) == (old.opt, old.opt_avals):
        return []
    fresh = optimizer_state(new, loop.carry.params, plan.values)
    before = jax.tree.unflatten(old.opt, loop.carry.opt)
    filled, kept, began = carry_over(before, fresh)
    leaves = place(tuple(jax.tree.leaves(filled)), loop.values.device)
    loop.carry = replace(loop.carry, opt=leaves)
    names = ", ".join(began) or "nothing"
    return [f"optimizer state: {len(kept)} arrays kept; fresh: {names}"]
