from __future__ import annotations

import contextlib
import gc
import sys
import types

import pytest

from nitro_repl._programs import skeleton


@contextlib.contextmanager
def grows(names):
    """Whenever memory is swept, which is inside many calls, a name is added."""
    limits, added = gc.get_threshold(), []
    pairs = [(n, -n) for n in range(5000)]  # Python keeps old ones, and sweeps for new

    def add(phase, info):
        added.append(f"added_{len(added)}")
        names[added[-1]] = types.ModuleType("added")

    gc.callbacks.append(add)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*limits)
        del pairs
        gc.callbacks.remove(add)
        for name in added:
            names.pop(name, None)


def test_primitives_are_found_while_another_thread_imports():
    expected = {id(one) for one in skeleton._primitives()}
    with grows(sys.modules):
        found = {id(one) for one in skeleton._primitives()}
    assert found == expected


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="swept between instructions")
def test_what_grows_does_so_inside_a_plain_look():
    with grows(sys.modules), pytest.raises(RuntimeError, match="changed size"):
        list(sys.modules.items())
