"""What changed between two fingerprints, in sentences for the user.

Most specific first; nothing is said when the digests are equal.
"""

from __future__ import annotations

from collections.abc import Iterator

from .assigned import assigned
from .fingerprint import Fingerprint, Part

CHAIN = 5  # names of a call chain that are spelled out
NOUNS = {"global": "global", "closure": "captured", "attribute": "attribute"}
LOST = ("undefined", "gone")  # kinds of parts that stand for no value


def explain(old: Fingerprint, new: Fingerprint) -> list[str]:
    """Say what changed from `old` to `new`.

    Returns:
        Sentences like `constant 0.1 -> 0.2 in focal(), In [7]`; [] when nothing did.
    """
    if old.digest == new.digest:
        return []
    before, after = _by_name(old.parts), _by_name(new.parts)
    exact: list[str] = []
    vague: list[str] = []
    changed = [
        (before[key], part)
        for key, part in after.items()
        if key in before and before[key].digest != part.digest
    ]
    for was, part in _told_once(changed):
        sentences = list(_changes(was, part))
        (exact if _is_exact(was, part) else vague).extend(sentences)
    added = [after[key] for key in after if key not in before]
    gone = [before[key] for key in before if key not in after]
    lost = [_lost(part) for part in added if part.kind in LOST]
    said = [*lost, *exact, *vague, *_appeared(added), *_vanished(gone)]
    said = list(dict.fromkeys(said))
    return said or ["a value that the code reaches changed"]


def _by_name(parts: tuple[Part, ...]) -> dict[tuple[str, str, int], Part]:
    """Parts by kind and name; further ones of one name by their place in line."""
    count: dict[tuple[str, str], int] = {}
    named: dict[tuple[str, str, int], Part] = {}
    for part in parts:
        key = part.kind, part.name
        count[key] = count.get(key, 0) + 1
        named[(*key, count[key])] = part
    return named


def _told_once(pairs: list[tuple[Part, Part]]) -> Iterator[tuple[Part, Part]]:
    """All but globals that are told by another name, and modules by what is in them."""
    homes: set[tuple[str, str]] = set()
    inside = {part.name.rpartition(".")[0] for _, part in pairs if part.home}
    for was, part in pairs:
        if part.home is None:
            yield was, part
        elif part.home not in homes and part.name not in inside:
            homes.add(part.home)
            yield was, part


def _is_exact(was: Part, part: Part) -> bool:
    if part.kind == "function":
        return was.shape == part.shape
    return bool(was.text and part.text and was.text != part.text)


def _changes(was: Part, part: Part) -> Iterator[str]:
    if part.kind == "function":
        yield from _function_changes(was, part)
    elif part.kind == "class":
        yield f"class {part.name} changed{_at(part)}"
    elif was.text != part.text and was.text and part.text:
        at = assigned(*part.home, part.text) if part.home else ""
        change = f"{_noun(part)} {was.text} -> {part.text}"
        yield change + (f", {at}" if at else "") + _inside(part)
    else:
        yield f"{_noun(part)} changed{_inside(part)}"


def _function_changes(was: Part, part: Part) -> Iterator[str]:
    if was.shape == part.shape and len(was.constants) == len(part.constants):
        for old, new in zip(was.constants, part.constants, strict=True):
            if type(old) is not type(new) or repr(old) != repr(new):
                change = f"constant {_short(old)} -> {_short(new)}"
                yield f"{change} in {part.name}{_at(part)}"
        return
    if "." in part.name:
        cls, _, method = part.name.rpartition(".")
        yield f"class {cls}: {method} changed{_at(part)}"
    elif part.via:
        yield f"helper {part.name} changed ({_chain(part)}){_at(part)}"
    else:
        yield f"{part.name} changed{_at(part)}"


def _lost(part: Part) -> str:
    """A name that code still uses, and that is defined no more."""
    reader = f"{part.via[-1]}{_at(part)}" if part.via else "the code"
    if part.kind == "undefined":
        return f"`{part.name}` is not defined, {reader} reads it"
    return f"`{part.name}` is gone from its file, {reader} still leads to it"


def _appeared(parts: list[Part]) -> Iterator[str]:
    for part in parts:
        if part.kind == "library":
            yield f"{part.name} was replaced" + (
                f", by {part.text}" if part.text else ""
            )
    for part in parts:
        if part.kind in ("function", "class"):
            yield f"new: {part.name}{_at(part)}"
    for part in parts:
        if part.kind not in ("function", "class", "library", *LOST) and part.name:
            value = f" = {part.text}" if part.text else ""
            yield f"new: {_noun(part)}{value}{_inside(part)}"


def _vanished(parts: list[Part]) -> Iterator[str]:
    for part in parts:
        if part.kind == "library":
            yield f"{part.name} is the library's own again"
        elif part.name and part.kind not in LOST:
            named = part.kind in ("function", "class")
            yield f"no longer reached: {part.name if named else _noun(part)}"


def _noun(part: Part) -> str:
    noun = "" if part.home and "." in part.name else NOUNS.get(part.kind, "")
    return f"{noun} {part.name}" if noun else part.name or "the value"


def _inside(part: Part) -> str:
    """The code that reads a global; of a captured value, with its place."""
    if part.kind == "closure" and part.via:
        return f" in {part.via[-1]}{_at(part)}"
    return f", read by {part.via[-1]}" if part.kind == "global" and part.via else ""


def _at(part: Part) -> str:
    return f", {part.where}" if part.where else ""


def _chain(part: Part) -> str:
    names = part.via
    if len(names) > CHAIN:
        names = (*names[:2], "...", *names[-(CHAIN - 2) :])
    return " -> ".join(names)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
