"""The optimizers of `setup_optimizers`: their arrays, and what is told of them.

Their arrays are carried in optax's own containers; what a step tells of them changes
nothing that they compute.
"""

from __future__ import annotations

import contextlib
import copy
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from flax.errors import TraceContextError

from ..errors import HookError
from .results import precise

Optimizers = Mapping[str, nnx.Optimizer[Any]]

WHERE = "setup_optimizers"
_PATH = jax.tree_util
_NORM = "nitro_grad_norm"
_NOT_CALLED = -1.0


def set_up(view: Any, model: nnx.Module) -> tuple[Any, Optimizers]:
    """What `setup_optimizers` returned, and the same by name."""
    made = view.setup_optimizers(model)
    named = {"": made} if isinstance(made, nnx.Optimizer) else made
    if not isinstance(named, Mapping) or not named:
        raise _refused(f"`setup_optimizers` returned {type(made).__name__}")
    for name, optimizer in named.items():
        if not isinstance(name, str) or not isinstance(optimizer, nnx.Optimizer):
            raise _refused(
                f"`setup_optimizers` gives {type(optimizer).__name__} as {name!r}"
            )
    return made, named


def _refused(what: str) -> HookError:
    return HookError(
        what,
        where=WHERE,
        fix="return an nnx.Optimizer, or a dict of them by name:\n"
        '{"generator": nnx.Optimizer(model.generator, optax.adam(1e-4), '
        "wrt=nnx.Param)}",
    )


def state_of(optimizers: Optimizers) -> dict[str, Any]:
    """All arrays of optimizers, in optax's own containers."""
    return {
        name: {
            "opt_state": _plain(nnx.as_pure(one.opt_state)),
            "step": one.step.get_value(),
        }
        for name, one in optimizers.items()
    }


def _plain(tree: Any) -> Any:
    return jax.tree.map(
        lambda leaf: nnx.to_pure_dict(leaf) if isinstance(leaf, nnx.State) else leaf,
        tree,
        is_leaf=lambda leaf: isinstance(leaf, nnx.State),
    )


def fill(
    optimizers: Optimizers, state: Mapping[str, Any], hyper: Mapping[str, Any]
) -> None:
    """Give fresh optimizers the state and the hyperparameters of the run."""
    first = {path: leaf for _, path, leaf in hyperparameters(state_of(optimizers))}
    live = {path: hyper.get(name) for name, path, _ in hyperparameters(state)}

    def now(path: Any, leaf: Any) -> Any:
        if path not in first:
            return leaf
        value = live.get(path)  # else of a Device field, which it is made from
        return jnp.asarray(first[path] if value is None else value, leaf.dtype)

    taken = jax.tree_util.tree_map_with_path(now, state)
    for name, optimizer in optimizers.items():
        leaves = jax.tree.leaves(taken[name]["opt_state"])
        variables = jax.tree.leaves(
            optimizer.opt_state, is_leaf=lambda leaf: isinstance(leaf, nnx.Variable)
        )
        for variable, leaf in zip(variables, leaves, strict=True):
            variable.set_value(leaf)
        optimizer.step.set_value(taken[name]["step"])


def hyperparameters(
    state: Mapping[str, Any],
) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """Name, path and number of each hyperparameter that a state of optax's holds."""
    paths = dict(_PATH.tree_flatten_with_path(state)[0])
    followed = {
        (path[:at], path[at + 1])
        for path in paths
        for at, key in enumerate(path)
        if key == _PATH.GetAttrKey("hyperparams_states") and len(path) > at + 1
    }
    seen: dict[str, int] = {}
    for path, leaf in paths.items():
        if len(path) < 2 or path[-2] != _PATH.GetAttrKey("hyperparams"):
            continue
        if jnp.shape(leaf) or (path[:-2], path[-1]) in followed:
            continue
        name = ".".join(part for part in (path[0].key, path[-1].key) if part)
        seen[name] = seen.get(name, 0) + 1
        yield (name if seen[name] == 1 else f"{name}_{seen[name]}"), path, leaf


# ---- gradient norms


def watch(optimizers: Optimizers) -> None:
    """Have optimizers keep the norm of the last gradient that `update` gets.

    In a variable of theirs, so that it comes out of a `nnx.cond` or `nnx.scan` too.
    """
    classes: dict[type, type] = {}
    for one in optimizers.values():
        setattr(one, _NORM, nnx.optimizer.OptState(jnp.float32(_NOT_CALLED)))
        cls = type(one)
        one.__class__ = classes.setdefault(cls, _watched(cls))


def norms(optimizers: Optimizers) -> list[Any]:
    """The gradient norm of each watched optimizer, by sorted name."""
    return [getattr(one, _NORM).get_value() for _, one in sorted(optimizers.items())]


def norm_names(names: Iterable[str]) -> tuple[str, ...]:
    """The columns of gradient norms, for optimizers of these names."""
    return tuple(f"{name}.grad_norm".lstrip(".") for name in sorted(names))


def was_called(norm: float) -> bool:
    """Whether a number of `norms` is one: its optimizer updated something."""
    return norm != _NOT_CALLED


def _watched(cls: Any) -> type:
    """A class of optimizers whose `tx` is told each gradient that optax gets."""

    def look_up(self: Any, name: str) -> Any:
        value = cls.__getattribute__(self, name)
        if name != "tx":
            return value

        def update(grads: Any, *rest: Any, **more: Any) -> Any:
            norm = optax.tree.norm(jax.tree.map(precise, grads))
            # One who took `tx` into a loop of jax's carries its state by hand.
            with contextlib.suppress(TraceContextError):
                getattr(self, _NORM).set_value(norm.astype(jnp.float32))
            return value.update(grads, *rest, **more)

        if isinstance(value, optax.GradientTransformation):
            return value._replace(update=update)
        other = copy.copy(value)  # optax.MultiSteps
        other.update = update
        return other

    names = {"__getattribute__": look_up, "__module__": cls.__module__}
    names["__qualname__"] = cls.__qualname__
    return types.new_class(
        cls.__name__, (cls,), exec_body=lambda space: space.update(names)
    )
