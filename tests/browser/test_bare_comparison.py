"""The front end of a comparison alone, in a real browser."""

from __future__ import annotations

import numpy as np
import pytest

from tests.browser.pages import BarePage
from tests.browser.test_bare_page import EVIL, message

pytestmark = pytest.mark.browser

RUNS = ("first", "second", "third")


def state(best="second", names=RUNS, **changes):
    rows = [
        {"run": name, "experiment": "Tiny", "color": "#3b7dd8", "phase": "stepping",
         "step": 40 + place, "cells": [0.1 * place, 0.5 - 0.1 * place, None]}
        for place, name in enumerate(names)
    ]  # fmt: skip
    head = {"name": "c-1", "metric": "loss", "mode": "min", "best": best, "live": True}
    columns = [
        {"name": "smoothing", "kind": "value"},
        {"name": "loss", "kind": "metric"},
        {"name": "acc", "kind": "metric"},
    ]
    found = {"head": head, "columns": columns, "rows": rows, "charts": ["loss", "acc"]}
    return {**found, "lines": ["first differing step  1", "+ new", "- old"], **changes}


def curves(label="loss", steps=range(1, 41), runs=3):
    x = np.asarray(list(steps), "<f8")
    buffers = [x.tobytes(), *((x + place).tobytes() for place in range(runs))]
    series = [
        {"split": "train", "name": label, "label": label, "run": place, "x": 0,
         "y": place + 1}
        for place in range(runs)
    ]  # fmt: skip
    return series, buffers


@pytest.fixture
def drawn(browser):
    made = BarePage(browser, name="overlay")
    series, buffers = curves()
    made.deliver(message("full", 0, series, state=state()), buffers)
    made.page.wait_for_function("view().charts.all[0].axes")
    yield made
    made.close()
    assert made.errors == []


def shown(bare):
    return bare.page.evaluate(
        "view().charts.all[0].visible.map((c) => c.points.about.label)"
    )


def test_a_click_on_a_name_hides_a_run_in_all_charts(drawn):
    series, buffers = curves("acc")
    drawn.deliver(message("new", 1, series), buffers)
    assert sorted(shown(drawn)) == sorted(RUNS)
    assert shown(drawn)[-1] == "second", "the best is drawn over the others"
    drawn.page.locator(".nitro-table .nitro-key").nth(1).click()
    drawn.page.wait_for_function("view().charts.all[1].visible.length === 2")
    assert shown(drawn) == ["first", "third"]
    pressed = drawn.page.locator(".nitro-key[aria-pressed=false]")
    drawn.page.wait_for_function(
        "document.querySelectorAll('.nitro-key[aria-pressed=false]').length === 3"
    )
    pressed.last.click()
    drawn.page.wait_for_function("view().charts.all[0].visible.length === 3")


def test_live_runs_move_and_the_best_stands_out(drawn):
    best = drawn.page.locator("tr[data-best]")
    assert best.inner_text().split()[0] == "second"
    series, buffers = curves(steps=[41, 42])
    drawn.deliver(message("new", 1, series, state=state(best="third")), buffers)
    assert best.inner_text().split()[0] == "third"
    drawn.page.wait_for_function(
        "[...view().charts.store.values()].every((p) => p.count === 42)"
    )
    bold = "[...view().charts.store.values()].map((p) => p.about.bold)"
    assert drawn.page.evaluate(bold) == [False, False, True]
    drawn.deliver(message("new", 2, state=state(names=(*RUNS, "late"))), [])
    assert drawn.page.locator(".nitro-table tbody tr").count() == 4


def test_values_are_read_and_zoomed_in_all_charts_at_once(drawn):
    series, buffers = curves("acc")
    drawn.deliver(message("new", 1, series), buffers)
    page = drawn.page
    page.locator(".nitro-canvas").first.focus()
    page.keyboard.press("Home")
    values = ".nitro-chart:nth-child({}) .nitro-legend .nitro-value"
    for chart in (1, 2):
        said = page.locator(values.format(chart))
        said.first.get_by_text("1", exact=True).wait_for()
        assert said.all_inner_texts() == ["1", "2", "3"]
    assert page.locator(".nitro-readout").inner_text() == "step 1"
    page.keyboard.press("End")
    page.keyboard.press("+")
    assert page.evaluate("view().charts.zoom[0]") > 10
    page.get_by_role("button", name="show all").first.click()
    assert page.evaluate("view().charts.zoom") is None


def test_html_in_names_is_text(drawn):
    evil = state(
        names=[EVIL, "b", "c"],
        columns=[{"name": EVIL, "kind": "value"}, {"name": EVIL, "kind": "metric"}],
        charts=["loss", EVIL],
        lines=[EVIL],
    )
    for row in evil["rows"]:
        row |= {"experiment": EVIL, "phase": EVIL, "cells": [EVIL, EVIL]}
    evil["head"] |= {"metric": EVIL, "best": EVIL}
    series, buffers = curves(EVIL)
    drawn.deliver(message("full", 5, series, state=evil), buffers)
    drawn.page.locator("details summary").last.click()
    drawn.page.wait_for_function("view().charts.all.length === 3")
    assert drawn.page.locator("#root img").count() == 0
    assert drawn.page.evaluate("globalThis.hurt === undefined")
    assert drawn.page.locator("#root").inner_text().count(EVIL) >= 12


@pytest.mark.parametrize("width", [1200, 500])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_cut_off(browser, width, dark):
    bare = BarePage(browser, width, dark, name="overlay")
    names = [f"0001-20261201-00282{place}-with-a-long-name" for place in range(5)]
    columns = [{"name": f"a_long_field_{i}", "kind": "value"} for i in range(9)]
    told = state(names=names, columns=columns)
    for row in told["rows"]:
        row["cells"] = [0.123456] * 9
    series, buffers = curves(runs=5)
    bare.deliver(message("full", 0, series, state=told), buffers)
    assert bare.page.evaluate("document.documentElement.scrollWidth") <= width
    bare.close()
    assert bare.errors == []


def test_one_run_alone_is_not_called_best(browser):
    bare = BarePage(browser, name="overlay")
    series, buffers = curves(runs=1)
    alone = state(best=None, names=RUNS[:1])
    bare.deliver(message("full", 0, series, state=alone), buffers)
    bare.page.wait_for_function("view().charts.all[0].axes")
    text = bare.page.locator(".nitro-panel").inner_text()
    bare.close()
    assert "1 run" in text
    assert "best" not in text
    assert bare.errors == []
