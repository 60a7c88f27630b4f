"""How JAX's wrappers and experiments take a function or class that its file renewed.

Each becomes what its cell would make of it now, or the user is told that it stays old.
"""

from __future__ import annotations

import types
from typing import Any

import jax

from .._code.holders import CannotRenewError, Visit, register
from .._experiment.base import Experiment
from .jax_values import _is_jitted as is_jitted

_PLAIN = ("donate_argnums", "donate_argnames", "keep_unused", "inline")


def _renew_jitted(value: Any, visit: Visit) -> Any:
    made, changed = visit(value.__wrapped__)
    if not changed:
        return value
    if made is value.__wrapped__ and isinstance(made, types.FunctionType):
        made = _twin(made)  # JAX keeps traces by the identity of the function
    return jax.jit(made, **_options(value))


def _options(value: Any) -> dict[str, Any]:
    """The options that `jax.jit` was given, where they can be given again."""
    state = value.__getstate__()
    info = _jit_info(state["cache_miss"])
    if info is None or info.compiler_options_kvs or info.device or info.backend:
        raise CannotRenewError("options that cannot be read back")
    for leaves in (info.in_shardings_leaves, info.out_shardings_leaves):
        if any(type(leaf).__name__ != "UnspecifiedValue" for leaf in leaves):
            raise CannotRenewError("shardings")
    names, numbers = state["static_argnames"], state["static_argnums"]
    static = {"static_argnames": names} if names else {"static_argnums": numbers}
    given = {name: getattr(info, name) for name in _PLAIN}
    if given["donate_argnames"]:
        del given["donate_argnums"]
    return {**static, **{name: option for name, option in given.items() if option}}


def _jit_info(dispatch: Any) -> Any:
    """What `jax.jit` was given, from the closure of its dispatch."""
    dispatch = getattr(dispatch, "__wrapped__", dispatch)
    for cell in getattr(dispatch, "__closure__", None) or ():
        if type(cell.cell_contents).__name__ == "PjitInfo":
            return cell.cell_contents
    return None


def _twin(function: types.FunctionType) -> types.FunctionType:
    twin = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
    vars(twin).update(vars(function))
    return twin


def _renew_experiment(value: Experiment, visit: Visit) -> Any:
    """The same fields in the newest class: experiments are values, runs keep theirs."""
    cls, _ = visit(type(value))
    old = {name: getattr(value, name) for name in type(value).__fields__}
    new = {name: visit(held)[0] for name, held in old.items()}
    if cls is type(value) and all(new[name] is old[name] for name in old):
        return value
    return cls(**{name: held for name, held in new.items() if name in cls.__fields__})


register(is_jitted, _renew_jitted)
register(lambda value: isinstance(value, Experiment), _renew_experiment)
