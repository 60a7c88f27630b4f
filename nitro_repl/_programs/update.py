"""One update of the parameters: clip, the user's rule by group, decay, the average.

Frozen parameters take no part: no gradient, no state, the same bits after a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import optax

from .._experiment.hyper import (
    Hyperparameters,
    Rule,
    anchors_of,
    of_group,
    rule_word,
    transformation,
)
from .injected import as_given
from .model import Structure
from .recipe import Recipe
from .results import precise


class OptimizerState(NamedTuple):
    """What an update keeps from step to step.

    Attributes:
        groups: By group, the state of the user's transformation.
        ema: By parameter, the average over steps; empty if there is none.
    """

    groups: dict[str, Any]
    ema: dict[str, Any]


@dataclass(frozen=True)
class Update:
    """The update of one model.

    Attributes:
        structure: Of the model.
        recipe: What is decided for each parameter.
        optimizer: The hook.
        hyper: The hyperparameters by name, and the anchors of decay.
    """

    structure: Structure
    recipe: Recipe
    optimizer: Callable[[Any], Any]
    hyper: Mapping[str, Any]

    def rule(self, group: str) -> tuple[Any, Hyperparameters]:
        """The user's transformation for a group, and the hyperparameters it got."""
        given = Hyperparameters(of_group(self.hyper, group))
        return transformation(self.optimizer, given), given

    def of_group(self, leaves: Sequence[Any], group: str) -> Any:
        """The nested dict of a group's leaves, from one leaf per parameter."""
        members = self.recipe.members(group)
        pairs = zip(leaves, members, strict=True)
        return self.structure.nested(
            [leaf if mine else optax.MaskedNode() for leaf, mine in pairs]
        )

    def initial(
        self, params: Sequence[Any], rules: dict[str, Rule] | None = None
    ) -> OptimizerState:
        """The state of fresh parameters, one leaf per parameter.

        Args:
            params: The leaves.
            rules: Filled with the rule of each group.
        """
        groups: dict[str, Any] = {}
        for group in self.recipe.names:
            made, hp = self.rule(group)
            groups[group] = made.init(self.of_group(params, group))
            if rules is not None:
                rules[group] = Rule(rule_word(made), hp.decays)
        ema: dict[str, Any] = {}
        if self.recipe.ema is not None:
            pairs = zip(self.structure.names, params, strict=True)
            # Too few bits would not move by a small share.
            ema = {n: precise(leaf) for n, leaf in self.recipe.trained(tuple(pairs))}
        return OptimizerState(groups, ema)

    def __call__(
        self, params: Sequence[Any], grads: Sequence[Any], state: Any, loss: Any,
        norm: Any,
    ) -> tuple[OptimizerState, tuple[Any, ...]]:  # fmt: skip
        """The state after a step and the trained parameters.

        Args:
            params: One leaf per parameter.
            grads: One leaf per trained parameter.
            state: The `OptimizerState` before.
            loss: The loss.
            norm: Of all gradients.
        """
        recipe = self.recipe
        full = recipe.whole(grads, params)
        clipped = recipe.whole(self._clipped(grads, norm), params)
        stepped, groups = list(params), {}
        for group in recipe.names:
            made, hp = self.rule(group)
            mine = self.of_group(params, group)
            before = as_given(state.groups[group], partial(made.init, mine))
            updates, groups[group] = made.update(
                self.of_group(clipped, group),
                before,
                mine,
                value=loss,
                grad=self.of_group(full, group),
            )
            leaves, tree = jax.tree.flatten(updates)
            members = [i for i, own in enumerate(recipe.members(group)) if own]
            if not hp.decays:
                pairs = zip(leaves, members, strict=True)
                leaves = [self._decayed(leaf, i, params[i], hp) for leaf, i in pairs]
            after = optax.apply_updates(mine, jax.tree.unflatten(tree, leaves))
            for index, leaf in zip(members, jax.tree.leaves(after), strict=True):
                stepped[index] = leaf
        ema = self._average(state.ema, stepped)
        return OptimizerState(groups, ema), recipe.trained(stepped)

    def _clipped(self, grads: Sequence[Any], norm: Any) -> Sequence[Any]:
        """Gradients whose norm is at most `clip_norm`, as optax clips them."""
        most = self.recipe.clip_norm
        if most is None:
            return grads
        small = norm < most
        return [
            jax.lax.select(small, g, (g / norm.astype(g.dtype)) * most) for g in grads
        ]

    def _decayed(self, update: Any, index: int, param: Any, hp: Hyperparameters) -> Any:
        """An update with what decoupled weight decay takes off the parameter."""
        if not self.recipe.decayed[index]:
            return update
        off = param
        if self.recipe.anchored[index]:
            off = param - anchors_of(self.hyper)[self.structure.names[index]]
        return update - (hp.learning_rate * hp.decay) * off

    def _average(self, ema: Mapping[str, Any], stepped: Sequence[Any]) -> Any:
        decay = self.recipe.ema
        if decay is None:
            return {}
        named = dict(zip(self.structure.names, stepped, strict=True))
        new = {name: named[name].astype(old.dtype) for name, old in ema.items()}
        return optax.incremental_update(new, dict(ema), 1 - decay)
