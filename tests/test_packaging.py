from __future__ import annotations

import importlib.metadata
import pathlib
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain

import pytest

from nitro_repl._widgets import assets

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [path] = folder.glob("*.whl")
    with zipfile.ZipFile(path) as opened:
        yield opened


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = wheel.namelist()
    tops = {name.split("/")[0].split("-")[0] for name in names}
    assert tops == {"nitro_repl"}
    assert "nitro_repl/py.typed" in names
    modules = {str(p.relative_to(ROOT)) for p in (ROOT / "nitro_repl").rglob("*.py")}
    assert modules <= set(names)
    for script in {*chain(*assets.SCRIPTS.values()), "panel.css"}:
        assert f"nitro_repl/_widgets/static/{script}" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_offers_the_command_and_the_extras(wheel):
    [entry_points] = [n for n in wheel.namelist() if n.endswith("entry_points.txt")]
    assert "nitro-repl = nitro_repl.cli:main" in wheel.read(entry_points).decode()
    [metadata] = [n for n in wheel.namelist() if n.endswith("METADATA")]
    text = wheel.read(metadata).decode()
    for extra in ("demo", "lab", "dev"):
        assert f"Provides-Extra: {extra}" in text


def test_every_package_that_is_imported_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {item.split(">=")[0].lower() for item in project["dependencies"]}
    assert declared >= {"jax", "flax", "optax", "numpy", "rich", "ipython"}
    for name in declared:
        assert importlib.metadata.version(name)
