"""The README is true: its Python runs, prints what it says, and its commands exist."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from pathlib import Path

import pytest

import nitro_repl as nitro
from nitro_repl._ipython.parser import tokenize
from nitro_repl._run.verbs import VERBS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCED = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def blocks(language):
    return [text for name, text in FENCED if name == language]


def test_its_python_runs_in_order_and_prints_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nitro.programs.clear()
    names = {"__name__": "readme"}
    for (language, source), (after, said) in itertools.pairwise(FENCED):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, "<readme>", "exec"), names)
        if printed.getvalue():
            assert after == "text", "what is printed is shown"
            assert printed.getvalue() == said
    assert names["test"]["acc"] > 0.9
    assert names["logits"].shape == (3, 10)
    assert len(names["losses"]) == names["run"].step == 40 * 19
    assert any(line.startswith("loss: compiled") for line in names["why"])
    written = {path.name for path in tmp_path.glob("runs/Digits/*/*")}
    assert written == {"run.json", "metrics.jsonl", "journal.jsonl"}


def test_it_has_two_commands_each_complete_on_a_fresh_machine():
    demo, tests = blocks("bash")
    for command in (demo, tests):
        [line] = command.strip().splitlines()
        assert line.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert demo.strip().endswith("&& .venv/bin/nitro-repl demo")
    assert tests.strip().endswith("&& .venv/bin/python -m pytest -n auto")


def test_every_extra_that_it_installs_is_declared():
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = set(",".join(re.findall(r"\.\[([\w,]+)\]", README)).split(","))
    assert extras
    for extra in extras:
        assert re.search(rf"^{extra} = \[", declared, re.MULTILINE), extra


def test_it_names_all_verbs_and_no_other():
    lines = re.findall(r"^%nitro (.*)$", README, re.MULTILINE)
    assert {tokenize(line)[0] for line in lines} <= set(VERBS)
    listed = re.search(r"The verbs are (.*?);", README, re.DOTALL)[1]
    assert re.findall(r"`(\w+)`", listed) == list(VERBS)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"nitro\.([A-Z]\w+)", README))))
def test_every_public_name_in_it_exists(name):
    assert hasattr(nitro, name)


def test_every_file_it_points_to_is_there():
    links = re.findall(r"\]\(([^)]+)\)", README)
    named = re.findall(r"`((?:notebooks|tests)/[\w./]+)`", README)
    for path in (*links, *named):
        assert (ROOT / path).exists(), path


def test_the_screenshot_is_small():
    assert (ROOT / "notebooks" / "panel.png").stat().st_size < 200_000
