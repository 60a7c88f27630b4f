from __future__ import annotations

import threading

from nitro_repl._widgets import pump


def test_while_the_process_ends_nothing_wakes_a_thread(monkeypatch):
    monkeypatch.setattr(pump, "_exiting", threading.Event())
    turned = threading.Event()

    def turn():
        turned.set()
        return False

    one = pump.Pump(turn, "a panel")
    one.wake()
    assert turned.wait(10), "control"
    pump._exit()
    one.wake()
    assert not one.live
