"""The notebooks, executed in a real kernel as a reader would, cell by cell."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest
from jupyter_core.utils import ensure_event_loop
from nbclient import NotebookClient
from nbformat import v4

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
FIRST_RUN = NOTEBOOKS / "01_first_run.ipynb"

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
    tmp_path, monkeypatch, event_loop
):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(FIRST_RUN, as_version=4)
    add(notebook, COUNT, before="load")
    add(notebook, UNDER_WAY, before="pause")
    add(notebook, BEFORE, before="swap")
    swapped = add(notebook, AFTER, before="why")
    ended = add(notebook, ENDED)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, resources=resources).execute()

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


def result_of(cell):
    """The text of a cell's value."""
    [output] = [o for o in cell.outputs if o.output_type == "execute_result"]
    return output.data["text/plain"]
