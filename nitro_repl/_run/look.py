"""What is shown of a run beside curves and story, as sections of plain JSON.

Each look is cheap: what costs more is looked up only when something may have moved it.
"""

from __future__ import annotations

import time
from typing import Any

from .._code.arrays import light_look
from .._programs import disk
from .failure import describe
from .run import Run
from .status import ENDED
from .unseen import unseen
from .words import BLOCK, number, words

Sections = dict[str, Any]

_WORKING = "compiling "


class Look:
    """Looks at one run again and again.

    Args:
        run: The run.
    """

    def __init__(self, run: Run):
        self._run = run
        self._cache = run.handle.cache
        self._events = -1
        self._outcomes: dict[str, dict[str, Any]] = {}
        self._stale: tuple[str, ...] = ()
        self._edit = ""
        self._moved = True
        self._since: dict[str, tuple[str, float]] = {}
        self._told: tuple[BaseException | None, str] = (None, "")

    def moved(self) -> None:
        """The user's code may have moved: look up anew which programs are stale."""
        self._moved = True

    def sections(self) -> Sections:
        """All sections of this moment."""
        run = self._run
        now = run.progress()
        return {
            "head": {
                "run": words(run.id),
                "experiment": words(type(run.handle.experiment).__name__),
                "live": run.live,
                "ended": now.phase in ENDED,
            },
            "progress": {
                "step": now.step,
                "total": now.total_steps,
                "epoch": now.epoch,
                "epochs": now.total_epochs,
                "loss": number(now.loss),
                "rate": number(now.rate),
                "eta": number(now.eta_s),
                "wait": number(now.data_wait),
                "phase": words(now.phase),
                "phase_at": self._since_when("phase", now.phase),
                "note": words(now.note),
                "note_at": self._since_when("note", now.note),
                "epoch_steps": run.steps_per_epoch,
            },
            "values": [_value(row) for row in run.values()],
            "programs": self._programs(now.phase, now.note),
            "edit": self._edit,
            "error": self.error(),
        }

    def _since_when(self, what: str, text: str) -> float:
        if self._since.get(what, ("", 0.0))[0] != text or what not in self._since:
            self._since[what] = (text, time.time())
        return self._since[what][1]

    def _programs(self, phase: str, note: str) -> list[dict[str, Any]]:
        busy = {t.removeprefix(_WORKING) for t in (phase, note) if _WORKING in t}
        count = self._cache.count()
        if count != self._events:
            self._events, self._moved = count, True
            self._outcomes = self._latest()
        if self._moved and not busy and phase != "starting":
            with disk.untraced(wait=False) as free:
                if free:
                    self._moved = False  # before the look: an edit meanwhile counts
                    self._stale, self._edit = self._outlook()
        unknown = unseen(self._run.programs.programs)
        doubted = unknown.keys() - set(self._stale)
        names = dict.fromkeys([*self._run.program_names(), *self._outcomes])
        return [
            {
                "name": words(name, 60),
                "outcome": "",
                "why": "",
                "cost": None,
                **self._outcomes.get(name, {}),
                **({"why": words(unknown[name])} if name in doubted else {}),
                "stale": name in self._stale,
                "busy": name in busy,
            }
            for name in dict.fromkeys([*names, *sorted(busy & _known(names, busy))])
        ]

    def _outlook(self) -> tuple[tuple[str, ...], str]:
        """The stale programs, and what else is to be said of the newest code."""
        with light_look():
            found = self._run.outlook()
        also = f"also moved: {', '.join(found.labels)}" if found.labels else ""
        said = [also, str(found.refusal)]
        return found.stale, words("\n".join(filter(None, said)), BLOCK)

    def _latest(self) -> dict[str, dict[str, Any]]:
        """The last lookup that was more than a hit of each program, else its last."""
        found: dict[str, dict[str, Any]] = {}
        for event in self._cache.events():
            if event.run != self._run.id or event.outcome == "evicted":
                continue
            known = found.get(event.program)
            if known is None or event.outcome != "hit" or known["outcome"] == "hit":
                found[event.program] = {
                    "outcome": event.outcome,
                    "why": words(event.reason),
                    "cost": event.trace_s + event.lower_s + event.compile_s,
                }
        return found

    def error(self) -> str:
        """What ended the run, with the user's own frames; empty while all is well."""
        error = self._run.exception
        if error is not self._told[0]:
            self._told = (error, words(describe(error), BLOCK) if error else "")
        return self._told[1]


def _known(names: Any, busy: set[str]) -> set[str]:
    """The texts that are names of programs: a note may say other things."""
    return {name for name in busy if name in names or name.isidentifier()}


def _value(row: Any) -> dict[str, Any]:
    return {
        "name": words(row.name, 120),
        "value": number(row.value),
        "next": number(row.following),
        "default": number(row.default),
        "changed": row.changed,
        "follows": row.follows,
        "kind": row.kind,
        "bounds": None if row.bounds is None else [number(x) for x in row.bounds],
        "log": row.log,
        "doc": words(row.doc),
        "hyper": row.hyper,
    }
