"""Reads a `%nitro` line into a verb and its arguments.

Nothing is evaluated: a value is a Python literal, or a bare word where a string may
stand.
"""

from __future__ import annotations

import ast
import enum
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from .._run import verbs
from .._run.verbs import Arguments, Verb
from .._text import one_line
from ..errors import MagicError, suggest

_FIELD = re.compile(r"([A-Za-z_][\w.]*)=(?!=)(.*)", re.DOTALL)
_OPTION = re.compile(r"--([A-Za-z_][\w-]*)(?:=(.*))?", re.DOTALL)
_NUMBER = re.compile(r"-[\d.]")
# A whole string, blanks, or one other character; a lone quote is a string left open.
_PART = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\s+|.""", re.DOTALL)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_PYTHON_WORDS = {"true": "True", "false": "False", "none": "None", "null": "None"}


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


def literal(text: str, wanted: Any = Any, name: str = "") -> Any:
    """Read one value for a target of a type.

    Args:
        text: The value as written.
        wanted: The type of the target; `Any` where it is unknown.
        name: The target, for the error.

    Raises:
        MagicError: It is neither a literal nor a word that the target can take.
    """
    for kind in _members(wanted):
        if _is_enum(kind):
            return _enum_member(text, kind, name)
    value = _read(text, wanted, name)
    if typing.get_origin(wanted) is typing.Literal and value not in _members(wanted):
        allowed = ", ".join(map(repr, _members(wanted)))
        raise MagicError(f"`{name}`: `{one_line(text, 40)}` is none of {allowed}")
    return value


def _read(text: str, wanted: Any, name: str) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        if takes_words(wanted):
            return text
        raise _not_a_literal(text, wanted, name) from None
    if takes_words(wanted) and not isinstance(value, str):
        return value if _accepts(wanted, value) else text
    return value


def takes_words(wanted: Any) -> bool:
    """Whether a bare word may stand for a value of this type."""
    return any(
        kind is str or isinstance(kind, str) or _is_enum(kind)
        for kind in _members(wanted)
    )


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
        self.declared = {p.name: p for p in verb.take("option") + verb.take("flag")}

    def read(self, tokens: list[str]) -> Arguments:
        remaining = iter(tokens)
        for token in remaining:
            if option := _OPTION.fullmatch(token):
                self._option(option[1], option[2], remaining)
            elif field := _FIELD.fullmatch(token):
                self._field(field[1], field[2])
            elif token.startswith("-") and not _NUMBER.match(token):
                raise MagicError(
                    f"`{token}` is no option", fix="options start with `--`"
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
        settings = verbs.setting_types() if self.verb.take("settings") else {}
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
        if self.verb.name == "train" and words:
            subject = verbs.find_experiment(words[0], self.namespace)
        else:
            subject = verbs.chosen_run(Arguments(options=self.options)).handle
        known = verbs.field_types(self.verb, subject)
        if self.verb.name == "train":
            self._check_names(known, words)
        return {
            name: literal(text, known.get(name, Any), name)
            for name, text in self.fields.items()
        }

    def _check_names(self, known: Mapping[str, Any], words: tuple[Any, ...]) -> None:
        for name in self.fields:
            if name not in known:
                owner = words[0] if words else "the experiment"
                raise MagicError(
                    f"`{owner}` has no field `{name}`", fix=suggest(name, known)
                )


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


def _not_a_literal(text: str, wanted: Any, name: str) -> MagicError:
    what = f"`{name}`: `{one_line(text, 40)}` is not a Python literal"
    if text.lower() in _PYTHON_WORDS:
        return MagicError(what, fix=f"did you mean `{_PYTHON_WORDS[text.lower()]}`?")
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", text):
        return MagicError(what, fix="{...} around an expression has IPython compute it")
    fix = f"{{{text}}} is the value of a variable"
    if wanted in (Any, object):
        fix = f"'{text}' is a string, {fix}"
    return MagicError(what, fix=fix)


def _enum_member(text: str, kind: type[enum.Enum], name: str) -> enum.Enum:
    bare = text.strip("'\"").removeprefix(f"{kind.__name__}.")
    if bare in kind.__members__:
        return kind[bare]
    for member in kind:
        if bare == str(member.value):
            return member
    raise MagicError(
        f"`{name}`: `{one_line(text, 40)}` is no {kind.__name__}",
        fix=suggest(bare, kind.__members__),
    )


def _members(wanted: Any) -> tuple[Any, ...]:
    """The alternatives of a type: the members of a union, the values of a Literal."""
    origin = typing.get_origin(wanted)
    if origin in (typing.Union, types.UnionType):
        return tuple(
            kind for part in typing.get_args(wanted) for kind in _members(part)
        )
    if origin is typing.Literal:
        return typing.get_args(wanted)
    if origin is typing.Annotated:
        return _members(typing.get_args(wanted)[0])
    return (wanted,)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, enum.Enum)


def _accepts(wanted: Any, value: Any) -> bool:
    """Whether a literal that is no string is meant, where a string could stand too."""
    for kind in _members(wanted):
        if kind is None or isinstance(kind, type):
            accepted = type(None) if kind is None else kind
            if isinstance(value, accepted):
                return True
        elif kind == value:
            return True
    return float in _members(wanted) and isinstance(value, int)


def _dashed(name: str) -> str:
    return "--" + name.replace("_", "-")
