"""From hooks to program specs: the split train step, and evaluation.

forward gives outputs and residuals, loss a value and the cotangent, backward the
gradients, optimizer the next state. Editing one hook leaves the other programs alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .._code.fingerprint import Fingerprint
from .._experiment.base import Experiment
from .._experiment.hooks import HOOKS, Hooks, missing
from .._experiment.hyper import Hyperparameters, transformation
from .._experiment.routing import Route, route
from .._experiment.view import Reads, traced_view
from ..errors import HookError
from .clock import eval_clock, hook_arguments, train_clock
from .guard import keep_if
from .key import Snapshot, model_content, struct
from .model import Structure, state_of
from .results import (
    check_outputs,
    checked_metrics,
    is_differentiable,
    scalar,
    split_loss,
)
from .spec import Program, Spec

Batch = Mapping[str, jax.ShapeDtypeStruct]


@dataclass(frozen=True)
class Blueprint:
    """All that the programs of a run are made from.

    Attributes:
        experiment: Gives GraphConst values.
        hooks: The hooks as pinned for this run.
        structure: The model without its numbers.
        fields: Avals of the Device fields, by name.
        hyper: Avals of the hyperparameters, by name.
        opt: Tree structure of the optimizer state.
        opt_avals: Avals of its leaves.
        opt_made: What `optimizer` read when that structure was made.
    """

    experiment: Experiment
    hooks: Hooks
    structure: Structure
    fields: Mapping[str, Any]
    hyper: Mapping[str, Any]
    opt: Any
    opt_avals: tuple[jax.ShapeDtypeStruct, ...]
    opt_made: Snapshot

    def train_content(self) -> Fingerprint:
        """Content of the model in train mode, at this moment."""
        return model_content(self.structure.train)

    def eval_content(self) -> Fingerprint:
        """Content of the model in eval mode, at this moment."""
        return model_content(self.structure.eval)

    def route(self, hook: str) -> Route:
        """Which batch fields a hook gets; an undefined optional hook gets none."""
        if not self.hooks.defines(hook):
            if HOOKS[hook].required:
                raise missing(hook, type(self.experiment).__name__)
            return Route(hook)
        return route(self.hooks[hook], hook)

    # ---- the train step

    def forward(self, batch: Batch) -> Spec:
        """Outputs, new state and the pull-back of one batch in train mode."""
        wanted = self.route("forward")

        def forward(groups: Any, reads: Reads) -> Any:
            hooks = self._view(groups, reads, "forward", training=True)

            def apply(params: Any) -> Any:
                model = self.structure.merge(params, groups["state"], training=True)
                given = hook_arguments(wanted, groups)
                outputs = hooks.forward(model, **given)
                check_outputs(outputs, wanted)
                return outputs, self._checked_state(state_of(model))

            outputs, pullback, state = jax.vjp(apply, groups["params"], has_aux=True)
            return outputs, state, pullback

        return Spec(
            "forward",
            forward,
            self._model_arguments(batch, wanted, train_clock()),
            "train",
            self.train_content,
            share_inputs=True,
        )

    def loss(self, outputs: Any, batch: Batch, *, training: bool = True) -> Spec:
        """Value, cotangent and train metrics; without `training` the value alone."""
        wanted = self.route("loss")
        extra = self.route("train_metrics")
        leaves, tree = jax.tree.flatten(outputs)
        differentiable = tuple(map(is_differentiable, leaves))

        def loss(groups: Any, reads: Reads) -> Any:
            hooks = self._view(groups, reads, "loss", training=training)

            def value(chosen: Any) -> Any:
                given = iter(chosen)
                merged = [
                    next(given) if yes else leaf
                    for yes, leaf in zip(differentiable, groups["outputs"], strict=True)
                ]
                made = jax.tree.unflatten(tree, merged)
                total, metrics = split_loss(
                    hooks.loss(made, **hook_arguments(wanted, groups)), wanted
                )
                if training:
                    reads.add("member", "train_metrics")
                    if self.hooks.defines("train_metrics"):
                        made_metrics = hooks.train_metrics(
                            made, **hook_arguments(extra, groups)
                        )
                        metrics = {**metrics, **checked_metrics(made_metrics, extra)}
                return scalar(total, wanted), (total, metrics)

            chosen = tuple(
                leaf
                for yes, leaf in zip(differentiable, groups["outputs"], strict=True)
                if yes
            )
            if not training:
                return value(chosen)[1][0]
            (number, (_, metrics)), cotangent = jax.value_and_grad(value, has_aux=True)(
                chosen
            )
            return number, cotangent, metrics

        needed = set(wanted.names(batch)) | (
            set(extra.names(batch)) if training else set()
        )
        arguments = {
            "outputs": tuple(map(struct, leaves)),
            "batch": {name: batch[name] for name in sorted(needed)},
            "fields": self.fields,
            "clock": train_clock() if training else eval_clock(),
        }
        return Spec(
            "loss", loss, arguments, "train" if training else "value", extra=tree
        )

    def backward(self, forward: Program) -> Spec:
        """Gradients, from the residuals of `forward` and the cotangent of `loss`."""
        outputs, _, pullback = forward.out
        residuals, tree = jax.tree.flatten(pullback)
        leaves, output_tree = jax.tree.flatten(outputs)

        def backward(groups: Any, reads: Reads) -> Any:
            given = iter(groups["cotangent"])
            full = [
                next(given)
                if is_differentiable(leaf)
                else np.zeros(leaf.shape, jax.dtypes.float0)
                for leaf in leaves
            ]
            pull = jax.tree.unflatten(tree, groups["residuals"])
            return pull(jax.tree.unflatten(output_tree, full))[0]

        arguments = {
            "residuals": tuple(map(struct, residuals)),
            "cotangent": tuple(
                jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
                for leaf in leaves
                if is_differentiable(leaf)
            ),
        }
        return Spec("backward", backward, arguments, "train", extra=forward.key)

    def optimizer(self, loss: Any) -> Spec:
        """The next parameters and states, unless the loss or a gradient is not finite.

        Args:
            loss: Aval of the loss.
        """
        structure = self.structure

        def optimizer(groups: Any, reads: Reads) -> Any:
            hooks = self._view(groups, reads, "optimizer", training=True)
            made = transformation(hooks.optimizer, Hyperparameters(groups["hyper"]))
            clock, loss = groups["clock"], groups["loss"]
            params = structure.nested(groups["params"])
            grads = structure.nested(groups["grads"])
            opt = jax.tree.unflatten(self.opt, groups["opt"])

            def update() -> Any:
                updates, after = made.update(grads, opt, params, value=loss, grad=grads)
                stepped = jax.tree.leaves(optax.apply_updates(params, updates))
                return self._checked_opt(after), stepped, groups["new_state"]

            norm = optax.tree.norm(grads)
            good = jnp.isfinite(loss) & jnp.isfinite(norm) & ~clock["bad"]
            # Donated inputs are matched to outputs in order; any other order is copied.
            kept = (groups["opt"], groups["params"], groups["state"])
            moved = keep_if(good, update, kept)
            numbers = jnp.stack([loss, norm.astype(loss.dtype)])
            step = clock["step"] + good.astype(clock["step"].dtype)
            return (*moved, step, ~good, numbers)

        arguments = {
            "params": structure.param_avals,
            "grads": structure.param_avals,
            "opt": self.opt_avals,
            "state": structure.state_avals,
            "new_state": structure.state_avals,
            "hyper": self.hyper,
            "fields": self.fields,
            "loss": struct(loss),
            "clock": {name: train_clock()[name] for name in ("step", "bad")},
        }
        return Spec(
            "optimizer",
            optimizer,
            arguments,
            "train",
            extra=(self.opt, structure.tree),
            donate=frozenset({"params", "opt"}),
        )

    # ---- evaluation

    def evaluation(self, batch: Batch) -> Spec:
        """Outputs of one batch in eval mode; new state is dropped."""
        wanted = self.route("forward")

        def forward(groups: Any, reads: Reads) -> Any:
            hooks = self._view(groups, reads, "eval", training=False)
            model = self.structure.merge(
                groups["params"], groups["state"], training=False
            )
            return hooks.forward(model, **hook_arguments(wanted, groups))

        arguments = self._model_arguments(batch, wanted, eval_clock())
        return Spec("eval", forward, arguments, "eval", self.eval_content)

    # ---- parts

    def _view(self, groups: Any, reads: Reads, program: str, *, training: bool) -> Any:
        return traced_view(
            self.experiment,
            self.hooks,
            reads,
            device=groups["fields"],
            training=training,
            program=program,
        )

    def _model_arguments(
        self, batch: Batch, wanted: Route, clock: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {
            "params": self.structure.param_avals,
            "state": self.structure.state_avals,
            "batch": {name: batch[name] for name in wanted.names(batch)},
            "fields": self.fields,
            "clock": clock,
        }

    def _checked_state(self, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
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

    def _checked_opt(self, state: Any) -> list[Any]:
        leaves, tree = jax.tree.flatten(state)
        shapes = [leaf.shape for leaf in leaves]
        if tree != self.opt or shapes != [leaf.shape for leaf in self.opt_avals]:
            raise HookError(
                "the optimizer's state changes its structure in `update`",
                where="optimizer",
                fix="return a transformation whose update keeps what its init made",
            )
        return leaves
