"""Tab completion inside a `%nitro` line.

Offers names only; no value of the user's is touched beyond asking for its type.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from .._run import invoke, registry, verbs
from .._run.settings import SETTINGS
from .._run.verbs import Verb
from .._watch.level import LEVELS
from ..errors import NitroError

_LINE = re.compile(r"(?:^|=)\s*%nitro\s+(?P<rest>.*)$")


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
    option = before[-1] if before and before[-1].startswith("--") else ""
    for parameter in verb.take("option"):
        if option == _dashed(parameter.name):
            return _named(parameter.offers, namespace)
    if fragment.startswith("-"):
        return _options(verb)
    words = [word for word in before if "=" not in word and not word.startswith("-")]
    place = (verb.take("word") + verb.take("words"))[len(words) :][:1]
    if verb.take("words"):
        place = verb.take("words")
    offers = [name for p in place for name in _named(p.offers, namespace)]
    if verb.take("fields"):
        offers += _field_names(verb, words, namespace)
    return offers


def _named(kind: str, namespace: Mapping[str, Any]) -> list[str]:
    """The names of a kind that exist now."""
    return [name for name in _KINDS[kind](namespace) if not name.startswith("_")]


def _field_names(
    verb: Verb, words: list[str], namespace: Mapping[str, Any]
) -> list[str]:
    if verb.name == "set":
        return [f"{name}=" for name in _named("values", namespace)]
    if not words or verb.name != "train":
        return []
    subject = invoke.find_experiment(words[0], namespace)
    return [f"{name}=" for name in invoke.field_types(verb, subject)]


def _options(verb: Verb) -> list[str]:
    declared = [p.name for p in verb.take("option") + verb.take("flag")]
    settings = list(SETTINGS) if verb.take("settings") else []
    return [_dashed(name) for name in declared + settings]


def _starting(fragment: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(fragment)]


def _dashed(name: str) -> str:
    return "--" + name.replace("_", "-")


_KINDS: dict[str, Callable[[Mapping[str, Any]], Iterable[str]]] = {
    "": lambda names: (),
    "experiments": lambda names: (
        k for k, v in names.items() if invoke.is_trainable(v)
    ),
    "levels": lambda names: map(str, LEVELS),
    "methods": lambda names: registry.current().methods(),
    "programs": lambda names: (p.name for p in registry.current().status().programs),
    "runs": lambda names: registry.runs,
    "splits": lambda names: ("train", "val", "test"),
    "values": lambda names: (row.name for row in registry.current().status().values),
    "variables": lambda names: (k for k, v in names.items() if not callable(v)),
    "verbs": lambda names: verbs.VERBS,
}
