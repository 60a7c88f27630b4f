"""Set-up: what a run starts from, made and checked before any compile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
from flax import nnx

from .._code.arrays import light_look
from .._code.gone import IMPORTED, gone
from .._experiment.base import Experiment
from .._experiment.fields import Residency
from .._experiment.hooks import HOOKS, Hooks, missing, reached
from .._experiment.hyper import Rule
from .._experiment.routing import route
from .._experiment.view import Read, Reads, host_view
from .._programs.blueprint import Blueprint
from .._programs.explain import gone_error, hooks_explained
from .._programs.key import Snapshot, Source, struct
from .._programs.libraries import ALL as LIBRARIES
from .._programs.manual import fresh
from .._programs.model import Leaves, Structure, take_apart
from .._programs.optimizer_state import initial
from .._programs.persistent import compiling
from .._programs.recipe import Recipe
from .._programs.trace import epoch
from ..errors import FieldError
from .live import Values
from .manual import check_manual


@dataclass(frozen=True)
class Built:
    """A model and what its structure was made from."""

    structure: Structure
    params: Leaves
    state: Leaves
    made: Snapshot


def check(source: Source) -> None:
    """Refuse an experiment that cannot be trained, before anything is built.

    Args:
        source: The experiment and its hooks, as they are now.

    Raises:
        HookError: A required hook is missing or a signature is wrong.
        FieldError: A GraphConst value cannot be compared by content.
    """
    experiment, hooks = source.experiment, source.hooks
    name = type(experiment).__name__
    hooks.check_methods()
    for hook in HOOKS.values():
        if not hooks.defines(hook.name):
            if hooks.requires(hook.name):
                raise missing(hook.name, name)
        elif hook.traced or hook.batch:
            route(hooks[hook.name], hook.name)
    check_gone(source)
    check_manual(experiment, hooks)
    for method in hooks.programs():
        route(hooks[method], method)
    for declared in type(experiment).__fields__.values():
        if declared.residency is Residency.GRAPH_CONST:
            reasons = source.unsound([Read("const", declared.name)])
            if reasons:
                kind = type(getattr(experiment, declared.name)).__name__
                raise FieldError(
                    f"`{declared.name}` is a GraphConst; a {kind} cannot be compared "
                    f"by content: {reasons[0]}",
                    where=f"{name}.{declared.name}",
                    fix="use numbers, texts, enums, lists, dicts or arrays,\n"
                    "or leave the field unmarked (Host) and read it in build_model",
                )


def check_gone(source: Source) -> None:
    """Refuse hooks that name what was imported and is gone from its file.

    Raises:
        HookError: Importing it again would fail, and the hook with it.
    """
    if gone.is_empty:
        return
    look = source.again()  # a light one: none of it decides what is compiled
    for name in HOOKS:
        reads = [Read("member", member) for member in reached(name, look.hooks)]
        with light_look():
            found = look.unsound(reads)
        for reason in found:
            if reason.startswith(IMPORTED):
                raise gone_error(reason, f"`{name}`")


@compiling()  # layers are made by many small programs: a restart finds those too
def build(
    experiment: Experiment, hooks: Hooks, seed: int, *, abstract: bool = False
) -> Built:
    """Call `build_model` and take the model apart.

    Args:
        experiment: Its fields, Device fields aside, may be read.
        hooks: Gives `build_model`.
        seed: Of the `nnx.Rngs` it gets.
        abstract: Only shapes: nothing is computed, the leaves are avals.

    Raises:
        ModelError: What it returned cannot be trained.
        HookError: It raised.
    """
    reads = Reads()
    before = Source(experiment, hooks, {})

    def make() -> Any:
        host = host_view(experiment, hooks, reads)
        return host.build_model(nnx.Rngs(seed))

    with hooks_explained("build_model"):
        if abstract:
            with epoch():
                model = nnx.eval_shape(make)
        else:
            model = make()
        structure, params, state = take_apart(model)
    made = Snapshot.of((*reads, LIBRARIES), before)
    return Built(structure, params, state, made)


def blueprint(
    source: Source,
    structure: Structure,
    values: Values,
    like: Blueprint | None = None,
) -> Blueprint:
    """What the programs are made from.

    Args:
        source: The experiment, its hooks and how parameters are updated, as of now.
        structure: Of the model, nothing frozen yet.
        values: Give the avals of Device fields and hyperparameters.
        like: An earlier one; if `optimizer` still says the same, so does its state.
    """
    experiment, hooks = source.experiment, source.hooks
    recipe = source.recipe or Recipe.plain(len(structure.names))
    structure = structure.freezing(recipe.frozen)
    fields, hyper = values.avals
    if (
        like is not None
        and (like.fields, like.hyper) == (fields, hyper)
        and like.structure.same_leaves(structure)
        and like.recipe == recipe
        and like.hooks.manual == hooks.manual
        and like.opt_made.is_current(source)
    ):
        return replace(like, experiment=experiment, hooks=hooks, structure=structure)
    before, reads = source.again(), Reads()
    rules: dict[str, Rule] = {}
    source.spent = True  # the hook runs now
    nothing = Snapshot((), None)
    bare = Blueprint(
        experiment, hooks, structure, recipe, fields, hyper, None, (), nothing, nothing
    )

    def init(params: Any, state: Any) -> Any:
        return _initial(bare, reads, (params, state), values, rules)

    with hooks_explained(_optimizer_hook(hooks)), epoch():
        opt = jax.eval_shape(init, structure.param_avals, structure.state_avals)
    leaves, tree = jax.tree.flatten(opt)
    return replace(
        bare,
        opt=tree,
        opt_avals=tuple(map(struct, leaves)),
        opt_made=Snapshot.of((*reads, LIBRARIES), before),
        rules=rules,
    )


@compiling()
def optimizer_state(
    plan: Blueprint, params: Leaves, state: Leaves, values: Values
) -> Any:
    """A fresh optimizer state for a model of these leaves."""
    with hooks_explained(_optimizer_hook(plan.hooks)):
        return _initial(plan, Reads(), (params, state), values)


def _initial(
    plan: Blueprint,
    reads: Reads,
    leaves: Any,
    values: Values,
    rules: dict[str, Rule] | None = None,
) -> Any:
    params, state = leaves
    if plan.hooks.manual:
        model = plan.structure.merge(params, state, training=True)
        return fresh(plan.experiment, plan.hooks, reads, model, values.fields)
    return initial(plan, reads, params, (values.fields, values.hyper), rules)


def _optimizer_hook(hooks: Hooks) -> str:
    return "setup_optimizers" if hooks.manual else "optimizer"


def place(leaves: Leaves, device: Any) -> Leaves:
    """Copies of leaves on a device: no buffer is shared with what the user holds."""
    return tuple(jax.device_put(leaf, device, may_alias=False) for leaf in leaves)
