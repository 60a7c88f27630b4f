"""What every test stands on: the CPU, an empty cache on demand, no stray thread."""

from __future__ import annotations

import os
import signal
import sys
import threading

# Before the first import of jax; a test of an accelerator sets it itself.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# What another session compiled would hide what ours does; and a home is not for tests.
os.environ["NITRO_CACHE_DIR"] = "off"

import pytest

JOIN_S = 10.0


@pytest.fixture
def fresh_programs():
    """The program cache, emptied."""
    import nitro_repl

    nitro_repl.programs.clear()
    return nitro_repl.programs


@pytest.fixture(autouse=True, scope="session")
def interruptible():
    """Let interrupts arrive: a shell that starts us in the background ignores them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_shell(request, monkeypatch):
    """Hide the IPython shell of other tests: in one, runs have other defaults."""
    shells = sys.modules.get("IPython.core.interactiveshell")
    if shells is not None and "bare_shell" not in request.fixturenames:
        monkeypatch.setattr(shells.InteractiveShell, "_instance", None)


@pytest.fixture(autouse=True)
def no_thread_left():
    """Fail a test that leaves one of our threads alive."""
    yield
    stray = [thread.name for thread in our_threads() if outlives(thread)]
    if stray:
        stop_live_runs()  # so that one test's mistake stays one failure
    assert not stray, f"threads left alive: {stray}"
    forget_runs()


def our_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("nitro")]


def outlives(thread: threading.Thread) -> bool:
    # A run that ended joins soon; one that is live never does.
    thread.join(JOIN_S if not live_runs() else 0.2)
    return thread.is_alive()


def live_runs() -> list:
    from nitro_repl._run import registry

    return [run for run in registry.runs.values() if run.live]


def stop_live_runs() -> None:
    for run in live_runs():
        run.stop()


def forget_runs() -> None:
    """No test sees a run of another."""
    from nitro_repl._run import registry

    registry.runs.clear()
    registry._current.clear()
