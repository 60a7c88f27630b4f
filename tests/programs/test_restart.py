"""A notebook run again in a new kernel: its programs come from disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from cells import TINY

TESTS = os.path.dirname(os.path.dirname(__file__))
HELPER = """
@jax.jit
def soften(label, amount):
    return (1 - amount) * jax.nn.one_hot(label, 2) + amount / 2
"""
LOSS = """
def squared_error(logits, label, smoothing):
    wrong = logits - soften(label, 0.1)
    return (wrong * wrong).mean() + smoothing * (logits * logits).mean()
"""
NOTEBOOK = (HELPER, LOSS, TINY)
PROGRAMS = {"forward", "loss", "backward", "optimizer", "eval"}

KERNEL = """
import json, sys
import jax
from cells import DATA, IMPORTS, Notebook, losses
from counting import count_compiles
import nitro_repl as nitro

book = Notebook(IMPORTS, DATA, *json.load(sys.stdin))
with count_compiles() as count:
    run = book.train(max_steps=3)
    value = run.handle.validate()["val_loss"]
print(json.dumps({
    "outcomes": [(event.program, event.outcome) for event in nitro.programs.events()],
    "compiled": sorted(count.compiled),
    "loaded": sorted(count.loaded),
    "others": count.others.total(),
    "numbers": [*losses(run), value],
}))
"""


def kernel(folder, cells, **environment):
    """Run cells in a new process with a cache folder; what it said at its end."""
    path = os.pathsep.join([TESTS, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", KERNEL],
        input=json.dumps(cells),
        env={
            **os.environ,
            "PYTHONPATH": path,
            "NITRO_CACHE_DIR": str(folder),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def outcomes(said, which):
    return {program for program, outcome in said["outcomes"] if outcome == which}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module")
def first(folder):
    """What the kernel said that ran the notebook first."""
    return kernel(folder, NOTEBOOK, PYTHONHASHSEED="1")


def test_the_first_kernel_compiles(first):
    assert outcomes(first, "compiled") == PROGRAMS
    assert set(first["compiled"]) == PROGRAMS
    assert first["others"] > 0


def test_two_restarted_kernels_at_once_load_every_program(first, folder):
    moved = (
        TINY.replace("    def forward", "    # What it predicts\n\n    def forward"),
        "# The loss, explained\n\n\n" + LOSS.replace("soften", "smooth_labels"),
        HELPER.replace("soften", "smooth_labels").replace("amount", "by"),
    )
    with ThreadPoolExecutor() as pool:
        same = pool.submit(kernel, folder, NOTEBOOK, PYTHONHASHSEED="2")
        renamed = pool.submit(kernel, folder, moved, PYTHONHASHSEED="3")
    for said in (same.result(), renamed.result()):
        assert outcomes(said, "loaded") == PROGRAMS, said
        assert not outcomes(said, "compiled"), said
        assert not said["compiled"], said
        assert said["numbers"] == first["numbers"], "bit for bit"
    others = same.result()["others"]
    assert others < first["others"], "what builds the model is loaded too"


def test_an_edited_constant_compiles_its_program_alone(first, folder):
    edited = (HELPER, LOSS.replace("0.1", "0.2"), TINY)
    said = kernel(folder, edited)
    assert said["compiled"] == ["loss"]
    assert outcomes(said, "compiled") == {"loss"}
    assert outcomes(said, "loaded") == PROGRAMS - {"loss"}
    assert said["numbers"] != first["numbers"]
