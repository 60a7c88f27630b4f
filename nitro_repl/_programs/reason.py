"""Why a program was not a hit, in words, from what changed since the last of its name.

Says what it knows: content that differs is named; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._code.diff import explain
from .._code.fingerprint import Fingerprint
from .._experiment.view import Read
from .key import ABSENT, Source
from .spec import Program

FIRST_USE = "first use"
_OTHER_INPUTS = "it takes other inputs"
_SHOWN = 3


def reason(
    outcome: str, before: Program | None, after: Program, *, left: bool = False
) -> str:
    """The causes, most specific first, joined by `; `.

    Args:
        outcome: Of the lookup.
        before: The last program of this name, if there was one.
        after: The program found or made.
        left: Whether it had been made before, and left the cache.
    """
    if outcome == "hit":
        return ""
    if before is None:
        return FIRST_USE
    causes = differences(before, after) or [
        _without_cause(outcome, before, after, left)
    ]
    more = len(causes) - _SHOWN
    return "; ".join(causes[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _without_cause(outcome: str, before: Program, after: Program, left: bool) -> str:
    """What to say when code, values and shapes are those of the program before."""
    if after.unsound:
        return f"always traced: {'; '.join(after.unsound[:_SHOWN])}"
    if before.settings != after.settings:
        return "JAX settings have changed"
    if left:
        return "it had left the cache (programs.limit)"
    if outcome in ("rebound", "retraced"):
        return "it computes the same as before"
    return "the outputs it follows have changed"


def differences(before: Program, after: Program) -> list[str]:
    """What one program was made from, and another of its name was not, in words."""
    causes: list[str] = []
    for read, content in after.contents.items():
        causes += _read_causes(read, _earlier(read, content, before.contents), content)
    causes += _model_causes(before, after.model, after.made)
    if before.avals != after.avals:
        words = _aval_cause(before.avals, after.avals)
        if words != _OTHER_INPUTS or not causes:  # other code takes other inputs
            causes.append(words)
    return list(dict.fromkeys(causes))


def moved(before: Program, source: Source, model: Fingerprint | None) -> list[str]:
    """What differs in newer code from what a program was made from."""
    causes: list[str] = []
    for read, content in before.contents.items():
        causes += _read_causes(read, content, source.content(read))
    made = {read: source.content(read) for read in before.made}
    causes += _model_causes(before, model, made)
    return list(dict.fromkeys(causes))


def _model_causes(
    before: Program, model: Fingerprint | None, made: Mapping[Read, Any]
) -> list[str]:
    """What `build_model` read that differs, and what the model itself says."""
    if before.model is None or model is None or before.model.digest == model.digest:
        return []
    said = explain(before.model, model)
    exact = [words for words in said if words != "the model changed"]
    return [*made_causes(before.made, made), *exact] or said


def made_causes(before: Mapping[Read, Any], after: Mapping[Read, Any]) -> list[str]:
    """What differs between two things that host code read."""
    return [
        cause
        for read, content in after.items()
        for cause in _read_causes(read, before.get(read), content)
    ]


def _earlier(read: Read, content: Any, before: Mapping[Read, Any]) -> Any:
    """What was read earlier; of libraries, by whatever names code takes from them."""
    if read.kind != "library" or read in before:
        return before.get(read)
    found = [before[one] for one in before if one.kind == "library"]
    return content if content in found or not found else found[0]


def _read_causes(read: Read, old: Any, new: Any) -> list[str]:
    if old == new or (old is None and read.kind != "recipe"):
        return []
    if isinstance(old, Fingerprint) and isinstance(new, Fingerprint):
        return _content_causes(read, old, new)
    if read.kind == "recipe":
        return [_recipe_cause(read.name, old, new)]
    if read.kind == "device":
        what = "is gone" if new == ABSENT else "has another shape or dtype"
        return [f"Device field {read.name} {what}"]
    if isinstance(new, Fingerprint):
        return [f"new: {_placed(read, new)}"]
    return [f"gone: {read.name}()"]


def _content_causes(read: Read, old: Fingerprint, new: Fingerprint) -> list[str]:
    if old.digest == new.digest:
        return []
    if read.kind == "const":
        was, now = _text(old), _text(new)
        change = f"{was} -> {now}" if was != now else "changed"
        return [f"GraphConst {read.name} {change}"]
    return explain(old, new) or [f"{read.name} changed"]


def _recipe_cause(name: str, old: Any, new: Any) -> str:
    if not isinstance(old, tuple) or not isinstance(new, tuple):
        return f"{name} {old} -> {new}"
    if len(old) != len(new):
        return f"{name} of other parameters"
    count = sum(a != b for a, b in zip(old, new, strict=True))
    return f"{name} of {count} parameter{'' if count == 1 else 's'}"


def _placed(read: Read, content: Fingerprint) -> str:
    where = content.parts[0].where if content.parts else ""
    return f"{read.name}()" + (f", {where}" if where else "")


def _text(content: Fingerprint) -> str:
    return content.parts[0].text if content.parts else "?"


def _aval_cause(old: Any, new: Any) -> str:
    """Name the first shapes that differ, if the inputs are the same otherwise."""
    if old[0] != new[0]:
        return _OTHER_INPUTS
    for was, now in zip(old[1], new[1], strict=True):
        if was != now:
            return f"shapes: {_shape(was)} -> {_shape(now)}"
    return "other inputs"


def _shape(aval: Any) -> str:
    shape, dtype, _ = aval
    return f"{dtype}[{','.join(map(str, shape))}]"
