"""The verbs that a user has for a run: one table for methods, magics and help.

Every way to say a verb ends in `invoke`, which calls the Python method of that name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Literal

from rich.console import RenderableType
from rich.text import Text

from .._experiment.base import Experiment
from .._programs.cache import programs
from .._text import View
from ..errors import MagicError, suggest
from . import registry
from .nitro import Nitro
from .settings import SETTINGS
from .status import RunRow, RunsTable

Kind = Literal["word", "words", "fields", "option", "flag", "settings"]
Target = Literal["module", "run", "handle"]


@dataclasses.dataclass(frozen=True)
class Parameter:
    """What a verb takes.

    Attributes:
        name: Its name, as the Python method has it.
        kind: How it is written: a positional word or any number of them,
            `name=value` fields, `--name value` options, `--name` flags, or the
            `--name value` settings of `Nitro`.
        summary: One line for people.
        type: What its value is; words of type `str` are taken as they stand.
        required: Whether it must be given.
        offers: What completes it: experiments, splits, programs, values, runs, verbs
            or variables.
    """

    name: str
    kind: Kind
    summary: str
    type: Any = str
    required: bool = False
    offers: str = ""

    @property
    def usage(self) -> str:
        """The parameter as a line of usage shows it."""
        name = self.name.replace("_", "-")
        written = {
            "word": self.name.upper(),
            "words": f"{self.name.upper()} ...",
            "fields": "NAME=VALUE ...",
            "option": f"--{name} {self.name.upper()}",
            "flag": f"--{name}",
            "settings": "--SETTING VALUE ...",
        }[self.kind]
        return written if self.required else f"[{written}]"


@dataclasses.dataclass(frozen=True)
class Verb:
    """One verb: what it does, what it takes, whose method it is, what comes back."""

    name: str
    summary: str
    target: Target
    returns: str
    parameters: tuple[Parameter, ...] = ()

    @property
    def usage(self) -> str:
        """The verb with its parameters, as it is written after `%nitro`."""
        return " ".join([self.name, *(p.usage for p in self.parameters)])

    def take(self, kind: Kind) -> tuple[Parameter, ...]:
        """The parameters of one kind."""
        return tuple(p for p in self.parameters if p.kind == kind)


@dataclasses.dataclass(frozen=True)
class Arguments:
    """What was given with a verb, values already of the right type."""

    words: tuple[Any, ...] = ()
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


_RUN = Parameter("run", "option", "which run, if not the current one", offers="runs")
_SPLIT = {"summary": "name of a split, such as val", "offers": "splits"}

VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb(
            "train",
            "start training in the background; without a name, go on with the last",
            "module",
            "Run",
            (
                Parameter(
                    "experiment",
                    "word",
                    "an Experiment class, or a variable holding an experiment or Nitro",
                    offers="experiments",
                ),
                Parameter("fields", "fields", "fields of the experiment"),
                Parameter("settings", "settings", "settings of Nitro"),
                Parameter("paused", "flag", "wait before the first step"),
                Parameter("fresh", "flag", "start again from the initial state"),
            ),
        ),
        Verb("pause", "pause at the next step boundary", "run", "None", (_RUN,)),
        Verb("resume", "go on after a pause", "run", "None", (_RUN,)),
        Verb(
            "advance",
            "do some more steps, then pause",
            "run",
            "None",
            (Parameter("n", "word", "how many steps, 1 if not given", int), _RUN),
        ),
        Verb("stop", "end the run at the next step boundary", "run", "None", (_RUN,)),
        Verb(
            "wait",
            "wait until the run ends; an interrupt only ends the waiting",
            "run",
            "whether it has ended",
            (Parameter("timeout", "word", "seconds to wait at most", float), _RUN),
        ),
        Verb(
            "set",
            "change Device fields or hyperparameters of the live run",
            "run",
            "None",
            (
                Parameter("fields", "fields", "new values", required=True),
                _RUN,
            ),
        ),
        Verb(
            "unset",
            "give a value back to its default",
            "run",
            "None",
            (
                Parameter(
                    "name", "word", "which value", required=True, offers="values"
                ),
                _RUN,
            ),
        ),
        Verb(
            "swap",
            "compile what was edited, behind the running programs, then switch",
            "run",
            "None",
            (
                Parameter("program", "words", "only these programs", offers="programs"),
                Parameter("undo", "flag", "go back to what ran before"),
                Parameter("wait", "flag", "return only after the switch"),
                _RUN,
            ),
        ),
        Verb("status", "show the run at this moment", "run", "Status", (_RUN,)),
        Verb("programs", "list the compiled programs", "module", "programs"),
        Verb("why", "say what was compiled or reused, and why", "module", "Reasons"),
        Verb("validate", "metrics on the val split", "handle", "dict", (_RUN,)),
        Verb(
            "evaluate",
            "metrics on a split",
            "handle",
            "dict",
            (Parameter("split", "word", required=True, **_SPLIT), _RUN),
        ),
        Verb(
            "predict",
            "outputs of the model for a batch or a loader",
            "handle",
            "outputs",
            (
                Parameter(
                    "variable",
                    "word",
                    "a variable holding the batch or loader",
                    required=True,
                    offers="variables",
                ),
                _RUN,
            ),
        ),
        Verb(
            "history",
            "the recorded columns of a split",
            "run",
            "HistoryView",
            (Parameter("split", "word", **_SPLIT), _RUN),
        ),
        Verb("runs", "list the runs of this session", "module", "RunsTable"),
        Verb(
            "help",
            "explain a verb, or list them",
            "module",
            "Help",
            (Parameter("verb", "word", "which verb", offers="verbs"),),
        ),
    )
}


class Help(View):
    """The verbs, or one of them in full; generated from the table."""

    def __init__(self, text: str):
        self.text = text

    def __rich__(self) -> RenderableType:
        return Text(self.text)


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
    run = chosen_run(arguments)
    if verb.name == "set":
        return run.set(dict(arguments.fields))
    method = getattr(run if verb.target == "run" else run.handle, verb.name)
    words = arguments.words
    if verb.name == "predict":
        words = (find_variable(arguments.words[0], namespace),)
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
        types = {"learning_rate": float, **types}
    return types


def setting_types() -> dict[str, Any]:
    """The settings of `Nitro`, with their types."""
    return dict(SETTINGS)


def help_text(name: str = "") -> str:
    """Explain one verb, or list them all.

    Raises:
        MagicError: There is no such verb.
    """
    if not name:
        rows = [f"  {verb.name:<10}{verb.summary}" for verb in VERBS.values()]
        return "\n".join([_INTRODUCTION, *rows, "", _NOTATION])
    verb = find_verb(name)
    lines = [
        f"%nitro {verb.usage}",
        "",
        f"{verb.summary[0].upper()}{verb.summary[1:]}.",
    ]
    if verb.parameters:
        lines += ["", *(f"  {p.usage:<24} {p.summary}" for p in verb.parameters)]
    if verb.take("settings"):
        lines += ["", "Settings: " + ", ".join(map(_option, setting_types()))]
    return "\n".join([*lines, "", f"Returns: {verb.returns}"])


def find_verb(name: str) -> Verb:
    """The verb of that name.

    Raises:
        MagicError: There is none.
    """
    if name not in VERBS:
        fix = f"{suggest(name, VERBS)} See %nitro help"
        raise MagicError(f"there is no verb `{name}`", fix=fix)
    return VERBS[name]


_INTRODUCTION = "%nitro VERB: train JAX experiments live.\n\nVerbs:"
_NOTATION = """\
Fields are name=value, settings and options --name value. Values are Python literals;
bare words are strings where a string is expected. `%nitro help VERB` says more."""


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


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


def _list_runs(arguments: Arguments, namespace: Mapping[str, Any]) -> RunsTable:
    runs = list(registry.runs.values())
    current = registry.current() if runs else None
    return RunsTable(
        [
            RunRow(
                run.id,
                type(run.handle.experiment).__name__,
                run.progress(),
                run is current,
            )
            for run in runs
        ]
    )


_MODULE = {
    "train": _train,
    "programs": lambda arguments, namespace: programs,
    "why": lambda arguments, namespace: programs.why(),
    "runs": _list_runs,
    "help": lambda arguments, namespace: Help(help_text(*arguments.words)),
}
