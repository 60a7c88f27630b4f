"""A handle's experiment prepared for the JAX settings of one thread.

Nothing compiles here: programs are made when they are first used.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax

from .._programs.key import Source, thread_settings
from .._programs.program_set import ProgramSet
from .._programs.spec import Asker
from .chosen import check_choice
from .decay import check_decay
from .evaluation import State
from .first import First
from .live import Values
from .manual import manual_rates
from .plan import Plan
from .rates import hyperparameters
from .recipes import settle
from .setup import blueprint, place
from .surroundings import Surroundings

if TYPE_CHECKING:
    from .nitro import Nitro


@dataclass(frozen=True)
class Prepared:
    """What a handle evaluates with before any run, and what its runs begin with.

    Attributes:
        plan: The experiment, its model and its first values.
        key: Random key of the runs.
        programs: Evaluate the initial state.
        first: What the first batches are like.
        surroundings: Those of the thread that prepared it; likewise `settings`.
    """

    plan: Plan
    key: Any
    programs: ProgramSet
    first: First
    surroundings: Surroundings
    settings: Hashable

    @property
    def fits_here(self) -> bool:
        """Whether this thread has the same JAX settings."""
        return self.settings == thread_settings()

    def state(self, params: str | None = None) -> tuple[State, ProgramSet]:
        """Copies of the initial numbers, and the programs to evaluate with."""
        check_choice(self.plan.blueprint, params)  # an average begins as they are
        built, values = self.plan.built, self.plan.values
        device = values.device
        own, others = place(built.params, device), place(built.state, device)
        state = State(own, others, values.field_leaves, self.key, device)
        return state, self.programs


def prepare(handle: Nitro) -> Prepared:
    """Make what depends on the JAX settings of this thread.

    Raises:
        NitroError: A hook that says how parameters are updated is wrong.
        DataError: A first batch lacks a field that a hook needs.
    """
    under, surroundings = thread_settings(), Surroundings()
    experiment, hooks, built = handle.experiment, handle.hooks, handle.built
    settings = handle.settings
    settled = settle(experiment, hooks, settings, built)
    if hooks.manual:
        hyper = manual_rates(experiment, hooks, settings, built.structure)
    else:
        recipe = settled.recipe
        hyper = hyperparameters(
            experiment, hooks, settings, recipe.names, recipe.groups
        )
    values = Values(experiment, hyper, anchors=settled.anchors)
    key = jax.device_put(jax.random.key(settings["seed"]), values.device)
    source = Source(experiment, hooks, values.avals[0], settled.recipe)
    made = replace(
        blueprint(source, built.structure, values),
        device_metrics=settings["metrics_residency"] == "device",
        made=built.made,
    )
    check_decay(made, values)
    name = type(experiment).__name__
    programs = ProgramSet(
        made, handle.cache, lambda: Asker(name), options=handle.options
    )
    first = First(handle.data, programs)
    plan = Plan(experiment, hooks, built, made, values, programs.look, settled)
    return Prepared(plan, key, programs, first, surroundings, under)
