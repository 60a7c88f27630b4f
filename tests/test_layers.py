from __future__ import annotations

import pathlib
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).parent.parent
# flax itself imports IPython.
NOTEBOOK = ["nitro_repl._ipython", "ipykernel", "ipywidgets", "anywidget", "watchdog"]


def test_imports_only_point_down():
    command = pathlib.Path(sysconfig.get_path("scripts")) / "lint-imports"
    done = subprocess.run(
        [command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_the_package_brings_in_no_notebook():
    code = f"import sys, nitro_repl; print([m for m in {NOTEBOOK} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
