"""A front end without widgets: text while it trains, a still picture at the end."""

from __future__ import annotations

import nbformat
import pytest
from jupyter_core.utils import ensure_event_loop
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat import v4

from tests.kernel.conftest import SETUP, TINY

pytestmark = pytest.mark.kernel


@pytest.fixture
def event_loop():
    """nbclient makes one for this thread and leaves it open."""
    yield
    ensure_event_loop().close()


def pictures(cell, name):
    """What a cell put out that has a name in its HTML."""
    shown = [output.get("data", {}) for output in cell.outputs]
    return [data for data in shown if name in data.get("text/html", "")]


def test_a_notebook_run_without_a_browser_reads_as_text_and_as_html(
    tmp_path, event_loop
):
    cells = [
        SETUP + TINY,
        "run = %nitro train Tiny --max-steps 50",
        "%nitro wait",
        "run = %nitro train Tiny --max-steps 60",
        "nitro.compare(*nitro.runs.values())",
        "run.wait()",
    ]
    notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in cells])
    client = NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    notebook = nbformat.reads(nbformat.writes(notebook), as_version=4)
    for place, steps in ((1, 50), (3, 60)):
        [shown] = pictures(notebook.cells[place], "nitro-summary")
        assert f"step {steps}/{steps}" in shown["text/plain"]
        assert "done" in shown["text/plain"]
        assert "<polyline" in shown["text/html"]
    assert not any(o.output_type == "stream" for o in notebook.cells[5].outputs)
    [sides] = pictures(notebook.cells[4], "nitro-comparison-")
    assert sides["text/plain"].count("done") == 2
    assert sides["text/html"].count("<polyline") >= 4
    page, _ = HTMLExporter().from_notebook_node(notebook)
    assert "step 50/50" in page
    assert "<polyline" in page
    assert "grad_norm" in page
