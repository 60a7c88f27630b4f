"""The panel in JupyterLab, as a reader of the notebook has it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.browser import lab

pytestmark = [pytest.mark.browser, pytest.mark.kernel]

SETUP = """
%load_ext nitro_repl
import time
import numpy as np, optax
from flax import nnx
import nitro_repl as nitro
rng = np.random.default_rng(0)
rows = [{"x": rng.normal(size=(8, 4)).astype("float32"),
         "y": rng.integers(0, 3, 8).astype("int32")} for _ in range(20)]

class Tiny(nitro.Experiment):
    scale: nitro.Device[float] = nitro.field(1.0, bounds=(0.0, 3.0))
    max_epochs: int = 1_000_000
    def build_data(self):
        return {"train": rows, "val": rows[:2]}
    def build_model(self, rngs):
        return nnx.Linear(4, 3, rngs=rngs)
    def forward(self, model, *, x):
        return model(x)
    def loss(self, logits, *, y):
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return self.scale * losses.mean()
"""


@pytest.fixture
def notebook(tmp_path, browser):
    pytest.importorskip("jupyterlab")
    lab.write(tmp_path, [SETUP, "%nitro train Tiny", "time.sleep(20)"])
    with lab.server(tmp_path) as server:
        context = browser.new_context(viewport={"width": 1300, "height": 1200})
        page = context.new_page()
        yield lab.Notebook(page, server).open()
        context.close()


def test_it_works_in_a_busy_cell_comes_back_and_leaves_a_still_form(notebook, tmp_path):
    page = notebook.page
    notebook.run(0)
    notebook.run(1)
    panel = page.locator(".nitro-panel").first
    panel.locator("[data-phase=stepping]").wait_for(timeout=30_000)
    page.wait_for_function(
        "[...document.querySelectorAll('.nitro-value')].some(v => v.textContent)"
    )
    assert not page.locator(".nitro-summary").is_visible()

    notebook.start(2)
    clicked = time.monotonic()
    panel.locator("[data-verb=pause]").click()
    panel.locator("[data-phase=paused]").wait_for(timeout=10_000)
    assert time.monotonic() - clicked < 1.0
    box = panel.locator(".nitro-box").first
    box.fill("2.5")
    box.press("Enter")
    panel.get_by_text("scale 1 → 2.5").first.wait_for(timeout=5_000)

    saved = notebook.save()
    assert (tmp_path / notebook.name).stat().st_size < 200_000
    still = "".join(
        o.get("data", {}).get("text/html", "") for o in saved.cells[1].outputs
    )
    assert "<svg" in still
    assert "paused" in still

    page.reload()
    panel = page.locator(".nitro-panel").first
    panel.locator("[data-phase=paused]").wait_for(timeout=30_000)
    assert "2.5" in panel.locator(".nitro-box").first.input_value()
    assert page.evaluate("document.querySelector('.nitro-value').textContent")
    panel.locator("[data-verb=stop]").click()
    panel.locator("[data-phase=stopped]").wait_for(timeout=10_000)

    command = ["-m", "jupyter", "nbconvert", "--to", "html", notebook.name]
    subprocess.run([sys.executable, *command], cwd=tmp_path, check=True)
    page.goto((tmp_path / "it.html").as_uri())
    assert page.locator(".nitro-summary svg").is_visible()
