"""Runs over each other in a notebook: a comparison whose live runs go on moving.

One widget and one thread that writes it, like a panel; below it the comparison as it
stands, for a notebook without a kernel. Of a run that is no longer known the curves of
the comparison are shown.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import secrets
import time
from typing import Any

from .._code.arrays import light_look
from .._run import registry
from .._run.compare import compared
from .._run.comparison import Comparison, color
from .._run.curves import Curves, Series
from .._run.points import LIMIT
from .._run.side import Side, side
from .._run.words import number, words
from .pump import Pump
from .routing import pin
from .series import Packed
from .wire import Wire

_LOOK_S, _STILL_S = 1.0, 20.0  # between two looks at what was changed; at the still
_POINTS = 2 * LIMIT  # of one thing measured, in all runs together
_FEWEST = 1000
_KEPT = 6  # comparisons that go on; of older ones the still picture is left
_LINES = 300


class Overlay:
    """What shows one comparison; made by `overlay_of`.

    Args:
        found: The comparison.
        display: Shows an object under a display id; `update=True` changes it.
        widget: Makes the front end's half from a title and a function for messages.
    """

    def __init__(self, found: Comparison, display: Any, widget: Any):
        self.name = f"comparison-{secrets.token_hex(4)}"
        self._found = found
        self._lines = _lines(found)
        self._display = display
        limit = max(_POINTS // len(found.sides), _FEWEST)
        self._members = [
            _Member(one, min(limit, LIMIT) // 4 * 4) for one in found.sides
        ]
        self._changes = self._count()
        self._looked = self._stilled = -math.inf
        self._shown = False
        self._still: Still | None = None  # that no cell has shown yet
        self._widget = widget(
            f"comparison of {len(found.sides)} runs", self._on_message
        )
        self._wire = Wire(self._widget.send)
        pin(self._widget)
        self._pump = Pump(self._turn, f"the comparison of {', '.join(found.runs)}")
        self._listeners = [
            # A lambda: a listener of the same name would take its place.
            member.run.on("phase", lambda run: self._pump.wake())
            for member in self._members
            if member.run is not None
        ]

    @property
    def live(self) -> bool:
        """Whether its thread is there."""
        return self._pump.live

    def show(self) -> None:
        """Show it under the cell that runs now, and its static form below it."""
        self._display(self._widget)
        self._display(Still(self._found, self.name), display_id=f"nitro-{self.name}")
        self._stilled = time.monotonic() if self._live() else -math.inf
        self._shown = True
        self._pump.wake()

    def settle(self) -> None:
        """Show the static form of runs that have ended from the cell that runs now."""
        if self._still is not None and not self._live() and self._pump.rest():
            still, self._still = self._still, None
            self._display(still, display_id=f"nitro-{self.name}", update=True)

    def close(self) -> None:
        """Write it no more."""
        for listener in self._listeners:
            listener.cancel()
        self._pump.stop()

    def forget(self) -> None:
        """Close it and let go of the widget: the static form comes to sight."""
        self.close()
        self._widget.close()

    def _on_message(self, message: Any) -> None:
        if isinstance(message, dict) and message.get("t") == "hello":
            self._wire.ask()
            self._pump.wake()

    # ---- on the thread of the pump

    def _turn(self) -> bool:
        live = self._live()  # asked first, so that the last values are taken in
        kept = all([member.read() for member in self._members])
        self._look()
        everything = self._wire.begin(anew=not kept)
        if everything is not None:
            packed = Packed()
            for place, member in enumerate(self._members):
                packed.add(member.all() if everything else member.new(), run=place)
            send = self._wire.full if everything else self._wire.new
            send(packed, self._sections(live))
        if live or self._stilled > -math.inf:
            self._refresh(live)
        return live

    def _live(self) -> bool:
        return any(member.live for member in self._members)

    def _count(self) -> list[int]:
        return [member.changes for member in self._members]

    def _look(self) -> None:
        """Compare anew where something was done to a run."""
        now, count = time.monotonic(), self._count()
        if count != self._changes and now - self._looked > _LOOK_S:
            self._looked, self._changes = now, count
            with light_look():
                sides = [member.look() for member in self._members]
            self._found = compared(sides, self._found.metric, self._found.mode)
            self._lines = _lines(self._found)

    def _now(self, curves: bool = False) -> Comparison:
        sides = tuple(member.now(curves) for member in self._members)
        return dataclasses.replace(self._found, sides=sides)

    def _sections(self, live: bool) -> dict[str, Any]:
        now = self._now()
        values, metrics = {**now.fields, **now.settings}, now.shown_metrics()
        columns = [(name, "value") for name in values]
        columns += [(name, "metric") for name in metrics]
        return {
            "head": {
                "name": self.name,
                "metric": words(now.metric, 120),
                "mode": now.mode,
                "best": None if now.best is None else words(now.best),
                "live": live,
            },
            "columns": [
                {"name": words(name, 120), "kind": kind} for name, kind in columns
            ],
            "rows": [
                {
                    "run": words(one.run),
                    "experiment": words(one.experiment, 60),
                    "color": color(place),
                    "phase": words(one.progress.phase, 60),
                    "step": one.progress.step,
                    "cells": [
                        *(number(row[place]) for row in values.values()),
                        *(_finite(row[place]) for row in metrics.values()),
                    ],
                }
                for place, one in enumerate(now.sides)
            ],
            "charts": [words(name, 180) for name in now.metrics],
            "lines": self._lines,
        }

    def _refresh(self, live: bool) -> None:
        """Bring the static form up to date: now and then, and when nothing moves."""
        if self._shown and (not live or time.monotonic() - self._stilled > _STILL_S):
            self._stilled = time.monotonic() if live else -math.inf
            self._still = Still(self._now(curves=True), self.name)
            self._display(self._still, display_id=f"nitro-{self.name}", update=True)


class _Member:
    """A run of a comparison, or what was taken down of one that is not known."""

    def __init__(self, taken: Side, limit: int):
        self._taken = taken
        self.run = registry.runs.get(taken.run)
        self._curves = Curves(self.run.record.history, limit) if self.run else None

    @property
    def live(self) -> bool:
        return self.run is not None and self.run.live

    @property
    def changes(self) -> int:
        return len(self.run.record.journal.entries) if self.run else 0

    def read(self) -> bool:
        return self._curves is None or self._curves.read()

    def all(self) -> list[Series]:
        if self._curves is not None:
            return self._curves.all()
        return [("train", name, x, y) for name, (x, y) in self._taken.curves.items()]

    def new(self) -> list[Series]:
        return [] if self._curves is None else self._curves.new()

    def look(self) -> Side:
        if self.run is not None:
            self._taken = side(self.run)
        return self._taken

    def now(self, curves: bool) -> Side:
        """What it is now; its curves only if they are wanted."""
        if self.run is None or self._curves is None:
            return self._taken
        last = {**self._taken.last, **self._curves.last()}
        drawn = {"curves": self._curves.labelled()} if curves else {}
        return dataclasses.replace(
            self._taken, progress=self.run.progress(), last=last, **drawn
        )


class Still:
    """The static form of a comparison, hidden where the widget of that name is drawn.

    Args:
        found: The comparison.
        name: What a widget knows it by.
    """

    def __init__(self, found: Comparison, name: str):
        self._found = found
        self._name = name

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None):
        page = f'<div class="nitro-{self._name}">{self._found._repr_html_()}</div>'
        return {"text/plain": repr(self._found), "text/html": page}


def _lines(found: Comparison) -> list[str]:
    return [words(text.plain) for text in found.details()[:_LINES]]


def _finite(value: float) -> Any:
    return "" if math.isnan(value) else number(float(value))


_shown: list[Overlay] = []


def overlay_of(found: Comparison, display: Any, widget: Any) -> Overlay:
    """What shows a comparison, anew each time; the oldest of many moves no more."""
    _shown.append(Overlay(found, display, widget))
    while len(_shown) > _KEPT:
        with contextlib.suppress(Exception):  # its front end may be gone
            _shown.pop(0).forget()
    return _shown[-1]


def settle() -> None:
    """Show the static forms of what has ended from the cell that runs now."""
    for overlay in list(_shown):
        overlay.settle()


def close_all() -> None:
    """Write no comparison any more."""
    while _shown:
        _shown.pop().close()
