from __future__ import annotations

import itertools
import json
import threading

import numpy as np
import pytest

from nitro_repl._widgets import overlay as overlays, panel as panels
from tests.cells import tiny, until


@pytest.fixture(scope="module")
def book():
    return tiny(
        """
        class Bounded(Tiny):
            smoothing: Device[float] = nitro.field(0.1, bounds=(0.0, 0.3), doc="soft")
            table: Device[np.ndarray] = np.zeros(3, "float32")
        """
    )


class FakeFrontEnd:
    """The front end of a panel: what it was sent, and the curves that it has."""

    def __init__(self, title, on_message):
        self.title = title
        self._say = on_message
        self._changed = threading.Condition()
        self.messages = []
        self.times = []
        self.state, self.curves, self.lines, self.flags = {}, {}, [], []
        self.heard = set()
        self.next = None
        self.gaps = 0
        self.fails = None
        self.closed = False
        self._count = itertools.count()

    def send(self, message, buffers):
        if self.fails is not None:
            raise self.fails
        json.dumps(message, allow_nan=False)
        with self._changed:
            self.messages.append(message)
            self._take(message, buffers)
            self._changed.notify_all()

    def _take(self, message, buffers):
        if message["t"] == "full":
            self.curves, self.lines, self.flags = {}, [], []
        elif message["base"] != self.next:
            self.gaps += 1
            return
        self.next = message["next"]
        self.state |= message["state"]
        self.lines += message.get("lines", [])
        self.flags += message.get("flags", [])
        self.heard |= set(message.get("heard", ()))
        for one in message["series"]:
            x, y = (np.frombuffer(buffers[one[a]]) for a in "xy")
            key = (one["run"], one["label"]) if "run" in one else one["label"]
            known = self.curves.get(key, (np.empty(0), np.empty(0)))
            self.curves[key] = tuple(map(np.append, known, (x, y)))

    def hello(self):
        count = len(self.fulls)
        self._say({"t": "hello"})
        self.until(lambda: len(self.fulls) > count)

    @property
    def fulls(self):
        return [m for m in self.messages if m["t"] == "full"]

    def do(self, verb, id=None, **given):
        id = id or f"click-{next(self._count)}"
        self._say({"t": "do", "id": id, "verb": verb, "given": given})

    def until(self, true):
        with self._changed:
            assert self._changed.wait_for(true, 60), self.state

    def close(self):
        self.closed = True


class FakeDisplay:
    """What was displayed, by display id where there is one."""

    def __init__(self):
        self.shown, self.updates = [], []

    def __call__(self, thing, *, display_id=None, update=False):
        (self.updates if update else self.shown).append((display_id, thing))


@pytest.fixture
def show():
    """Makes and shows the panel of a run; gives its front end."""
    made = []

    def make(run):
        display = FakeDisplay()
        panel = panels.panel_of(run, display, FakeFrontEnd)
        panel.show()
        front = panel._widget
        front.display, front.panel = display, panel
        made.append(panel)
        return front

    yield make
    panels.close_all()
    for panel in made:
        until(lambda panel=panel: not panel.live)


@pytest.fixture
def lay():
    """Shows a comparison; gives its front end."""
    made = []

    def make(found):
        display = FakeDisplay()
        overlay = overlays.overlay_of(found, display, FakeFrontEnd)
        overlay.show()
        front = overlay._widget
        front.display, front.overlay = display, overlay
        made.append(overlay)
        return front

    yield make
    overlays.close_all()
    for overlay in made:
        until(lambda overlay=overlay: not overlay.live)
