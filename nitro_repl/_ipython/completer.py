"""Tab completion inside a `%nitro` line.

Offers names only; no value of the user's is touched beyond asking for its type.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.utils.generics import complete_object

from .._run import invoke, registry, verbs
from .._run.compare import MODES
from .._run.nitro import Nitro
from .._run.run import Run
from .._run.settings import SETTINGS
from .._run.verb import Verb
from .._watch.level import LEVELS
from ..errors import NitroError

_LINE = re.compile(r"(?:^|=)\s*%nitro\s+(?P<rest>.*)$")


@complete_object.register(Run)
@complete_object.register(Nitro)
def _public(completed: Run | Nitro, found: list[str]) -> list[str]:
    """Without jedi, IPython adds to `dir` what the class has for ourselves."""
    return dir(completed)


def make_matcher(
    namespace: Callable[[], Mapping[str, Any]],
) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """A matcher that completes `%nitro` lines and stays out of all others.

    Args:
        namespace: Gives the user's variables.
    """

    @context_matcher(identifier="nitro_repl")
    def nitro_matcher(context: CompletionContext) -> SimpleMatcherResult:
        line = _LINE.search(context.text_until_cursor)
        if line is None:
            return {"completions": []}
        fragment = re.split(r"\s", line["rest"])[-1]
        names = complete(line["rest"], namespace())
        return {
            "completions": [
                SimpleCompletion(text=name, type="magic") for name in names
            ],
            "matched_fragment": fragment,
            "suppress": True,
        }

    return nitro_matcher


def complete(rest: str, namespace: Mapping[str, Any]) -> list[str]:
    """What can stand at the end of a line.

    Args:
        rest: The line after `%nitro`, up to the cursor.
        namespace: The user's variables.
    """
    *before, fragment = re.split(r"\s+", rest)
    if not before:
        return _starting(fragment, verbs.VERBS)
    verb = verbs.VERBS.get(before[0])
    if verb is None:
        return []
    with contextlib.suppress(NitroError):
        return _starting(fragment, _offers(verb, before[1:], fragment, namespace))
    return []


def _offers(
    verb: Verb, before: list[str], fragment: str, namespace: Mapping[str, Any]
) -> Iterable[str]:
    valued = {_dashed(p.name): p.offers for p in verb.take("option")}
    if verb.take("settings"):
        valued |= {_dashed(n): "" for n, kind in SETTINGS.items() if kind is not bool}
    run = _named_run(before)
    if before and before[-1] in valued:
        return _named(valued[before[-1]], namespace, run)
    if fragment.startswith("-"):
        return _options(verb)
    words = [
        word
        for last, word in pairwise(["", *before])
        if "=" not in word and not word.startswith("-") and last not in valued
    ]
    place = (verb.take("word") + verb.take("words"))[len(words) :][:1]
    if verb.take("words"):
        place = verb.take("words")
    names = [name for p in place for name in _named(p.offers, namespace, run)]
    offers = [name for name in names if not verb.take("words") or name not in words]
    if verb.take("fields"):
        given = {word.partition("=")[0] for word in before if "=" in word}
        names = _field_names(verb, words, namespace, run)
        offers += [f"{name}=" for name in names if name not in given]
    return offers


def _named_run(before: list[str]) -> str | None:
    """The id that `--run` names, if it does."""
    for last, word in pairwise(before):
        if last == "--run":
            return word
    return None


def _named(kind: str, namespace: Mapping[str, Any], run: str | None) -> list[str]:
    """The names of a kind that exist now."""
    if kind in _OF_RUN:
        names = _OF_RUN[kind](registry.current() if run is None else registry.find(run))
    else:
        names = _KINDS[kind](namespace)
    return [name for name in names if not name.startswith("_")]


def _field_names(
    verb: Verb, words: list[str], namespace: Mapping[str, Any], run: str | None
) -> list[str]:
    if verb.name == "set":
        return [*_named("values", namespace, run), "on_nonfinite"]
    if not words:
        return []
    if verb.name == "call":
        chosen = registry.current() if run is None else registry.find(run)
        return chosen.inputs(words[0])
    subject = invoke.find_experiment(words[0], namespace)
    return list(invoke.field_types(verb, subject))


def _options(verb: Verb) -> list[str]:
    declared = [p.name for p in verb.take("option") + verb.take("flag")]
    settings = list(SETTINGS) if verb.take("settings") else []
    return [_dashed(name) for name in declared + settings]


def _starting(fragment: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(fragment)]


def _word(name: str) -> str:
    """A name as it is written where a blank ends a word."""
    return f'"{name}"' if " " in name else name


def _dashed(name: str) -> str:
    return "--" + name.replace("_", "-")


_KINDS: dict[str, Callable[[Mapping[str, Any]], Iterable[str]]] = {
    "": lambda names: (),
    "experiments": lambda names: (
        k for k, v in names.items() if invoke.is_trainable(v)
    ),
    "levels": lambda names: map(str, LEVELS),
    "metrics": lambda names: map(_word, registry.metrics()),
    "modes": lambda names: MODES,
    "runs": lambda names: registry.runs,
    "variables": lambda names: (k for k, v in names.items() if not callable(v)),
    "verbs": lambda names: verbs.VERBS,
}

_OF_RUN: dict[str, Callable[[Run], Iterable[str]]] = {
    "methods": lambda run: run.methods(),
    "programs": lambda run: run.program_names(),
    "splits": lambda run: run.handle.data,
    "values": lambda run: (row.name for row in run.values()),
}
