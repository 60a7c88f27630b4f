"""Help on the verbs, generated from their table."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from .._text import View
from .settings import SETTINGS
from .verbs import VERBS, find_verb

_INTRODUCTION = "%nitro VERB: train JAX experiments live.\n\nVerbs:"
_NOTATION = """\
Fields are name=value, settings and options --name value. Values are Python literals;
bare words are strings where a string is expected. `%nitro help VERB` says more."""


class Help(View):
    """The verbs, or one of them in full; generated from the table."""

    def __init__(self, text: str):
        self.text = text

    def __rich__(self) -> RenderableType:
        return Text(self.text)


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
        lines += ["", *_settings_help()]
    return "\n".join([*lines, "", f"Returns: {verb.returns}"])


def _settings_help() -> list[str]:
    flags = [_option(name) for name, kind in SETTINGS.items() if kind is bool]
    valued = [_option(name) for name, kind in SETTINGS.items() if kind is not bool]
    return [
        f"Settings with a VALUE: {', '.join(valued)}",
        f"Flags, without one: {', '.join(flags)} ({flags[0]}=False turns it off)",
    ]


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
