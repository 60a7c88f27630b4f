from __future__ import annotations

import threading

import pytest


def snapshot(shell):
    """All that an extension can leave behind in a shell."""
    from nitro_repl import _where

    return {
        "magics": {k: set(v) for k, v in shell.magics_manager.magics.items()},
        "registry": set(shell.magics_manager.registry),
        "configurables": [type(c).__name__ for c in shell.configurables],
        "matchers": list(shell.Completer.custom_matchers),
        "events": {k: list(v) for k, v in shell.events.callbacks.items()},
        "cells": list(_where._resolvers),
        "threads": [t for t in threading.enumerate() if t.name.startswith("nitro")],
    }


@pytest.fixture
def clean(bare_shell):
    yield bare_shell
    if "nitro_repl" in bare_shell.extension_manager.loaded:
        bare_shell.run_line_magic("unload_ext", "nitro_repl")


def test_load_use_unload_leaves_nothing(clean):
    before = snapshot(clean)
    clean.run_line_magic("load_ext", "nitro_repl")
    assert "nitro" in clean.magics_manager.magics["line"]
    assert snapshot(clean) != before
    clean.run_cell("%nitro help").raise_error()
    clean.run_line_magic("unload_ext", "nitro_repl")
    assert snapshot(clean) == before


def test_loading_twice_and_reloading_leave_one_of_each(clean, capsys):
    clean.run_line_magic("load_ext", "nitro_repl")
    once = {
        k: v for k, v in snapshot(clean).items() if k in ("magics", "configurables")
    }
    matchers = len(clean.Completer.custom_matchers)
    clean.run_line_magic("load_ext", "nitro_repl")
    clean.run_line_magic("reload_ext", "nitro_repl")
    again = {
        k: v for k, v in snapshot(clean).items() if k in ("magics", "configurables")
    }
    assert again == once
    assert len(clean.Completer.custom_matchers) == matchers
    clean.run_cell("%nitro help").raise_error()


def test_importing_the_package_registers_nothing(clean):
    import nitro_repl

    assert nitro_repl.load_ipython_extension
    assert "nitro" not in clean.magics_manager.magics["line"]


def test_unloading_what_is_not_loaded_is_fine(clean):
    from nitro_repl._ipython.extension import unload

    unload(clean)


def test_a_cell_is_named_by_its_number_in_places(shell):
    from nitro_repl._where import place

    shell.execution_count = 7
    shell.run_cell("def in_a_cell():\n    pass", store_history=True).raise_error()
    assert place(shell.user_ns["in_a_cell"]) == "In [7], line 1"
