"""The story of a run: what was done to it and what it told, as lines and as flags.

Only what is new is read each time; of both the last ones are kept. The values that one
drag of a slider passes through are one change, from its first value to its last.
"""

from __future__ import annotations

import datetime
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from .._text import show
from .points import AXIS
from .words import words

LINES, FLAGS = 100, 300
_RESULT_S = 1.0  # between two lines of results; the curves have them all
_DRAG_S = 1.0  # between two values of one drag, at most
_SAID = 200  # characters of a line of the log; a notice may have several

Item = dict[str, Any]
Results = Mapping[str, Mapping[str, float]]
"""The last row of a split, by its name."""

CHANGES = ("set", "unset", "swap", "undo", "load", "horizon", "not finite")
"""Commands that change what the curves mean."""


class Story:
    """Lines and flags of one run.

    Args:
        journal: Has `since(count)`, of entries.
        log: Has `since(count)`, of lines.

    Attributes:
        lines: The last lines: "at" (seconds since the epoch), "text", "kind".
        flags: The last changes: "step", "text", "kind".

    What has a "key" takes the place of what had it before.
    """

    def __init__(self, journal: Any, log: Any):
        self._journal, self._log = journal, log
        self._entries = self._said = 0
        self._told_at: dict[str, float] = {}
        self._drag: dict[str, Any] = {}  # the latest change, if a drag made it
        self.lines: deque[Item] = deque(maxlen=LINES)
        self.flags: deque[Item] = deque(maxlen=FLAGS)

    def fresh(self, results: Results) -> tuple[list[Item], list[Item]]:
        """The lines and the flags since the last time.

        Args:
            results: What evaluations gave; where they come fast only some are told.
        """
        entries, self._entries = self._journal.since(self._entries)
        said, self._said = self._log.since(self._said)
        entries = self._folded(entries)
        lines = [_line(entry) for entry in entries]
        lines += [
            {"at": one.at, "text": words(one.text, 8 * _SAID), "kind": "bad"}
            if one.bad
            else {"at": one.at, "text": words(one.text, 2 * _SAID), "kind": "told"}
            for one in said
        ]
        lines = sorted([*lines, *self._told(results)], key=lambda line: line["at"])
        flags = [_flag(entry) for entry in entries if entry["command"] in CHANGES]
        _put(self.lines, lines)
        _put(self.flags, flags)
        return lines[-LINES:], flags[-FLAGS:]

    def _folded(self, entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The entries, those of one drag as one with a key."""
        found: dict[Any, dict[str, Any]] = {}
        for entry in entries:
            name, last = _dragged(entry), self._drag
            now = {**entry, "at": _when(entry)}
            if name is None:
                self._drag = {}
            elif last and last["name"] == name and now["at"] - last["at"] <= _DRAG_S:
                first = {"before": last["before"], "key": last["key"]}
                self._drag = now = {**now, **first, "name": name}
            else:
                key = f"{name} {now['at']} {now['step']}"
                self._drag = now = {**now, "name": name, "key": key}
            found[now.get("key", len(found))] = now
        return list(found.values())

    def _told(self, results: Results) -> list[Item]:
        now = time.time()
        due = [s for s in results if now - self._told_at.get(s, 0.0) >= _RESULT_S]
        self._told_at |= dict.fromkeys(due, now)
        return [
            {"at": now, "text": _result(split, results[split]), "kind": "result"}
            for split in due
        ]


def change(entry: Mapping[str, Any]) -> str:
    """What an entry of the journal says, in words without its step."""
    command, before, after = entry["command"], entry["before"], entry["after"]
    if isinstance(after, Mapping):
        before = before if isinstance(before, Mapping) else {}
        if command in ("swap", "undo"):
            return _swapped(entry)
        pairs = [
            f"{name} {_short(before.get(name))} → {_short(value)}"
            for name, value in after.items()
        ]
        return words(f"{command} {', '.join(pairs)}")
    return words(command if after is None else f"{command} {_short(after)}")


def _swapped(entry: Mapping[str, Any]) -> str:
    told = [*(entry.get("why") or ()), *(entry.get("notes") or ())]
    made = [line for line in told if ": hit" not in str(line)]
    return words("; ".join(map(str, [entry["command"], *made])))


def _dragged(entry: Mapping[str, Any]) -> str | None:
    """The one value that was set in a panel."""
    after = entry["after"]
    if (entry["command"], entry["by"]) == ("set", "panel") and len(after or ()) == 1:
        return str(next(iter(after)))
    return None


def _when(entry: Mapping[str, Any]) -> float:
    return datetime.datetime.fromisoformat(entry["time"]).timestamp()


def _line(entry: Mapping[str, Any]) -> Item:
    text = f"step {entry['step']:,}  {change(entry)}  ({words(entry['by'], 20)})"
    return {"at": entry["at"], "text": text, "kind": "change", **_keyed(entry)}


def _flag(entry: Mapping[str, Any]) -> Item:
    about = {"step": entry["step"], "text": change(entry), "kind": entry["command"]}
    return {**about, **_keyed(entry)}


def _keyed(entry: Mapping[str, Any]) -> Item:
    return {"key": words(entry["key"], 120)} if "key" in entry else {}


def _put(kept: deque[Item], items: Iterable[Item]) -> None:
    """Add items, each in place of the one with its key."""
    for item in items:
        key = item.get("key")
        if key is not None and any(one.get("key") == key for one in kept):
            left = [one for one in kept if one.get("key") != key]
            kept.clear()
            kept.extend(left)
        kept.append(item)


def _result(split: str, row: Mapping[str, float]) -> str:
    numbers = (f"{n}={value:.4g}" for n, value in row.items() if n not in AXIS)
    return words(f"step {int(row['step']):,}  {split}: {' '.join(numbers)}")


def _short(value: Any) -> str:
    return "?" if value is None else value if isinstance(value, str) else show(value)
