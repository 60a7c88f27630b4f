"""Swap: newer code compiled beside a live run, switched to at a step boundary.

Until the switch the old programs run; a swap that is refused or fails changes nothing.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax

from .._code.fingerprint import fingerprint
from .._experiment.base import Experiment
from .._experiment.device import signature
from .._experiment.hooks import Hooks
from .._programs.key import Source
from .._programs.optimizer_state import carry_over
from .._programs.program_set import ProgramSet
from .._programs.training import Blueprint
from ..errors import NitroError, RunError, SwapError, suggest
from .commands import Command
from .failure import describe, tell
from .live import Values, hyperparameters
from .setup import Built, blueprint, build, check, optimizer_state, place
from .surroundings import Surroundings

if TYPE_CHECKING:
    from .loop import Loop
    from .run import Run

PROGRAM_HOOKS: Mapping[str, tuple[str, ...]] = {
    "forward": ("forward", "build_model"),
    "loss": ("loss", "train_metrics"),
    "backward": ("forward", "build_model"),
    "optimizer": ("optimizer",),
    "eval": ("forward", "build_model"),
}
"""The hooks that `swap("loss")` takes."""


@dataclass(frozen=True)
class Plan:
    """What a run would step with after a swap."""

    experiment: Experiment
    hooks: Hooks
    built: Built
    blueprint: Blueprint
    values: Values
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Kept:
    """What a run stepped with before a swap, to go back to."""

    plan: Plan
    programs: ProgramSet


class Swapper:
    """Plans and carries out the swaps of one run; the newest request wins."""

    def __init__(self, run: Run):
        self._run = run
        self._lock = threading.Lock()
        self._newest = 0
        self._bound: dict[str, Callable[..., Any]] = {}
        self._before: list[_Kept] = []
        loop = run._loop
        self._plan = Plan(
            run.handle.experiment,
            run.handle.hooks,
            run.handle.built,
            loop.programs.blueprint,
            loop.values,
        )

    @property
    def plan(self) -> Plan:
        """What the run steps with."""
        return self._plan

    def stale(self) -> tuple[str, ...]:
        """Names of programs that the newest code would make anew."""
        try:
            newest = self._newest_plan((), {})
        except NitroError:
            return ()
        return self._run._loop.programs.moved(newest.blueprint)

    def request(
        self,
        programs: tuple[str, ...],
        hooks: Mapping[str, Callable[..., Any]],
        *,
        undo: bool,
        wait: bool,
    ) -> None:
        """Start a swap; with `wait`, return after the switch."""
        if not self._run.live:
            raise RunError(
                f"run {self._run.id} is over ({self._run.phase})", where="swap",
                fix="build a new Nitro: it takes the new code",
            )  # fmt: skip
        for name in programs:
            if name not in PROGRAM_HOOKS:
                raise SwapError(
                    f"there is no program `{name}`",
                    where="swap",
                    fix=suggest(name, PROGRAM_HOOKS),
                )
        with self._lock:
            self._newest += 1
            number = self._newest
        done: Future[None] = Future()
        work = self._undo if undo else self._make
        thread = threading.Thread(
            target=Surroundings().run, name=f"nitro-swap-{self._run.id}", daemon=True,
            args=(self._guarded, work, number, programs, dict(hooks), done, wait),
        )  # fmt: skip
        thread.start()
        if wait and threading.current_thread() is not self._run._thread:
            done.result()
            thread.join()

    def _guarded(
        self, work: Callable[..., str], number: int, programs: tuple[str, ...],
        hooks: dict[str, Any], done: Future[None], wait: bool,
    ) -> None:  # fmt: skip
        """Run a swap in its own thread; whatever happens is told, the run goes on."""
        switch = sys.getswitchinterval()
        try:
            sys.setswitchinterval(5e-4)  # tracing holds the GIL; let the steps in
            self._run.note = "compiling a swap"
            said = work(number, programs, hooks)
            if not wait:
                tell(said)
            done.set_result(None)
        except BaseException as error:
            if not wait:
                tell(
                    f"swap refused, the old programs go on.\n{describe(error)}",
                    bad=True,
                )
            done.set_exception(error)
        finally:
            self._run.note = ""
            sys.setswitchinterval(switch)

    def _make(
        self, number: int, programs: tuple[str, ...], hooks: dict[str, Any]
    ) -> str:
        plan = self._newest_plan(programs, hooks)
        check(plan.experiment, plan.hooks)
        old = self._run._loop.programs
        made = ProgramSet(plan.blueprint, self._run.handle.cache, self._run.asker)
        made.prepare(old)
        notes = self._switch(number, plan, made)
        self._bound.update(hooks)
        self._before.append(_Kept(self._previous, old))
        del self._before[:-_UNDO_KEPT]
        return self._said("swap", notes)

    def _undo(
        self, number: int, programs: tuple[str, ...], hooks: dict[str, Any]
    ) -> str:
        if not self._before:
            raise SwapError(
                "there is no swap to undo",
                where=f"run {self._run.id}",
                fix="swap first",
            )
        kept = self._before.pop()
        return self._said("undo", self._switch(number, kept.plan, kept.programs))

    def _switch(self, number: int, plan: Plan, made: ProgramSet) -> list[str]:
        """Have the worker take the new programs at its next boundary."""

        def apply(loop: Loop, command: Command) -> list[str]:
            if number != self._newest:
                raise SwapError(
                    "a newer swap was asked for",
                    where="swap",
                    fix="nothing to do: the newest wins",
                )
            notes = list(plan.notes)
            notes += _take_optimizer(loop, plan)
            before, loop.programs = loop.programs, made
            loop.values.adopt(plan.experiment, plan.values)
            self._previous, self._plan = self._plan, plan
            self._run.journal.record(
                "swap", step=loop.step, by=command.by, before=_hashes(before), after=_hashes(made),
                why=list(self._run.handle.cache.why()), notes=notes,
            )  # fmt: skip
            return notes

        command = Command("swap", apply)
        if not self._run._mailbox.put(command):
            raise RunError(
                f"run {self._run.id} ended before the switch",
                where="swap",
                fix="build a new Nitro",
            )
        return command.reply.result()

    def _newest_plan(
        self, programs: tuple[str, ...], hooks: Mapping[str, Callable[..., Any]]
    ) -> Plan:
        """The plan that the newest class of this name, and bound hooks, give."""
        now = self._plan
        cls = newest_class(type(now.experiment))
        table = Hooks.of(cls).bind(**{**self._bound, **hooks})
        if hooks and not programs:
            table = now.hooks.bind(**hooks)
            cls = type(now.experiment)
        elif programs:
            names = {name for program in programs for name in PROGRAM_HOOKS[program]}
            table = now.hooks.take(table, tuple(names)).bind(**hooks)
            cls = type(now.experiment)
        experiment, notes = _carry_fields(now.experiment, cls)
        _check_data(now.hooks, table)
        values = Values(
            experiment, hyperparameters(experiment, table, self._run.handle.settings)
        )
        source = Source(experiment, table, {})
        built = now.built
        if not built.is_current(source):
            seed = self._run.handle.settings["seed"]
            built = _rebuilt(experiment, table, seed, built)
        live = self._run._loop.values
        merged = Values(
            experiment, {name: float(value) for name, value in live.numbers.items()}
        )
        merged.set(
            {
                n: v
                for n, v in live.plain().items()
                if n in values.plain() and _fits(n, values, live)
            }
        )
        plan = blueprint(experiment, table, built.structure, merged)
        return Plan(experiment, table, built, plan, merged, tuple(notes))

    def _said(self, what: str, notes: list[str]) -> str:
        lines = [
            f"{what}: switched at step {self._run.step}",
            *self._run.handle.cache.why(),
            *notes,
        ]
        return "\n".join(lines)

    _previous: Plan


_UNDO_KEPT = 8


def newest_class(cls: type[Experiment]) -> type[Experiment]:
    """The newest class of this qualified name, found where its own hooks look names up."""
    first, *rest = cls.__qualname__.split(".")
    if first == "<locals>" or "<locals>" in rest:
        return cls
    spaces = [
        member.__globals__ for member in vars(cls).values()
        if hasattr(member, "__globals__") and member.__module__ == cls.__module__
    ]  # fmt: skip
    module = sys.modules.get(cls.__module__)
    if module is not None:
        spaces.append(vars(module))
    for space in spaces:
        found: Any = space.get(first)
        for part in rest:
            found = getattr(found, part, None)
        if (
            isinstance(found, type)
            and issubclass(found, Experiment)
            and found.__qualname__ == cls.__qualname__
        ):
            return found
    return cls


def _carry_fields(
    old: Experiment, cls: type[Experiment]
) -> tuple[Experiment, list[str]]:
    """The values of the live experiment in a newer class, and what is new there."""
    if cls is type(old):
        return old, []
    before, after = type(old).__fields__, cls.__fields__
    for name in before.keys() & after.keys():
        if before[name].residency is not after[name].residency:
            raise SwapError(
                f"`{name}` was {before[name].marker} and is {after[name].marker} now",
                where=f"{cls.__name__}.{name}",
                fix=f"build a new Nitro({cls.__name__}()), or keep the marker",
            )
    notes = [
        f"default of {name} is {after[name].default!r} now; the run keeps {getattr(old, name)!r}"
        for name in before.keys() & after.keys()
        if repr(before[name].default) != repr(after[name].default)
    ]
    notes += [
        f"new field {name} = {after[name].default!r}"
        for name in after.keys() - before.keys()
    ]
    kept = {name: getattr(old, name) for name in before.keys() & after.keys()}
    return cls(**kept), notes


def _check_data(old: Hooks, new: Hooks) -> None:
    """A live run keeps its data: its position is in it."""
    if "build_data" not in old or "build_data" not in new:
        return
    was, now = (
        fingerprint(old["build_data"]).parts,
        fingerprint(new["build_data"]).parts,
    )
    if was and now and was[0].digest != now[0].digest:
        raise SwapError(
            "`build_data` has changed, and a live run keeps the data it began with",
            where="build_data",
            fix="build a new Nitro to train on the new data, or undo that edit",
        )


def _rebuilt(experiment: Experiment, hooks: Hooks, seed: int, old: Built) -> Built:
    new = build(experiment, hooks, seed, abstract=True)
    if not new.structure.same_leaves(old.structure):
        before = dict(zip(old.structure.names, old.structure.param_avals, strict=True))
        after = dict(zip(new.structure.names, new.structure.param_avals, strict=True))
        differ = sorted(n for n in {*before, *after} if before.get(n) != after.get(n))
        raise SwapError(
            "the model has other parameters now"
            + (f", first at `{differ[0]}`" if differ else " or state"),
            where="build_model",
            fix=f"build a new Nitro({type(experiment).__name__}()), or keep names and shapes",
        )
    return replace(new, params=old.params, state=old.state)


def _fits(name: str, new: Values, old: Values) -> bool:
    both = {**new.fields, **new.hyper}.get(name), {**old.fields, **old.hyper}.get(name)
    return signature(both[0]) == signature(both[1])


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
    return [
        f"optimizer state: kept {len(kept)} arrays, fresh: {', '.join(began) or 'none'}"
    ]


def _hashes(programs: ProgramSet) -> dict[str, str]:
    return {f"{p.name} {p.form}": p.hash[:16] for p in programs.programs}
