from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import json
import re

import pytest
from rich.console import Console

import nitro_repl as nitro
from nitro_repl import cli, demo


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """One demo from an empty cache: whether it held, what it told, its folder."""
    nitro.programs.clear()
    folder = tmp_path_factory.mktemp("runs")
    console = Console(file=io.StringIO(), width=100)
    held = demo.run_demo(epochs=20, run_dir=str(folder), console=console)
    return held, console.file.getvalue(), folder


def test_the_demo_keeps_its_promises_and_shows_them(shown):
    held, text, _ = shown
    assert held
    assert "XLA compiles for it: 0" in text
    assert "run.stale: loss" in text
    assert re.search(r"loss: compiled, .*In \[2\]", text)
    accuracy = re.search(r"test_loss \S+  acc (\S+)", text)
    assert float(accuracy[1]) >= demo.TARGET


def test_the_demo_counts_what_was_compiled_at_the_start_and_for_the_edit(shown):
    _, text, _ = shown
    row = r"^ (\w+) +(compiled|reused) +(\d+) +(compiled|reused) +(\d+) *$"
    assert re.findall(row, text, re.MULTILINE) == [
        ("forward", "compiled", "1", "reused", "0"),
        ("loss", "compiled", "2", "compiled", "2"),
        ("backward", "compiled", "1", "reused", "0"),
        ("optimizer", "compiled", "1", "reused", "0"),
        ("eval", "compiled", "1", "reused", "0"),
    ]
    assert re.search(r"any other +\d+ +0 *$", text, re.MULTILINE)


def test_the_files_of_the_run_are_where_the_demo_says(shown):
    _, text, folder = shown
    said = re.sub(r"\s", "", text).partition("filesoftherun:")[2]
    [record] = folder.glob("Digits/*/run.json")
    assert said == str(record.parent)
    assert json.loads(record.read_text())["outcome"] == "done"


def test_another_width_compiles_all_but_the_loss_and_the_first_width_nothing(shown):
    names = {"__name__": "cells"}
    exec(demo.EXPERIMENT, names)

    def compiled_for(width):
        known = len(nitro.programs.events())
        nitro.Nitro(names["Digits"](width=width), max_epochs=1, run_dir=None).train(
            background=False
        )
        events = nitro.programs.events()[known:]
        return {event.program for event in events if event.outcome == "compiled"}

    assert compiled_for(16) == {"forward", "backward", "optimizer", "eval"}
    assert compiled_for(demo.WIDTH) == set()


def test_without_scikit_learn_the_demo_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert cli.main(["demo"]) == 1
    assert "pip install 'nitro_repl[demo]'" in capsys.readouterr().err


def test_a_demo_too_short_to_change_anything_is_refused(capsys):
    assert cli.main(["demo", "--epochs", "1"]) == 1
    assert "epochs=1" in capsys.readouterr().err


def test_an_interrupt_ends_the_command_without_a_traceback(monkeypatch):
    def interrupted(**options):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run_demo", interrupted)
    assert cli.main(["demo"]) == cli.INTERRUPTED


def test_the_status_says_whether_the_promises_held(monkeypatch):
    for held, status in ((True, 0), (False, 1)):
        monkeypatch.setattr(demo, "run_demo", lambda held=held, **options: held)
        assert cli.main(["demo"]) == status


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], ["--version"]])
def test_help_and_version_are_told(arguments, capsys):
    with pytest.raises(SystemExit) as exited:
        cli.main(arguments)
    assert exited.value.code == 0
    assert "nitro" in capsys.readouterr().out


def test_a_command_is_needed(capsys):
    with pytest.raises(SystemExit) as exited:
        cli.main([])
    assert exited.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_the_console_script_is_this_command():
    scripts = importlib.metadata.entry_points(group="console_scripts")
    assert scripts["nitro-repl"].load() is cli.main
