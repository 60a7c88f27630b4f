"""Reads a `%nitro` line into a verb and its arguments.

Nothing is evaluated: a value is a Python literal, or a bare word where a string may
stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .._run import invoke, verbs
from .._run.invoke import Arguments
from .._run.settings import SETTINGS
from .._run.verb import Verb
from .._text import one_line
from ..errors import MagicError, suggest
from .literals import literal

_NAME = re.compile(r"[A-Za-z_][\w.]*")
_FIELD = re.compile(r"([A-Za-z_][\w.]*)=(?!=)(.*)", re.DOTALL)
_OPTION = re.compile(r"--([A-Za-z_][\w-]*)(?:=(.*))?", re.DOTALL)
_NUMBER = re.compile(r"-[\d.]")
# A whole string, blanks, or one other character; a lone quote is a string left open.
_PART = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\s+|.""", re.DOTALL)
# What somebody may write after a flag, and what the flag then lacks.
_SWITCHES = {"True": "", "true": "", "1": ""}
_SWITCHES |= dict.fromkeys(["False", "false", "0"], "=False")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def parse(line: str, namespace: Mapping[str, Any]) -> tuple[Verb, Arguments]:
    """Read a line.

    Args:
        line: What stands after `%nitro`.
        namespace: The user's variables, where the experiment is looked up.

    Raises:
        MagicError: The line cannot be read; the message fits on one line.
    """
    tokens = tokenize(line)
    verb = verbs.find_verb(tokens[0] if tokens else "help")
    return verb, _Reader(verb, namespace).read(tokens[1:])


def tokenize(line: str) -> list[str]:
    """Split at blanks outside quotes and brackets; drop a comment and a last `;`.

    Raises:
        MagicError: A quote or a bracket stays open.
    """
    tokens = list(_tokens(line))
    if tokens and tokens[-1].endswith(";"):
        tokens[-1] = tokens[-1].rstrip(";")
    return [token for token in tokens if token]


def usage_line(error: MagicError) -> str:
    """The error on one line, for a `UsageError`."""
    return f"{error.what}: {error.fix}" if error.fix else error.what


class _Reader:
    """Sorts the tokens after one verb; one use."""

    def __init__(self, verb: Verb, namespace: Mapping[str, Any]):
        self.verb = verb
        self.namespace = namespace
        self.words: list[str] = []
        self.fields: dict[str, str] = {}
        self.options: dict[str, Any] = {}
        self.bare = ""  # the flag just before this token
        self.declared = {p.name: p for p in verb.take("option") + verb.take("flag")}

    def read(self, tokens: list[str]) -> Arguments:
        remaining = iter(_assignments(tokens) if self.verb.take("fields") else tokens)
        for token in remaining:
            flag, self.bare = self.bare, ""
            if option := _OPTION.fullmatch(token):
                self._option(option[1], option[2], remaining)
            elif field := _FIELD.fullmatch(token):
                self._field(field[1], field[2])
            elif token.startswith("-") and not _NUMBER.match(token):
                raise MagicError(
                    f"`{token}` is no option", fix="options start with `--`"
                )
            elif flag and token in _SWITCHES:
                raise MagicError(
                    f"`{flag}` is a flag and takes no value",
                    fix=f"write `{flag}{_SWITCHES[token]}` instead of `{flag} {token}`",
                )
            else:
                self.words.append(token)
        if self.verb.name == "set":
            self._pair()
        words = tuple(self._words())
        return Arguments(words, self._typed_fields(words), self.options)

    def _option(self, name: str, value: str | None, rest: Iterator[str]) -> None:
        name = name.replace("-", "_")
        wanted = self._option_type(name)
        if wanted is bool and value is None:
            self.options[name] = True
            self.bare = _dashed(name)
            return
        if value is None:
            value = next(rest, "--")
            if value.startswith("--"):
                raise MagicError(f"`{_dashed(name)}` needs a value")
        self.options[name] = literal(value, wanted, _dashed(name))

    def _option_type(self, name: str) -> Any:
        if name in self.declared:
            parameter = self.declared[name]
            return bool if parameter.kind == "flag" else parameter.type
        settings = SETTINGS if self.verb.take("settings") else {}
        if name in settings:
            return settings[name]
        known = [_dashed(key) for key in (*self.declared, *settings)]
        raise MagicError(
            f"`{self.verb.name}` has no option `{_dashed(name)}`",
            fix=suggest(_dashed(name), known) if known else "it takes none",
        )

    def _field(self, name: str, value: str) -> None:
        if not self.verb.take("fields"):
            raise MagicError(
                f"`{self.verb.name}` takes no `{name}=...`",
                fix=f"usage: {self.verb.usage}",
            )
        if not value:
            raise MagicError(f"`{name}=` needs a value")
        if name in self.fields:
            raise MagicError(f"`{name}` is given twice")
        self.fields[name] = value

    def _pair(self) -> None:
        """`set smoothing 0.1` means `set smoothing=0.1`."""
        if len(self.words) == 2 and not self.fields:
            self.fields = {self.words[0]: self.words[1]}
            self.words = []
        if not self.fields:
            raise MagicError("`set` needs a name and a value", fix="set smoothing=0.1")

    def _words(self) -> Iterator[Any]:
        places = [*self.verb.take("word")]
        many = self.verb.take("words")
        for index, word in enumerate(self.words):
            if index >= len(places) and not many:
                raise MagicError(
                    f"`{one_line(word, 30)}` is one word too many",
                    fix=f"usage: {self.verb.usage}",
                )
            place = places[index] if index < len(places) else many[0]
            yield literal(word, place.type, place.name)
        for place in places[len(self.words) :]:
            if place.required:
                raise MagicError(
                    f"`{self.verb.name}` needs a {place.name}",
                    fix=f"usage: {self.verb.usage}",
                )

    def _typed_fields(self, words: tuple[Any, ...]) -> dict[str, Any]:
        if not self.fields and not (self.verb.name == "train" and words):
            return {}
        if self.verb.name == "call":
            return {name: self._input(name, text) for name, text in self.fields.items()}
        if self.verb.name == "train" and words:
            subject = invoke.find_experiment(words[0], self.namespace)
        else:
            subject = invoke.chosen_run(Arguments(options=self.options)).handle
        known = invoke.field_types(self.verb, subject)
        if self.verb.name == "train":
            self._check_names(known, words)
        return {
            name: literal(text, known.get(name, Any), name)
            for name, text in self.fields.items()
        }

    def _input(self, name: str, text: str) -> Any:
        """What a method is given: a variable of the user's, or a literal."""
        if text.isidentifier() and text in self.namespace:
            return self.namespace[text]
        return literal(text, Any, name)

    def _check_names(self, known: Mapping[str, Any], words: tuple[Any, ...]) -> None:
        for name in self.fields:
            if name not in known:
                owner = words[0] if words else "the experiment"
                raise MagicError(
                    f"`{owner}` has no field `{name}`", fix=suggest(name, known)
                )


def _assignments(tokens: list[str]) -> list[str]:
    """The tokens, with `name = value` as `name=value`."""
    joined: list[str] = []
    for token in tokens:
        before = joined[-1] if joined else ""
        goes_on = _NAME.fullmatch(before) and token.startswith("=")
        lacks = before.endswith("=") and _NAME.fullmatch(before[:-1])
        if goes_on or (lacks and not (_FIELD.match(token) or token.startswith("--"))):
            joined[-1] += token
        else:
            joined.append(token)
    return joined


def _tokens(line: str) -> Iterator[str]:
    start, closing = 0, ""
    for part in _PART.finditer(line):
        text = part[0]
        if text == "#" and not closing and start == part.start():
            return
        if text.isspace() and not closing:
            yield line[start : part.start()]
            start = part.end()
        elif text in "'\"":
            raise _unclosed(line[start:], text)
        elif text in _CLOSING:
            closing += _CLOSING[text]
        elif closing and text == closing[-1]:
            closing = closing[:-1]
    if closing:
        raise _unclosed(line[start:], closing[-1])
    yield line[start:]


def _unclosed(text: str, missing: str) -> MagicError:
    return MagicError(f"`{one_line(text, 40)}` misses its closing `{missing}`")


def _dashed(name: str) -> str:
    return "--" + name.replace("_", "-")
