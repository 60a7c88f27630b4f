"""Swap: newer code compiled beside a live run, switched to at a step boundary.

Until the switch the old programs run; a swap that is refused or fails changes nothing.
A run that has ended switches too: it goes on with the new code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from .._code.arrays import light_look
from .._code.texts import remember
from .._experiment.hooks import Hooks
from .._programs.ledger import Looked, changes
from .._programs.program_set import Finder, ProgramSet
from .._programs.report import Reasons
from .._programs.retracer import Retracer
from .._programs.spec import Asker
from ..errors import RunError, SwapError, suggest
from . import asking, host_hooks, registry, threads
from .commands import Command
from .decay import check_decay, scheduled_decay
from .failure import describe
from .outlook import Outlook, outlook
from .plan import PROGRAM_HOOKS, Plan, newest, newest_experiment
from .requests import Bound, Request, Requests
from .schedules import schedules
from .settings import newly_said
from .setup import check
from .switch import Kept, take_optimizer
from .turns import short_turns
from .unseen import tell_unseen
from .worker import Worker

if TYPE_CHECKING:
    from .loop import Loop
    from .run import Run

_UNDO_KEPT = 8


class Swapper:
    """Carries out the swaps of one run; the newest request wins.

    Args:
        run: The run.
        loop: What it steps; touched on its worker only, at a boundary.
        worker: Its worker.

    Attributes:
        begun: What the run began with.
    """

    def __init__(self, run: Run, loop: Loop, worker: Worker):
        self._run = run
        self._worker = worker
        self._loop = loop
        self._requests = Requests(self._show)
        self._bound: Bound = {}
        self._before: list[Kept] = []
        self.begun = self._plan = replace(
            run.handle.plan,
            blueprint=loop.programs.blueprint,
            values=loop.values,
            source=loop.programs.look,
            schedules=loop.schedules,
        )

    def stale(self) -> tuple[str, ...]:
        """Names of programs that the newest code would make anew.

        A light look: an in-place change of a few elements of a large array is seen by
        the next swap or `Nitro`, which read it all, but perhaps not by this.
        """
        with light_look():
            return self.outlook().stale

    def outlook(self) -> Outlook:
        """What the newest code means for the run."""
        loop = self._loop
        return outlook(
            self._plan,
            loop.values,
            self._run.handle.settings,
            loop.programs,
            self._bound,
            begins=loop.begins,
        )

    @property
    def plan(self) -> Plan:
        """What the run steps with."""
        return self._plan

    @property
    def busy(self) -> bool:
        """Whether a swap is on its way."""
        return self._requests.busy

    def settle(self) -> None:
        """Wait until no swap is on its way."""
        self._requests.settle()

    def retraced(self, doubted: frozenset[int]) -> Retracer:
        """What programs of the run compute by the newest code; none of it is kept.

        Args:
            doubted: Keys of the programs to trace; those that are stale are left out.
        """
        plan, now = self._take(None, self._bound), self._loop.programs
        standings = now.standings(plan.blueprint)
        current = {one.program.key for one in standings if one.current}
        made = Retracer(now.programs, doubted & current)
        if doubted & current:
            again = self._programs(plan, made, self._run.asker)
            again.prepare(now, self._run.handle.prepared.first.of(again))
        return made

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
        self._check_goes_on()
        self._check_programs(programs)
        asked = Request(programs, dict(hooks), undo, by or asking.asker(), not wait)
        replaced = SwapError(
            "a newer swap was asked for meanwhile",
            where="swap",
            fix="nothing to do: the newest wins",
        )
        if any(old.tells for old in self._requests.add(asked, replaced)):
            self._tell(f"nitro: {self._who}a newer swap replaces the one on its way")
        thread = threads.start(f"nitro-swap-{self._run.id}", self._work, asked)
        asking.note(asked.done)
        if not wait:
            return None
        said = self._worker.answer(asked.done)
        if said is None:  # interrupted: the swap goes on
            return None
        thread.join()
        return Reasons(said)

    def end(self) -> None:
        """The run has ended, and with it the swaps on their way; on its worker."""
        over = RunError(
            f"run {self._run.id} ended before the switch",
            where="swap",
            fix="run.swap() takes the new code, run.handle.train() goes on with it",
        )
        if any(asked.tells for asked in self._requests.end(over)):
            self._tell(
                f"nitro: the swap on its way ended with run {self._run.id}; "
                "run.swap() takes the new code"
            )

    @property
    def _who(self) -> str:
        """The run, where another one could be meant."""
        others = (run for run in registry.runs.values() if run is not self._run)
        return f"run {self._run.id}: " if any(run.live for run in others) else ""

    def _tell(self, text: str, *, bad: bool = False) -> None:
        self._run.log.tell(text, bad=bad)

    def _show(self, note: str) -> None:
        self._run.note = note

    def _check_goes_on(self) -> None:
        """Refuse for a run that has ended and that nothing can continue."""
        run, latest = self._run, self._run.handle.run
        if not run.live and latest is not None and latest is not run:
            raise RunError(
                f"run {run.id} is over, at step {self._loop.step}; "
                f"its handle goes on with run {latest.id}",
                where="swap",
                fix="swap that run, or build a new Nitro: it takes the new code",
            )

    def _check_programs(self, programs: tuple[str, ...]) -> None:
        newest = Hooks.of(newest_experiment(type(self._plan.experiment)))
        known = (*PROGRAM_HOOKS, *newest.programs())
        for name in programs:
            if name not in known:
                raise SwapError(
                    f"there is no program `{name}`",
                    where="swap",
                    fix=suggest(name, known),
                )

    def _work(self, asked: Request) -> None:
        """Do a swap in its own thread; who waits is answered, then it is told."""
        self._requests.note(asked, "compiling a swap")
        try:
            # Its prints belong to the cell that asked, its programs to the run.
            with self._run.surroundings.config(), short_turns():
                notes = self._undo(asked) if asked.undo else self._make(asked)
        except BaseException as error:
            asked.done.set_exception(asked.over or error)
            if asked.tells and asked.over is None:  # else it was told when it was over
                said = f"{self._who}swap refused, the old programs go on."
                self._tell(f"{said}\n{describe(error)}", bad=True)
        else:
            lines = [f"{self._who}switched at step {self._loop.step}", *notes]
            asked.done.set_result(lines)
            if asked.tells:
                self._tell("\n".join(lines))
            tell_unseen(self._loop.programs.programs, self._run.log)
        finally:
            self._requests.remove(asked)

    def _make(self, asked: Request) -> list[str]:
        """Compile the newest code and switch to it."""
        if asked.hooks and not asked.programs:
            taken: tuple[str, ...] | None = ()
        else:
            taken = asked.programs or None
        bound = {**self._bound, **asked.hooks}
        plan, handle, was = self._take(taken, bound), self._run.handle, self._plan
        said = newly_said(
            (was.experiment, was.hooks),
            (plan.experiment, plan.hooks),
            handle.settings,
            handle.given,
        )
        check(plan.source)
        now, step = self._loop.schedules, self._loop.step
        followed = schedules(
            plan.experiment, plan.hooks, plan.values, now.horizon, step, like=now
        )
        plan = replace(plan, schedules=followed, notes=(*plan.notes, *said))
        decays = scheduled_decay(followed.curves)
        if decays or plan.blueprint.opt_made is not self._plan.blueprint.opt_made:
            check_decay(plan.blueprint, plan.values, decays)
        looked: list[Looked] = []
        asker = self._asker(asked, looked.append)
        made = self._programs(plan, self._run.handle.cache, asker)
        for split, names in self._run.handle.prepared.first.fields.items():
            made.batch_fields.check(split, names)
        first = self._run.handle.prepared.first.of(made)
        made.prepare(self._loop.programs, first)
        if not self._loop.programs.programs:  # the run failed before its first step
            made.train(*[first["train"][1]] * self._loop.accum)
        why = list(changes(looked, self._loop.programs.programs))
        return [*why, *self._switch(asked, plan, made, bound, why)]

    def _programs(
        self, plan: Plan, cache: Finder, asker: Callable[[], Asker]
    ) -> ProgramSet:
        """A set for a plan, like the one that the run steps with."""
        now = self._loop.programs
        return ProgramSet(
            plan.blueprint, cache, asker,
            fuse=now.fuse, joint=now.joint, look=plan.source, options=now.options,
        )  # fmt: skip

    def _asker(
        self, asked: Request, hear: Callable[[Looked], None]
    ) -> Callable[[], Asker]:
        """Who looks programs up: the swap, then the run that steps with them."""

        def ask() -> Asker:
            if asked.taken:
                return self._run.asker()
            self._requests.check(asked)
            return replace(
                self._run.asker(),
                on_phase=lambda phase: self._requests.note(asked, phase),
                on_event=lambda *looked: hear(looked),
                over=lambda: asked.over is not None,
            )

        return ask

    def _undo(self, asked: Request) -> list[str]:
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
        asked: Request,
        plan: Plan,
        made: ProgramSet,
        bound: Bound,
        why: Sequence[str] = (),
    ) -> list[str]:
        """Have the worker take the new programs at its next boundary."""
        remember(plan.hooks.functions.values())

        def apply(loop: Loop, command: Command) -> list[str]:
            self._requests.take(asked)
            plan.values.keep(loop.values)
            names = {p.name for p in (*loop.programs.programs, *made.programs)}
            settings = self._run.handle.settings
            hooks = host_hooks.changed(self._plan, plan, settings, names)
            notes = [*plan.notes, *hooks, *take_optimizer(loop, plan)]
            kept = Kept(self._plan, loop.programs, self._bound, loop.step)
            if asked.undo:
                gone = self._before.pop()
                notes.insert(0, f"back to the code before the swap of step {gone.step}")
            elif notes or bound != self._bound or kept.differs(plan, made):
                self._before.append(kept)
                del self._before[:-_UNDO_KEPT]
            before, loop.programs, loop.values = loop.programs, made, plan.values
            loop.begins = False
            if plan.schedules is not None:
                plan.schedules.begin(plan.values, after=loop.schedules)
                loop.schedules = plan.schedules
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
        self._worker.hand_over(command)
        return command.reply.result()

    def _take(self, programs: tuple[str, ...] | None, bound: Bound) -> Plan:
        settings = self._run.handle.settings
        return newest(self._plan, self._loop.values, settings, programs, bound)
