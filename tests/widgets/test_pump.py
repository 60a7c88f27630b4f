from __future__ import annotations

import threading

from nitro_repl._run import companion
from nitro_repl._widgets import pump


def test_while_the_process_ends_nothing_wakes_a_thread(monkeypatch):
    monkeypatch.setattr(companion, "_exiting", threading.Event())
    turned = threading.Event()

    def turn():
        turned.set()
        return False

    one = pump.Pump(turn, "a panel")
    one.wake()
    assert turned.wait(10), "control"
    companion._exit()
    one.wake()
    assert not one.live
