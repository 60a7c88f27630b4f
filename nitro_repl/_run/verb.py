"""What a verb is, and what it takes."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

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
            "settings": "--SETTING [VALUE] ...",
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
