"""What a switch to newer programs leaves behind, and what it takes along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax

from .._programs.optimizer_state import carried, carry_over
from .._programs.program_set import ProgramSet
from .._programs.spec import Program
from .plan import Plan
from .requests import Bound
from .setup import optimizer_state, place

if TYPE_CHECKING:
    from .loop import Loop


@dataclass(frozen=True)
class Kept:
    """What a run stepped with before a swap, to go back to."""

    plan: Plan
    programs: ProgramSet
    bound: Bound
    step: int = 0

    def differs(self, plan: Plan, made: ProgramSet) -> bool:
        """Whether there is anything to go back to: other hooks, or other programs."""
        mine, its = self.programs.programs, made.programs
        return (
            dict(self.plan.hooks) != dict(plan.hooks)
            or len(mine) != len(its)
            or not all(map(Program.computes, mine, its))
        )


def take_optimizer(loop: Loop, plan: Plan) -> list[str]:
    """Make the optimizer state fit the new optimizer; say what became of it."""
    new, old = plan.blueprint, loop.programs.blueprint
    if (new.opt, new.opt_avals) == (old.opt, old.opt_avals):
        return []
    carry = loop.carry
    fresh = optimizer_state(new, carry.params, carry.state, plan.values)
    before = jax.tree.unflatten(old.opt, carry.opt)
    manual = new.hooks.manual or old.hooks.manual
    taken = carry_over(before, fresh) if manual else carried(before, fresh)
    leaves = place(tuple(jax.tree.leaves(taken.state)), loop.values.device)
    loop.carry = loop.carry._replace(opt=leaves)
    return [f"optimizer state: {taken}"]
