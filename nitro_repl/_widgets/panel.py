"""The live panel of a run: one widget, one thread that writes it, and its static form.

Messages to the front end carry a number each; one that misses any asks for everything
again. Nothing here can make the run wait.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from .._run import registry
from .._run.curves import Curves, is_loss
from .._run.look import Look, Sections
from .._run.run import Run
from .._run.status import ENDED
from .._run.story import Item, Story
from .clicks import Clicks
from .pump import Pump
from .routing import pin, unpin_all
from .series import Packed
from .summary import Summary
from .wire import Wire

_TEXT_S, _REFRESH_S = 0.25, 20.0  # between refreshes of the static form


class Panel:
    """What shows one run in a notebook; made by `panel_of`.

    Args:
        run: The run.
        display: Shows an object under a display id; `update=True` changes it.
        widget: Makes the front end's half from a title and a function for messages.
        period: Seconds between two lines of text, where no browser draws the panel.
    """

    def __init__(self, run: Run, display: Any, widget: Any, period: float = _TEXT_S):
        self.run = run
        self._display = display
        self._period = max(period, _TEXT_S)
        self._clicks = Clicks(run)
        self._look = Look(run)
        self._story = Story(run.journal, run.log)
        self._curves = Curves(run.record.history)
        self._static_at = -math.inf
        self._static: tuple[str, int] | None = None  # where the static form was made
        self._line = ""
        self._still: Summary | None = None  # the static form as it was shown last
        self._settled: Summary | None = None  # and last from a cell of a run that ended
        self._shown = False
        self._widget = widget(f"panel of run {run.id}", self._on_message)
        self._wire = Wire(self._widget.send)
        pin(self._widget)
        self._pump = Pump(self._turn, f"the panel of run `{run.id}`")
        self._listener = run.on("phase", self._on_phase)

    @property
    def live(self) -> bool:
        """Whether its thread is there."""
        return self._pump.live

    def show(self) -> None:
        """Show it under the cell that runs now, and its static form below it."""
        self._display(self._widget)
        line = Summary(self.run.id, str(self.run.progress()))
        self._display(line, display_id=self._id)  # the pump makes more of it
        self._static, self._static_at, self._shown = None, -math.inf, True
        self._pump.wake()

    def settle(self) -> None:
        """Show the static form of a run that has ended from the cell that runs now.

        A front end that runs a notebook without a browser takes in only what the
        running cell sends. Once for each end: nothing is done while nothing is new.
        """
        if not self._shown or self.run.live or self.run.swapping:
            return
        if self._pump.rest() and self._still is not self._settled:
            self._settled = self._still
            self._display(self._still, display_id=self._id, update=True)

    def moved(self) -> None:
        """The user's code may have moved."""
        self._look.moved()
        self._pump.wake()

    def close(self) -> None:
        """Write it no more."""
        self._listener.cancel()
        self._pump.stop()

    def forget(self) -> None:
        """Close it and let go of the widget."""
        self.close()
        self._widget.close()

    @property
    def _id(self) -> str:
        return f"nitro-{self.run.id}"

    # ---- from the front end and from the run, on any thread

    def _on_message(self, message: Any) -> None:
        if not isinstance(message, Mapping):
            return
        if message.get("t") == "hello":
            self._wire.ask()
        elif message.get("t") == "do":
            self._clicks.take(message)
        self._pump.wake()

    def _on_phase(self, run: Run) -> None:
        self._pump.wake()

    # ---- on the thread of the pump

    def _turn(self) -> bool:
        """Show what is new; false when nothing more will come by itself."""
        live = self.run.live  # asked first, so that the last values are taken in
        self._clicks.flush()
        full = not self._curves.read()
        lines, flags = self._story.fresh(self._curves.results())
        everything = self._wire.begin(anew=full)
        if everything:
            self._send_all()
        elif everything is not None:
            self._send_new(lines, flags)
        self._refresh()
        return live or self.run.swapping or not self._clicks.idle

    def _sections(self) -> Sections:
        waiting, notices = self._clicks.waiting(), self._clicks.notices()
        return {**self._look.sections(), "waiting": waiting, "notices": notices}

    def _send_all(self) -> None:
        heard = self._clicks.known()
        self._wire.full(
            Packed().add(self._curves.all()),
            self._sections(),
            lines=list(self._story.lines),
            flags=list(self._story.flags),
            heard=heard,
        )

    def _send_new(self, lines: list[Item], flags: list[Item]) -> None:
        heard = self._clicks.heard()  # first: what comes later is said to wait
        packed, state = Packed().add(self._curves.new()), self._sections()
        self._wire.new(packed, state, lines=lines, flags=flags, heard=heard)

    def _refresh(self) -> None:
        """Bring the static form up to date: now and then, and when the run stands."""
        if not self._shown:
            return
        phase, here = self.run.phase, (self.run.phase, self.run.step)
        since = time.monotonic() - self._static_at
        stands = phase in ENDED or (phase == "paused" and since > _TEXT_S)
        if (stands and here != self._static) or since > _REFRESH_S:
            self._static = here
            self._update(self._summary())
        elif not self._wire.connected and since > self._period:
            line = str(self.run.progress())
            if line != self._line:
                self._update(Summary(self.run.id, line))

    def _update(self, shown: Summary) -> None:
        self._static_at = time.monotonic()
        self._line = str(self.run.progress())
        self._still = shown
        self._display(shown, display_id=self._id, update=True)

    def _summary(self) -> Summary:
        return Summary(
            self.run.id,
            str(self.run.progress()),
            curves=_losses(self._curves),
            numbers=self._curves.last(),
            changes=list(self._story.flags),
            error=self._look.error(),
        )


def _losses(curves: Curves) -> dict[str, Any]:
    return {name: curve for name, curve in curves.labelled().items() if is_loss(name)}


panels: dict[str, Panel] = {}
"""The panels of this process, by run id."""


def panel_of(run: Run, display: Any, widget: Any, period: float = _TEXT_S) -> Panel:
    """The panel of a run, made when it is first asked for."""
    for gone in [name for name in panels if name not in registry.runs]:
        panels.pop(gone).forget()
    if run.id not in panels:
        panels[run.id] = Panel(run, display, widget, period)
    return panels[run.id]


def settle() -> None:
    """Show the static forms of runs that have ended from the cell that runs now."""
    for panel in list(panels.values()):
        panel.settle()


def moved() -> None:
    """The user's code may have moved: tell all panels."""
    for panel in list(panels.values()):
        panel.moved()


def close_all() -> None:
    """Write no panel any more."""
    for name in list(panels):
        panels.pop(name).close()
    unpin_all()
