"""Carries out a verb with the arguments that were given, however it was said.

Names are looked up among the user's variables and modules; nothing is evaluated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from .._experiment.base import Experiment
from .._experiment.hyper import NAMES
from .._programs.cache import programs
from ..errors import MagicError, suggest
from . import registry
from .compare import compare
from .comparison import Comparison
from .help import Help, help_text
from .nitro import Nitro
from .verb import Verb


@dataclasses.dataclass(frozen=True)
class Arguments:
    """What was given with a verb, values already of the right type."""

    words: tuple[Any, ...] = ()
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def invoke(verb: Verb, arguments: Arguments, namespace: Mapping[str, Any]) -> Any:
    """Carry out a verb and return what its Python method returns.

    Args:
        verb: An entry of `VERBS`.
        arguments: What was given with it.
        namespace: The user's variables; experiments and batches are found here.

    Raises:
        MagicError: A name in the arguments means nothing here.
        NitroError: Whatever the method itself refuses.
    """
    if verb.target == "module":
        return _MODULE[verb.name](arguments, namespace)
    words = arguments.words
    if verb.name == "predict":
        words = (find_variable(arguments.words[0], namespace),)
    run = chosen_run(arguments)
    if verb.name == "set":
        override = arguments.options.get("override", False)
        return run.set(dict(arguments.fields), override=override)
    if verb.name == "call":
        return run.call(words[0], **arguments.fields)
    method = getattr(run if verb.target == "run" else run.handle, verb.name)
    flags = {p.name: arguments.options.get(p.name, False) for p in verb.take("flag")}
    return method(*words, **flags)


def chosen_run(arguments: Arguments) -> Any:
    """The run that `--run` names, else the current one.

    Raises:
        RunError: There is no such run.
    """
    wanted = arguments.options.get("run")
    return registry.current() if wanted is None else registry.find(wanted)


def find_experiment(name: str, namespace: Mapping[str, Any]) -> Any:
    """The Experiment class, experiment or `Nitro` that a name stands for.

    Raises:
        MagicError: There is none of that name.
    """
    found = _look_up(name, namespace)
    if is_trainable(found):
        return found
    known = [key for key, value in namespace.items() if is_trainable(value)]
    what = f"there is no experiment `{name}`"
    if found is not None:
        what = f"`{name}` is no experiment, its type is `{type(found).__name__}`"
    raise MagicError(what, fix=suggest(name, known))


def is_trainable(value: object) -> bool:
    """Whether `train` can start from this: a class, an experiment or a `Nitro`."""
    if isinstance(value, type):
        return issubclass(value, Experiment) and value is not Experiment
    return isinstance(value, Experiment | Nitro)


def find_variable(name: str, namespace: Mapping[str, Any]) -> Any:
    """The user's variable of that name.

    Raises:
        MagicError: There is none.
    """
    found = _look_up(name, namespace)
    if found is None:
        known = [key for key in namespace if not key.startswith("_")]
        raise MagicError(f"there is no variable `{name}`", fix=suggest(name, known))
    return found


def field_types(verb: Verb, experiment: Any) -> dict[str, Any]:
    """The names that `name=value` may use with a verb, with their types.

    Args:
        verb: An entry of `VERBS`.
        experiment: What is trained: a class, an experiment or a `Nitro`.
    """
    if isinstance(experiment, Nitro):
        experiment = experiment.experiment
    types = {name: field.type for name, field in experiment.__fields__.items()}
    if verb.name == "set":
        types = {**dict.fromkeys(NAMES, float), "on_nonfinite": str, **types}
    return types


def _look_up(name: str, namespace: Mapping[str, Any]) -> Any:
    """Find a name, dotted through modules only, so that nothing of a user runs."""
    first, *rest = name.split(".")
    found = namespace.get(first)
    for part in rest:
        if not isinstance(found, ModuleType):
            return None
        found = vars(found).get(part)
    return found


def _train(arguments: Arguments, namespace: Mapping[str, Any]) -> Any:
    flags = {name: arguments.options.get(name, False) for name in ("paused", "fresh")}
    flags["horizon"] = arguments.options.get("horizon")
    settings = {k: v for k, v in arguments.options.items() if k not in flags}
    fields = dict(arguments.fields)
    subject = (
        find_experiment(arguments.words[0], namespace)
        if arguments.words
        else registry.current().handle
    )
    if not isinstance(subject, Nitro):
        made = (
            subject(**fields)
            if isinstance(subject, type)
            else subject.replace(**fields)
        )
        subject = Nitro(made, **settings)
    elif fields or settings:
        name = next(iter([*fields, *settings]))
        raise MagicError(
            f"`{name}` cannot change what is already set up",
            fix="name the experiment to train it anew, or use %nitro set",
        )
    return subject.train(background=True, **flags)


def _compare(arguments: Arguments, namespace: Mapping[str, Any]) -> Comparison:
    return compare(*arguments.words, **arguments.options)


_MODULE = {
    "compare": _compare,
    "train": _train,
    "programs": lambda arguments, namespace: programs,
    "why": lambda arguments, namespace: programs.why(),
    "runs": lambda arguments, namespace: registry.runs.table(),
    "help": lambda arguments, namespace: Help(help_text(*arguments.words)),
}
