"""A kernel that is restarted while its run is shown, in each front end."""

from __future__ import annotations

import pytest

from tests.browser import lab
from tests.browser.shown import Shown
from tests.browser.tiny import tiny

pytestmark = pytest.mark.browser

SETUP, LIVE = tiny(20, max_epochs=1_000_000), "run = %nitro train Tiny"
ENABLED = "button[data-verb]:enabled, .nitro-values input:enabled"


@pytest.fixture
def book(jupyter, browser, app):
    """A notebook with a run that steps and its panel."""
    name = f"restart-{app}.ipynb"
    lab.write(jupyter.root, [SETUP, LIVE], name)
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    book = lab.Notebook(context.new_page(), jupyter, name, app).open()
    book.run(0)
    book.run(1)
    yield book
    context.close()
    book.kill()


@pytest.mark.parametrize("app", ["lab", "notebook"])
def test_a_panel_outlives_its_kernel_and_the_next_one_is_live(book):
    errors = []
    book.page.on("pageerror", lambda error: errors.append(str(error)))
    panel = Shown(book.page).wait()
    panel.until_step(20)
    book.restart()
    panel.until_phase("no answer from the kernel")
    assert panel.root.locator(ENABLED).count() == 0
    steps, losses = panel.curve("loss")
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= 20
    assert len(losses) == len(steps)
    # What is drawn stays, also once the new kernel is there.
    book.wait()
    assert panel.curve("loss") == (steps, losses)
    assert not book.cell(1).locator(".nitro-summary").is_visible()
    book.run(0)
    book.run(1)
    assert book.page.locator(".nitro-panel").count() == 1
    panel.until_phase("stepping")
    panel.until_step(5)
    clicked = panel.press("Pause")
    assert panel.until_phase("paused") - clicked < 5
    assert book.page.locator(".jp-Dialog").count() == 0
    assert errors == []
