"""The first notebook, run cell by cell in each front end, with clicks in its panel."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from tests.browser import lab
from tests.browser.shown import Shown

pytestmark = pytest.mark.browser

FIRST = Path(__file__).parents[2] / "notebooks" / "01_first_run.ipynb"


@pytest.fixture
def book(jupyter, browser, app):
    """The notebook on a page, with a cell that sleeps after the one that trains.

    The cell is interrupted and the run ended by a click, so that both last as long as
    the page needs.
    """
    notebook = nbformat.read(FIRST, as_version=4)
    places = {cell.id: place for place, cell in enumerate(notebook.cells)}
    notebook.cells.insert(
        places["train"] + 1, v4.new_code_cell("import time\ntime.sleep(60)", id="busy")
    )
    for cell in notebook.cells:
        cell.source = cell.source.replace("wait 5", "wait 1")
        cell.source = cell.source.replace("--max-epochs 200", "--max-epochs 2000")
    nbformat.write(notebook, jupyter.root / f"{app}.ipynb")
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    book = lab.Notebook(context.new_page(), jupyter, f"{app}.ipynb", app).open()
    code = [cell.id for cell in notebook.cells if cell.cell_type == "code"]
    book.places = {name: place for place, name in enumerate(code)}
    yield book
    context.close()
    book.kill()


@pytest.mark.parametrize("app", ["lab", "notebook"])
def test_the_first_notebook_as_a_reader_runs_it(book):
    at = book.places
    for name in ("load", "define", "train"):
        book.run(at[name])
    panel = Shown(book.page).wait()
    panel.until_step(20)

    book.start(at["busy"])
    book.wait_until_busy()
    clicked = panel.press("Pause")
    paused = panel.until_phase("paused")
    print(f"paused {paused - clicked:.3f} s after the click")
    assert paused - clicked < 1
    assert book.runs(at["busy"])
    step = panel.step
    panel.press("Resume")
    panel.until_step(step + 1)
    book.interrupt()
    book.wait_for(at["busy"])

    book.run(at["set"])
    panel.until("return view.charts.flags.some((f) => f.text.includes('smoothing'))")
    panel.until("return view.panel.state.values[0].next === 0.1")
    book.run(at["pause"])
    book.run(at["edit"])
    panel.until("return view.panel.state.programs[1].stale")
    assert "stale" in panel.text(".nitro-program[data-state=stale]")
    book.run(at["swap"])
    panel.until("return !view.panel.state.programs[1].stale")
    panel.until("return view.charts.flags.some((f) => f.kind === 'swap')")
    assert "loss() changed" in panel.text(".nitro-programs > :nth-child(2)")
    book.run(at["why"])
    book.run(at["programs"])
    book.start(at["resume"])
    panel.until_step(step + 500)
    panel.press("Stop")
    panel.until_phase("stopped")
    book.wait_for(at["resume"])
    book.run(at["evaluate"])
    book.run(at["history"])
    steps = panel.step
    assert panel.curve("loss")[0] == list(range(1, steps + 1))
    assert min(panel.curve("val acc")[1][-3:]) > 0.9

    summary = book.cell(at["train"]).locator(".nitro-summary")
    assert not summary.is_visible(), "the panel says it all"
    book.save()
    book.kill()
    book.page.reload()
    summary.wait_for(timeout=lab.READY_S * 1e3)
    text = summary.inner_text()
    assert f"step {steps:,}/38,000" in text
    assert "smoothing 0.05 → 0.1" in text
    assert summary.locator("svg polyline").count() == 2
    for label in ("loss", "val_loss", "val acc", "grad_norm"):
        assert label in text
