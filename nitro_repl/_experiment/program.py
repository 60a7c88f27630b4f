"""`@nitro.program`: a method of an experiment that is a compiled program of its own.

It sees the model in eval mode and never changes it; its name is the program's name.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from .._where import place
from ..errors import HookError
from .hooks import HOOKS, PROGRAM_MARK, is_program

F = TypeVar("F", bound=Callable[..., Any])

TAKEN = frozenset({
    *HOOKS, "forward", "loss", "backward", "optimizer", "eval", "metrics", "step",
    "grad", "training", "hook", "replace", "key",
})  # fmt: skip
"""Names that mean something else already."""


def program(function: F) -> F:
    """Make a method `(self, model, *, ...)` a program that runs on the live state.

    It is traced with the model in eval mode and may return anything: arrays come back
    as numpy arrays. Its keyword-only parameters are what `run.call` gives it: arrays,
    numbers and pytrees of them as inputs, texts as constants; one annotated
    `GraphConst[...]` is a constant, too, and each of its values a program. `key` is
    reserved: a random key of the run's seed and step, or the one that is given.

    Raises:
        HookError: It is no function, its name is taken, or it lacks `self, model`.

    Example:
        >>> class Names(Experiment):
        ...     @program
        ...     def sample(self, model, *, prompt, key): ...
        >>> run.call("sample", prompt=x)
    """
    made: Any = function
    if not isinstance(made, FunctionType):
        raise HookError(
            f"@nitro.program got {type(function).__name__}, not a function",
            where="nitro.program",
            fix="write it above a method: def sample(self, model, *, prompt): ...",
        )
    name = made.__name__
    if name in TAKEN:
        raise HookError(
            f"`{name}` has a meaning of its own and cannot be a program method",
            where=place(function),
            fix=f"choose another name, for example def {name}_of(self, model, *, ...)",
        )
    mark(function)
    return function


def mark(function: Any) -> None:
    """Have a function count as a program method."""
    if not is_program(function):
        setattr(function, PROGRAM_MARK, True)
