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


def test_a_notebook_run_without_a_browser_reads_as_text_and_as_html(
    tmp_path, event_loop
):
    cells = [SETUP + TINY, "run = %nitro train Tiny --max-steps 50", "%nitro wait"]
    notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in cells])
    client = NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    notebook = nbformat.reads(nbformat.writes(notebook), as_version=4)
    [shown] = [
        output["data"]
        for output in notebook.cells[1].outputs
        if "nitro-summary" in output.get("data", {}).get("text/html", "")
    ]
    assert "step 50/50" in shown["text/plain"]
    assert "done" in shown["text/plain"]
    page, _ = HTMLExporter().from_notebook_node(notebook)
    assert "step 50/50" in page
    assert "<polyline" in page
    assert "grad_norm" in page
