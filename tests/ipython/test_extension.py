from __future__ import annotations

import importlib
import sys
import threading

import pytest

from tests.cells import until


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
        "threads": set(threading.enumerate()),
    }


@pytest.fixture
def clean(bare_shell):
    bare_shell.find_line_magic("load_ext")  # IPython adds it when it is first wanted
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


def test_unload_ends_the_watching_of_files(clean, user_file):
    before = snapshot(clean)
    clean.run_line_magic("load_ext", "nitro_repl")
    clean.run_cell("import nitro_user_file").raise_error()
    names = {t.name for t in threading.enumerate()}
    assert "nitro-observer" in names
    clean.run_line_magic("unload_ext", "nitro_repl")
    until(lambda: set(threading.enumerate()) <= before["threads"])
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


@pytest.fixture
def user_file(tmp_path, monkeypatch):
    """A module of the user's that a cell can import."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "nitro_user_file.py"
    file.write_text("def gain(): return 2\nSIZE = 2\n")
    importlib.invalidate_caches()
    yield file
    sys.modules.pop("nitro_user_file", None)


def test_names_that_a_cell_imported_follow_the_file(shell, user_file):
    run = "from nitro_user_file import gain, SIZE\nmine = SIZE"
    shell.run_cell(run, store_history=True).raise_error()
    user_file.write_text("def gain(): return 3\nSIZE = 4\n")
    shell.run_cell("pass", store_history=True).raise_error()
    names = shell.user_ns
    assert (names["gain"](), names["SIZE"], names["mine"]) == (3, 4, 2)


def test_a_file_that_does_not_parse_is_said_once(shell, user_file, capsys):
    shell.run_cell("import nitro_user_file").raise_error()
    capsys.readouterr()
    user_file.write_text("def gain(: return 3\n")
    shell.run_cell("pass").raise_error()
    said = capsys.readouterr().err
    assert "nitro_user_file.py:1 does not parse" in said
    assert "old code stays" in said
    shell.run_cell("pass").raise_error()
    assert not capsys.readouterr().err
    assert shell.user_ns["nitro_user_file"].gain() == 2
