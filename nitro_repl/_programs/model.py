"""A model taken apart once: structure in train and eval mode, parameters, other state.

Inside programs state is a tuple of leaves; `merge` makes the module again from them.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from flax import nnx

from .._code.fingerprint import fingerprint
from .._experiment.hooks import Hooks
from ..errors import ModelError

Leaves = tuple[Any, ...]
_PLAIN = frozenset(  # most attributes: nothing in them is of an older class
    [type(None), bool, int, float, complex, str, bytes, type, types.FunctionType]
)


@dataclass(frozen=True)
class Structure:
    """What a model is, without its numbers.

    Attributes:
        train: Graph definition in train mode.
        eval: Graph definition in eval mode.
        params: Tree structure of the `nnx.Param` state.
        state: Tree structure of all other state (BatchNorm statistics, random keys).
        names: A path per parameter leaf, such as `a.kernel`.
        tree: Tree structure of the parameters as a plain nested dict, same leaf order.
        param_avals: Avals of the parameter leaves.
        state_avals: Avals of the other leaves.
    """

    train: Any
    eval: Any
    params: Any
    state: Any
    names: tuple[str, ...]
    tree: Any
    param_avals: tuple[jax.ShapeDtypeStruct, ...]
    state_avals: tuple[jax.ShapeDtypeStruct, ...]

    @property
    def state_names(self) -> tuple[str, ...]:
        """A path per leaf that is no parameter, such as `norm.mean`."""
        indices = range(len(self.state_avals))
        tree = nested_of(jax.tree.unflatten(self.state, indices))
        paths = jax.tree_util.tree_flatten_with_path(tree)[0]
        return tuple(
            ".".join(str(getattr(key, "key", key)) for key in path) for path, _ in paths
        )

    def merge(
        self, params: Sequence[Any], state: Sequence[Any], *, training: bool
    ) -> nnx.Module:
        """A module over these leaves; nothing is shared with another module."""
        graphdef = self.train if training else self.eval
        return nnx.merge(
            graphdef,
            jax.tree.unflatten(self.params, params),
            jax.tree.unflatten(self.state, state),
            copy=True,
        )

    def renewed(self, hooks: Hooks) -> Structure:
        """The same with the classes that hooks see now, where they say the same."""
        train, evaluation = _renewed(self.train, hooks), _renewed(self.eval, hooks)
        if train is self.train and evaluation is self.eval:
            return self
        return replace(self, train=train, eval=evaluation)

    def freezing(self, frozen: Sequence[bool]) -> Structure:
        """The same with the modules in eval mode whose parameters are all frozen."""
        if not any(frozen):
            return self
        marks = jax.tree.unflatten(self.params, frozen)
        state = jax.tree.unflatten(self.state, [False] * self.state.num_leaves)
        model = nnx.merge(self.train, marks, state)
        for _, module in list(nnx.iter_modules(model)):
            below = jax.tree.leaves(nnx.state(module, nnx.Param))
            if below and all(below):
                module.eval()
        return replace(self, train=nnx.graphdef(model))

    def nested(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Parameter leaves as a plain nested dict."""
        return jax.tree.unflatten(self.tree, leaves)

    def same_leaves(self, other: Structure) -> bool:
        """Whether another model has the same parameters and state, by path and aval."""
        mine = (self.names, self.param_avals, self.state_avals)
        return mine == (other.names, other.param_avals, other.state_avals)


def take_apart(model: Any) -> tuple[Structure, Leaves, Leaves]:
    """Split a model into structure, parameter leaves and other leaves.

    Raises:
        ModelError: It is no `nnx.Module`, or has no parameters that can be trained.
    """
    if not isinstance(model, nnx.Module):
        raise ModelError(
            f"`build_model` returned {type(model).__name__}, not an nnx.Module",
            where="build_model",
            fix="return an nnx.Module; wrap a Linen module with nnx.bridge.ToNNX(...)",
        )
    nnx.pop(model, nnx.Intermediate)
    model.eval()
    graph_eval = nnx.graphdef(model)
    model.train()
    graph_train, params, state = nnx.split(model, nnx.Param, ...)
    param_leaves, param_tree = jax.tree.flatten(params)
    state_leaves, state_tree = jax.tree.flatten(state)
    if not param_leaves:
        raise ModelError(
            "the model has no nnx.Param, so there is nothing to train",
            where="build_model",
            fix="make trainable arrays nnx.Param(...)",
        )
    nested = nested_of(params)
    paths, tree = jax.tree_util.tree_flatten_with_path(nested)
    _check_order(param_leaves, [leaf for _, leaf in paths])
    names = tuple(
        ".".join(str(getattr(key, "key", key)) for key in path) for path, _ in paths
    )
    _check_dtypes(names, param_leaves)
    structure = Structure(
        graph_train,
        graph_eval,
        param_tree,
        state_tree,
        names,
        tree,
        tuple(map(_struct, param_leaves)),
        tuple(map(_struct, state_leaves)),
    )
    return structure, tuple(param_leaves), tuple(state_leaves)


def _renewed(graphdef: Any, hooks: Hooks) -> Any:
    kinds = _newest_kinds(graphdef, hooks)
    values = _newest_values(graphdef, hooks)
    if not kinds and not values:
        return graphdef
    nodes = [_renewed_node(node, kinds) for node in graphdef.nodes]
    attributes = list(graphdef.attributes)
    for place, value in values.items():
        name, attribute = attributes[place]
        attributes[place] = (name, replace(attribute, value=value))
    return replace(graphdef, nodes=nodes, attributes=attributes)


def _newest_kinds(graphdef: Any, hooks: Hooks) -> dict[type, type]:
    """Classes of layers and variables that have a newer one that says the same."""
    kinds: set[Any] = {getattr(node, "type", None) for node in graphdef.nodes}
    newer = {kind: hooks.newest(kind) for kind in kinds if isinstance(kind, type)}
    return {
        kind: newest
        for kind, newest in newer.items()
        if newest is not kind and _says_the_same(kind, newest)
    }


def _newest_values(graphdef: Any, hooks: Hooks) -> dict[int, Any]:
    """Static attributes, such as an enum member, to be `is` the one that hooks name."""
    found: dict[int, Any] = {}
    for place, (_, attribute) in enumerate(graphdef.attributes):
        value = getattr(attribute, "value", None)
        if type(value) in _PLAIN or not isinstance(attribute, nnx.graphlib.Static):
            continue
        newest = hooks.renewed(value)
        if newest is not value and _says_the_same(value, newest):
            found[place] = newest
    return found


def _renewed_node(node: Any, kinds: Mapping[type, type]) -> Any:
    kind: Any = getattr(node, "type", None)
    if kind not in kinds:
        return node
    metadata = kinds[kind] if node.metadata is kind else node.metadata
    return replace(node, type=kinds[kind], metadata=metadata)


def _says_the_same(old: object, new: object) -> bool:
    return fingerprint(old).digest == fingerprint(new).digest


def nested_of(state: nnx.State) -> dict[str, Any]:
    """The leaves of a state as a nested dict, as they are held: no hook is called."""

    def held(leaf: Any) -> Any:
        return leaf.get_raw_value() if isinstance(leaf, nnx.Variable) else leaf

    return nnx.to_pure_dict(state, held)


def parts_of(model: nnx.Module) -> tuple[Leaves, Leaves]:
    """Parameter leaves and others of a module after a call, intermediates dropped."""
    nnx.pop(model, nnx.Intermediate)
    _, params, state = nnx.split(model, nnx.Param, ...)
    return tuple(jax.tree.leaves(params)), tuple(jax.tree.leaves(state))


def copies(leaves: Sequence[Any]) -> Leaves:
    """Host copies; typed keys as they are. Never views: a view would block donation."""
    return tuple(
        leaf if _is_key(leaf) else np.array(leaf, copy=True) for leaf in leaves
    )


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _struct(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


def _check_dtypes(names: Sequence[str], leaves: Sequence[Any]) -> None:
    for name, leaf in zip(names, leaves, strict=True):
        if not jax.dtypes.issubdtype(leaf.dtype, np.inexact):
            raise ModelError(
                f"the parameter `{name}` is {leaf.dtype}, which has no gradient",
                where="build_model",
                fix="make it an nnx.Variable, or give it a floating point dtype",
            )


def _check_order(flat: list[Any], nested: list[Any]) -> None:
    if any(a is not b for a, b in zip(flat, nested, strict=True)):
        raise ModelError(
            "the parameters of this model have paths that sort in two ways",
            where="build_model",
            fix="use attribute names and nnx.List/nnx.Dict keys of one type each",
        )
