"""All that the programs of a run are made from, and what they share.

Immutable; a newer one is compared with it, never written into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from .._code.fingerprint import Fingerprint
from .._experiment.base import Experiment
from .._experiment.hooks import Hooks, missing
from .._experiment.hyper import Rule
from .._experiment.routing import Route, route
from .._experiment.view import Reads, traced_view
from ..errors import HookError
from .key import Snapshot, model_content
from .model import Structure
from .recipe import Recipe

Batch = Mapping[str, jax.ShapeDtypeStruct]

_EVAL_FORMS = ("eval", "call")
"""Forms of the programs that see the model in eval mode."""


@dataclass(frozen=True)
class Blueprint:
    """All that the programs of a run are made from.

    Attributes:
        experiment: Gives GraphConst values.
        hooks: The hooks as pinned for this run.
        structure: The model without its numbers; frozen modules are in eval mode.
        recipe: How each parameter is updated.
        fields: Avals of the Device fields, by name.
        hyper: Avals of the hyperparameters, by name.
        opt: Tree structure of the optimizer state.
        opt_avals: Avals of its leaves.
        opt_made: What `optimizer` read when that structure was made.
        made: What `build_model` read when the model was made.
        device_metrics: Whether `metrics` is compiled; else it runs on the host.
        rules: By group, what `optimizer` gave, for people.
    """

    experiment: Experiment
    hooks: Hooks
    structure: Structure
    recipe: Recipe
    fields: Mapping[str, Any]
    hyper: Mapping[str, Any]
    opt: Any
    opt_avals: tuple[jax.ShapeDtypeStruct, ...]
    opt_made: Snapshot
    made: Snapshot
    device_metrics: bool = False
    rules: Mapping[str, Rule] = field(default_factory=dict)

    def train_content(self) -> Fingerprint:
        """Content of the model in train mode, at this moment."""
        return model_content(self.structure.train)

    def eval_content(self) -> Fingerprint:
        """Content of the model in eval mode, at this moment."""
        return model_content(self.structure.eval)

    def content_in(self, form: str) -> Fingerprint:
        """Content of the model in the mode that programs of this form have it in."""
        return self.eval_content() if form in _EVAL_FORMS else self.train_content()

    def route(self, hook: str) -> Route:
        """Which batch fields a hook gets; an undefined optional hook gets none."""
        if not self.hooks.defines(hook):
            if self.hooks.requires(hook):
                raise missing(hook, type(self.experiment).__name__)
            return Route(hook)
        return route(self.hooks[hook], hook)

    def view(self, groups: Any, reads: Reads, program: str, *, training: bool) -> Any:
        """The experiment as a program's hooks see it."""
        return traced_view(
            self.experiment,
            self.hooks,
            reads,
            device=groups["fields"],
            training=training,
            program=program,
        )

    def model_arguments(
        self, batch: Batch, wanted: Route, clock: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What a program takes that calls `forward`."""
        return {
            "params": self.structure.param_avals,
            "state": self.structure.state_avals,
            "batch": {name: batch[name] for name in wanted.names(batch)},
            "fields": self.fields,
            "clock": clock,
        }

    def checked_state(self, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
        """Refuse a state that is not laid out as before `forward`."""
        expected = self.structure.state_avals
        same = len(leaves) == len(expected) and all(
            a.shape == b.shape and a.dtype == b.dtype
            for a, b in zip(leaves, expected, strict=True)
        )
        if not same:
            raise HookError(
                "the model's state has another structure after `forward` than before",
                where="forward",
                fix="make every nnx.Variable in __init__, in its final shape and dtype",
            )
        return leaves

    def written(
        self, before: Sequence[Any], after: Sequence[Any]
    ) -> dict[int, jax.Array]:
        """The trained parameters that `forward` has written, by index.

        Those of frozen parameters, whose modules are in eval mode, are dropped.

        Raises:
            HookError: There are others now, or one has another shape or dtype.
        """
        if len(before) != len(after):
            raise HookError(
                "the model has other parameters after `forward` than before",
                where="forward",
                fix="make every nnx.Param in __init__",
            )
        new = {i: leaf for i, leaf in enumerate(after) if leaf is not before[i]}
        for index, leaf in new.items():
            aval = self.structure.param_avals[index]
            if (leaf.shape, leaf.dtype) != (aval.shape, aval.dtype):
                name = self.structure.names[index]
                raise HookError(
                    f"`forward` makes the parameter `{name}` {_words(leaf)}; "
                    f"it was {_words(aval)}",
                    where="forward",
                    fix="write values of its own shape and dtype",
                )
        frozen = self.recipe.frozen
        return {index: leaf for index, leaf in new.items() if not frozen[index]}

    def checked_opt(self, state: Any) -> list[Any]:
        """The leaves of an optimizer state that is laid out as before the update."""
        leaves, tree = jax.tree.flatten(state)
        shapes = [leaf.shape for leaf in leaves]
        if tree != self.opt or shapes != [leaf.shape for leaf in self.opt_avals]:
            raise HookError(
                "the optimizer's state changes its structure in `update`",
                where="setup_optimizers" if self.hooks.manual else "optimizer",
                fix="return a transformation whose update keeps what its init made",
            )
        return leaves


def _words(leaf: Any) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"
