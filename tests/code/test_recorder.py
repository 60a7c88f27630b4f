from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
from code_sources import run

from nitro_repl._code import Recorder, fingerprint
from nitro_repl._code.references import code_info

SOURCE = """
R = {}
def a(x): return x
def b(x): return x + 1
R["a"] = a
def by_registry(x): return R["a"](x)
def by_name(x): return globals()["b"](x)
def unused(x): return x + 2
"""


@pytest.fixture
def names():
    return run(SOURCE, "<cell 3>")


def digest(function):
    return code_info(function.__code__).digest


def test_it_sees_what_ran_and_nothing_else(names):
    with Recorder() as seen:
        names["by_registry"](1)
        names["by_name"](1)
    ran = ("a", "b", "by_registry", "by_name")
    assert seen.codes == {digest(names[name]) for name in ran}
    assert seen.names[digest(names["b"])] == "b(), In [3]"


def test_a_second_recording_sees_the_same(names):
    for _ in range(3):
        with Recorder() as seen:
            names["a"](1)
        assert seen.codes == {digest(names["a"])}


def test_the_walk_misses_what_only_the_recorder_sees(names):
    reached = fingerprint(names["by_name"])
    with Recorder() as seen:
        names["by_name"](1)
    assert seen.codes - reached.codes == {digest(names["b"])}
    assert reached.unsound


def test_nothing_of_another_thread_is_seen_nor_hidden(names):
    go, done = threading.Event(), threading.Event()

    def other():
        go.wait()
        names["a"](1)
        names["unused"](1)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with Recorder() as seen:
        go.set()
        done.wait()
        names["a"](1)  # first run by the other thread, still seen here
    thread.join()
    assert digest(names["a"]) in seen.codes
    assert digest(names["unused"]) not in seen.codes


def test_library_code_is_not_recorded(names):
    import collections
    import statistics

    pair = collections.namedtuple("pair", "a b")
    with Recorder() as seen:
        statistics.mean([1, 2])
        pair(1, 2)
    assert seen.codes == frozenset()


def test_what_code_says_is_names_not_prose():
    long = "n" * 101
    source = f"""
def f(x):
    'Prose, that names nothing.'
    return getattr(x, 'real'), x.imag, 'nn.relu', 'two words', '{long}'
"""
    with Recorder() as seen:
        run(source, "<cell 1>")["f"](1.0)
    assert {"getattr", "real", "imag", "nn", "relu"} <= seen.said
    assert not {"two words", long} & seen.said
    assert all(map(str.isidentifier, seen.said))


def test_the_installed_modules_whose_code_ran_are_known():
    with Recorder() as seen:
        np.stack([np.zeros(2)])
    assert any(name.startswith("numpy.") for name in seen.modules)
    assert not any(name.startswith("nitro_repl") for name in seen.modules)


def test_a_profiler_keeps_running(names):
    events = []

    def profile(frame, event, arg):
        events.append((frame.f_code.co_name, event))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        with Recorder() as seen:
            names["a"](1)
        assert sys.getprofile() is profile
        names["b"](1)
    finally:
        sys.setprofile(before)
    assert digest(names["a"]) in seen.codes
    assert {("a", "call"), ("b", "call")} <= set(events)


def test_cprofile_keeps_running(names):
    import cProfile

    profiler = cProfile.Profile()
    try:
        profiler.enable()
    except ValueError:
        pytest.skip("another profiler runs")
    with Recorder() as seen:
        names["a"](1)
    names["b"](1)
    profiler.disable()
    called = {
        entry.code.co_name
        for entry in profiler.getstats()
        if hasattr(entry.code, "co_name")
    }
    assert digest(names["a"]) in seen.codes
    assert "b" in called


def test_an_error_ends_the_recording(names):
    seen = Recorder()

    def fail():
        with seen:
            names["a"](1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert digest(names["a"]) in seen.codes
    with Recorder() as again:
        pass
    assert again.codes == frozenset()


def test_recordings_may_nest(names):
    with Recorder() as outer:
        names["a"](1)
        with Recorder() as inner:
            names["a"](1)
            names["b"](1)
    assert inner.codes == {digest(names["a"]), digest(names["b"])}
    assert outer.codes == inner.codes


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="3.12+")
def test_without_a_free_tool_the_profiler_takes_over(names):
    monitoring = sys.monitoring
    taken = []
    for tool in range(6):
        try:
            monitoring.use_tool_id(tool, "other")
        except ValueError:
            continue
        taken.append(tool)
    try:
        with Recorder() as seen:
            names["a"](1)
    finally:
        for tool in taken:
            monitoring.free_tool_id(tool)
    assert digest(names["a"]) in seen.codes
    assert sys.getprofile() is None
