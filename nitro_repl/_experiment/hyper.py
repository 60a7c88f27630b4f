"""Hyperparameters: what the `optimizer` hook finds in `hp`.

Each is a traced input of the optimizer program, so changing one never compiles.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any, NamedTuple

import optax

from ..errors import HookError, suggest

NAMES = ("learning_rate", "weight_decay")
"""The hyperparameters of a run, in order; `head.learning_rate` is that of a group."""

ANCHORS = "decay anchors"
"""Where the arrays that weight decay pulls toward are, among the hyperparameters."""

_PLUMBING = {
    "chain", "named_chain", "with_extra_args_support", "masked", "partition",
    "identity", "scale",
}  # fmt: skip
_GIVEN = {"value", "grad"}
_FUNCTIONS = {"value_fn", "obj_fn"}  # of the loss, which only a train step has


class Hyperparameters:
    """The argument `hp` of the `optimizer` hook: `hp.learning_rate`.

    Attributes:
        decays: Whether `hp.weight_decay` was read: then decay is the optimizer's own.
        decay: The same number, for who only applies it.
    """

    def __init__(self, values: Mapping[str, Any]):
        self._values = dict(values)
        self.decays = False
        self.decay = self._values.get("weight_decay", 0.0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            value = self._values[name]
        except KeyError:
            raise HookError(
                f"there is no hyperparameter `hp.{name}`",
                where="optimizer",
                fix=suggest(name, self._values) + ", or a Device field by `self.name`",
            ) from None
        self.decays = self.decays or name == "weight_decay"
        return value


def injection(name: str, known: Iterable[str]) -> str:
    """How an optimizer of manual mode gets a live rate; empty if one has it.

    A rate that optax was given as a plain number is in closures of optax's, and each
    rule does something else with it: there it cannot be told from other constants.
    """
    last = name.rpartition(".")[2]
    if last not in NAMES or any(one.rpartition(".")[2] == last for one in known):
        return ""
    return (
        f"make it an input: optax.inject_hyperparams(optax.adamw)({last}=1e-3),\n"
        f"or read a Device field: optax.adamw({last}=self.rate)"
    )


def of_group(hyper: Mapping[str, Any], group: str) -> dict[str, Any]:
    """The hyperparameters of a group, by their own names."""
    own = {name: hyper.get(f"{group}.{name}", hyper.get(name)) for name in NAMES}
    return {name: value for name, value in own.items() if value is not None}


def anchors_of(hyper: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arrays that weight decay pulls toward, by parameter."""
    return hyper.get(ANCHORS, {})


def transformation(optimizer: Callable[[Any], Any], hp: Hyperparameters) -> Any:
    """What the `optimizer` hook returns, checked; a bare factory gets the rate.

    Raises:
        HookError: It is not an optax transformation.
    """
    made = optimizer(hp)
    if isinstance(made, optax.MultiSteps):
        _check_arguments(made.inner_opt)
        made = made.gradient_transformation()
    if callable(made) and not isinstance(made, optax.GradientTransformation):
        made = made(hp.learning_rate)
    if not isinstance(made, optax.GradientTransformation):
        raise HookError(
            f"`optimizer` returned {type(made).__name__}, not an optax transformation",
            where="optimizer",
            fix="return optax.adam(hp.learning_rate), for example",
        )
    if not _check_arguments(made):
        made = optax.GradientTransformation(made.init, made.update)
    return optax.with_extra_args_support(made)


def _check_arguments(made: optax.GradientTransformation) -> bool:
    """Whether an update can be handed the loss and the gradient.

    Raises:
        HookError: It wants more than a train step can give.
    """
    takes, needs = True, set()
    for function, extra in _updates(made, set()):
        parameters = inspect.signature(function).parameters
        wanted = {
            name
            for name, one in parameters.items()
            if one.kind is one.KEYWORD_ONLY and one.default is one.empty
        }
        # `sophia` says in words alone that it needs this one.
        if missing := sorted((wanted - _GIVEN) | (_FUNCTIONS & parameters.keys())):
            raise HookError(
                f"this transformation needs {', '.join(f'`{n}`' for n in missing)} in "
                "`update`, as line searches do; a train step computes one loss",
                where="optimizer",
                fix="write the step yourself in manual mode: the hook `train_step`\n"
                "with `setup_optimizers`; or choose a rule without a line search",
            )
        any_ = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        takes = takes and (any_ or not extra or parameters.keys() >= _GIVEN)
        needs |= wanted
    return takes or bool(needs)


class Rule(NamedTuple):
    """What the `optimizer` hook gave, for people.

    Attributes:
        word: The factories of its parts, or "".
        decays: Whether it uses `hp.weight_decay` itself.
    """

    word: str
    decays: bool


def rule_word(made: optax.GradientTransformation) -> str:
    """What a transformation does, by the factories of its parts: "clip + adam".

    Empty if nothing is known of it.
    """
    found = [
        function.__qualname__.partition(".<locals>.")[0]
        for function, _ in _functions(made, set())
        if ".<locals>.update" in function.__qualname__
    ]
    parts = dict.fromkeys(found)
    words = [name.removeprefix("scale_by_") for name in parts if name not in _PLUMBING]
    if not words and "scale" in parts:
        return "sgd"
    return " + ".join(words)


def _updates(value: Any, seen: set[int]) -> Iterator[tuple[Callable[..., Any], bool]]:
    """The update functions of a transformation, and if more arguments reach them."""
    for function, extra in _functions(value, seen):
        if list(inspect.signature(function).parameters)[:2] == ["updates", "state"]:
            yield function, extra


def _functions(
    value: Any, seen: set[int], extra: bool = True
) -> Iterator[tuple[FunctionType, bool]]:
    """The functions of a transformation, found through their closures."""
    if id(value) in seen:
        return
    seen.add(id(value))
    parts: Iterable[Any] = ()
    if isinstance(value, FunctionType):
        yield value, extra
        parts = [_inside(cell) for cell in value.__closure__ or ()]
    elif isinstance(value, optax.GradientTransformation):
        extra = extra and isinstance(value, optax.GradientTransformationExtraArgs)
        parts = (value.update,)
    elif isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, tuple | list):
        parts = value
    for part in parts:
        yield from _functions(part, seen, extra)


def _inside(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None
