"""The panel in JupyterLab, with a kernel that is busy, a page that goes, and two."""

from __future__ import annotations

import contextlib
import json
import time

import pytest
from nbconvert import HTMLExporter

from tests.browser import lab
from tests.browser.shown import Shown
from tests.browser.tiny import tiny

pytestmark = pytest.mark.browser

IMPORTS = tiny(20, max_epochs=1_000_000)
# Slow enough that all its points are kept, and that the page has time for itself.
TRAIN = """
run = %nitro train Tiny
_ = run.every(lambda run: time.sleep(0.005), steps=1)
"""
BUSY = "time.sleep(60)"  # it is interrupted
EVIL = "<img src=x onerror=globalThis.hurt=1>"
HURT = f"""
class Hurt(Tiny):
    def train_metrics(self, outputs):
        return {{"{EVIL}": outputs.mean()}}
    def finalize_metrics(self, totals, split):
        raise ValueError("{EVIL}")
hurt = %nitro train Hurt --eval-every 3
"""
LONG = """
long = %nitro train Tiny --max-steps 20000 --eval-every 1000 --fuse
"""
SIDES = """
other = nitro.Nitro(Tiny(smoothing=0.2), max_steps=50).train(background=False)
nitro.compare(run, other)
"""
SETUP, LIVE, SLEEP, FAILS, FAST, COMPARE = range(6)


@pytest.fixture(scope="module")
def book(jupyter, browser):
    """A saved notebook in JupyterLab, with a run that steps and its panel."""
    lab.write(jupyter.root, [IMPORTS, TRAIN, BUSY, HURT, LONG, SIDES], "live.ipynb")
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    page = context.new_page()
    came = comm_messages(page)
    book = lab.Notebook(page, jupyter, "live.ipynb").open()
    book.came = came
    book.run(SETUP)
    book.run(LIVE)
    Shown(book.page).wait().until_step(10)
    book.save()
    yield book
    context.close()
    book.kill()


def comm_messages(page):
    """The times of the messages to widgets, in a list that grows."""
    came = []

    def note(frame):
        text = frame if isinstance(frame, str) else frame.decode("utf-8", "replace")
        if '"msg_type": "comm_msg"' in text or '"msg_type":"comm_msg"' in text:
            came.append(time.monotonic())

    page.on("websocket", lambda socket: socket.on("framereceived", note))
    return came


@pytest.fixture
def live(book):
    """The panel, of a run that steps."""
    shown = Shown(book.page).wait()
    if shown.text(".nitro-phase") == "paused":
        shown.press("Resume")
    shown.until_phase("stepping")
    return shown


@contextlib.contextmanager
def busy(book):
    """A cell that blocks the kernel for long."""
    book.start(SLEEP)
    book.wait_until_busy()
    yield
    assert book.runs(SLEEP), "the cell has not ended meanwhile"
    book.interrupt()
    book.wait_for(SLEEP)


def journal(book, name="Tiny"):
    """What was done to the first run of an experiment."""
    paths = sorted(book.server.root.glob(f"runs/{name}/*/journal.jsonl"))
    if not paths:  # nothing yet
        return []
    return [json.loads(line) for line in paths[0].read_text().splitlines()]


def test_a_click_while_a_cell_is_busy_pauses_in_under_a_second(book, live):
    with busy(book):
        clicked = live.press("Pause")
        paused = live.until_phase("paused")
        print(f"paused {paused - clicked:.3f} s after the click")
        assert paused - clicked < 1
        step = live.step
        last = journal(book)[-1]
        assert (last["command"], last["by"], last["step"]) == ("pause", "panel", step)
        live.press("Resume")
        live.until_step(step + 1)


def test_a_drag_while_a_cell_is_busy_ends_at_its_last_value(book, live):
    before = len(journal(book))
    slider = live.root.locator(".nitro-slider").first
    mouse = book.page.mouse
    with busy(book):
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        left, middle = box["x"] + 8, box["y"] + box["height"] / 2
        width = box["width"] - 16
        live.ask(
            "const slider = view.element.querySelector('.nitro-slider');"
            "globalThis.places = []; const note = () => {"
            " places.push(Number(slider.value)); requestAnimationFrame(note) }; note()"
        )
        begun = time.monotonic()
        mouse.move(left, middle)
        mouse.down()
        for place in range(200):
            mouse.move(left + width * 0.9 * place / 199, middle)
        mouse.up()
        took = time.monotonic() - begun
        last = live.ask("return Number(view.element.querySelector('.nitro-box').value)")
        assert 0.8 < last < 1
        # The kernel has it, and what it says is written back again.
        live.until(f"return view.panel.state.values[0].next === {last}")
        live.until(
            "const row = view.values.rows.get('smoothing');"
            "return performance.now() - row.touched > 700"
        )
        places = book.page.evaluate("places")
    moved = places[places.index(min(places)) :]
    assert moved == sorted(moved), "no value of the kernel came between"
    assert moved[-1] == pytest.approx(last, abs=1e-3)
    entries = journal(book)[before:]
    assert {entry["command"] for entry in entries} == {"set"}
    assert 1 < len(entries) <= 10 * took + 3
    assert entries[-1]["after"] == {"smoothing": last}


def test_a_typed_value_is_taken_with_enter(book, live):
    box = live.root.locator(".nitro-box").first
    box.fill("0.25")
    box.press("Enter")
    live.until("return view.panel.state.values[0].next === 0.25")
    assert journal(book)[-1]["after"] == {"smoothing": 0.25}


def test_a_page_that_is_loaded_again_has_all_points(book, live):
    live.until_step(30)
    book.page.reload()
    book.wait()
    live.wait()
    live.press("Pause")
    live.until_phase("paused")
    steps, losses = live.curve("loss")
    assert steps == list(range(1, live.step + 1))
    rows = [json.loads(line) for line in metrics(book).read_text().splitlines()]
    said = [row["loss"] for row in rows if "loss" in row]
    assert said
    assert losses[: len(said)] == said, "the file is a little behind"


def metrics(book, name="Tiny"):
    [path, *_] = sorted(book.server.root.glob(f"runs/{name}/*/metrics.jsonl"))
    return path


def test_two_pages_show_one_run_and_a_click_acts_once(book, live):
    page = book.page.context.new_page()
    other = lab.Notebook(page, book.server, book.name).open()
    there = Shown(other.page).wait()
    there.until_phase("stepping")
    before = len(journal(book))
    live.press("Pause")
    live.until_phase("paused")
    there.until_phase("paused")
    assert there.curve("loss") == live.curve("loss")
    there.press("Resume")
    there.until_phase("stepping")
    live.until_phase("stepping")
    done = [entry["command"] for entry in journal(book)[before:]]
    assert done == ["pause", "resume"]
    page.close()


def test_html_is_text_and_the_error_of_a_hook_is_shown(book, live):
    book.start(FAILS)
    book.wait_for(FAILS)
    shown = Shown(book.page, 1).wait()
    shown.until_phase("failed")
    error = shown.text(".nitro-error")
    assert f"ValueError: {EVIL}" in error
    assert "in finalize_metrics" in error
    assert EVIL in shown.text(".nitro-legend >> nth=1")
    still = book.cell(FAILS).locator(".nitro-summary", has_text=EVIL)
    still.wait_for(state="attached")  # drawn after the panel has said it
    assert book.page.locator(".nitro-panel img, .nitro-summary img").count() == 0
    assert book.page.evaluate("globalThis.hurt === undefined")


def test_20_000_steps_are_few_messages_and_little_in_the_file(book, live):
    live.press("Pause")
    live.until_phase("paused")
    book.save()
    size, came = book.path.stat().st_size, len(book.came)
    begun = time.monotonic()
    book.run(FAST)
    shown = Shown(book.page, book.page.locator(".nitro-panel").count() - 1)
    shown.wait().until_phase("done")
    took, count = time.monotonic() - begun, len(book.came) - came
    assert shown.step == 20_000
    assert len(shown.curve("loss")[0]) == 20_000
    print(f"{count / took:.1f} messages/s over {took:.1f} s")
    assert count <= 12 * took
    saved = book.save()
    assert book.path.stat().st_size - size < 200_000
    page = book.page.context.new_page()
    page.set_content(HTMLExporter().from_notebook_node(saved)[0])
    still = page.locator(".nitro-summary").last
    assert "step 20,000/20,000" in still.inner_text()
    assert still.locator("svg").is_visible()
    page.close()


def test_a_comparison_moves_and_leaves_a_still_one_in_the_file(book, live):
    book.run(COMPARE)
    shown = Shown(book.page, book.page.locator(".nitro-panel").count() - 1).wait()
    assert book.page.locator(".nitro-comparison").count() == 1
    still = book.cell(COMPARE).locator("[class^=nitro-comparison-]")
    assert still.count() == 1
    assert not still.is_visible(), "the widget says it all"
    steps = (
        "return [...view.charts.store.values()].find((p) => p.about.run === 0).count"
    )
    before = shown.ask(steps)
    shown.until(f"{steps} > {before}")
    names = shown.root.locator(".nitro-table .nitro-key")
    names.first.click()
    shown.until("return view.charts.all[0].visible.length === 1")
    live.press("Pause")
    live.until_phase("paused")
    shown.until("return view.link.state.rows[0].phase === 'paused'")
    book.save()
    book.kill()
    book.page.reload()
    still.wait_for(timeout=lab.READY_S * 1e3)
    assert still.locator("svg").count() >= 2
    assert "50" in still.inner_text()
