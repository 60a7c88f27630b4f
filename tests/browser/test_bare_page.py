"""The front end alone, in a real browser: what it draws, and what it sends."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.browser.pages import BarePage

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror=globalThis.hurt=1>"


def value(name, **about):
    about = {"value": 1.0, "next": 1.0, "default": 1.0, "changed": False} | about
    about = {"follows": "", "kind": "float", "bounds": [0, 3], "log": False} | about
    return {"name": name, "doc": "", "hyper": False, **about}


def state(**changes):
    progress = {
        "step": 40, "total": 100, "epoch": 2, "epochs": 5, "loss": 0.5, "rate": 10.0,
        "eta": 6.0, "wait": 0.25, "phase": "stepping", "phase_at": 0, "note": "",
        "note_at": 0, "epoch_steps": 20,
    }  # fmt: skip
    programs = [
        {"name": "loss", "outcome": "compiled", "why": "loss() changed", "cost": 1.0,
         "stale": True, "busy": False},
    ]  # fmt: skip
    return {
        "head": {"run": "r-1", "experiment": "Tiny", "live": True, "ended": False},
        "progress": progress,
        "values": [value("smoothing")],
        "programs": programs,
        "edit": "",
        "error": "",
        "waiting": [],
        "notices": [],
        **changes,
    }


def message(kind, base, series=(), **changes):
    told = {"t": kind, "base": base, "next": base + 1, "now": time.time()}
    told |= {"series": list(series), "state": {}, "lines": [], "flags": [], "heard": []}
    return told | changes


def curve(name, x, y, split="train"):
    series = {"split": split, "name": name, "label": name, "x": 0, "y": 1}
    return [series], [np.asarray(a, "<f8").tobytes() for a in (x, y)]


@pytest.fixture
def bare(browser):
    made = BarePage(browser)
    yield made
    made.close()
    assert made.errors == []


@pytest.fixture
def drawn(bare):
    """A page with a panel of 40 steps."""
    series, buffers = curve("loss", np.arange(1, 41), np.linspace(1, 0.1, 40))
    bare.deliver(message("full", 0, series, state=state()), buffers)
    bare.page.wait_for_function("view().charts.losses.axes")
    return bare


def points(bare):
    """Steps and values that the page has of the loss."""
    return bare.page.evaluate(
        "(() => { const p = [...view().charts.store.values()][0];"
        " return [[...p.x.slice(0, p.count)], [...p.y.slice(0, p.count)]] })()"
    )


def says(bare, verb):
    return [m for m in bare.sent() if m.get("verb") == verb]


def test_it_asks_until_it_gets_everything(bare):
    bare.page.wait_for_function("sent.filter(m => m.t === 'hello').length >= 2")
    assert bare.page.locator(".nitro-waiting").is_visible()
    bare.deliver(message("new", 7), [])
    assert bare.page.locator(".nitro-waiting").is_visible()
    bare.deliver(message("full", 8, state=state()), [])
    assert bare.page.locator(".nitro-body").is_visible()
    asked = len(bare.sent())
    bare.page.wait_for_timeout(700)
    assert len(bare.sent()) == asked, "it has what it needs"


def test_points_are_appended_and_a_gap_asks_for_everything(drawn):
    series, buffers = curve("loss", [41, 42], [0.25, 0.125])
    drawn.deliver(message("new", 1, series), buffers)
    x, y = points(drawn)
    assert x == list(range(1, 43))
    assert y[-2:] == [0.25, 0.125]
    asked = len(drawn.sent())
    drawn.deliver(message("new", 3, series), buffers)
    assert drawn.sent()[asked:] == [{"t": "hello"}]
    assert points(drawn)[0] == x, "what may have a hole is not drawn"
    series, buffers = curve("loss", [1, 2, 3], [3, 2, 1])
    drawn.deliver(message("full", 9, series, state=state()), buffers)
    assert points(drawn) == [[1, 2, 3], [3, 2, 1]]


def test_something_is_really_drawn(drawn):
    count = (
        "(() => { const c = view().charts.losses.canvas;"
        " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " let n = 0; for (let i = 0; i < d.length; i += 4)"
        " n += d[i + 3] > 200 && d[i] < 90 && d[i + 2] > 180; return n })()"
    )
    assert drawn.page.evaluate(count) > 300, "no blue line"


def test_flags_and_epochs_are_written_where_they_fit(drawn):
    drawn.page.evaluate(
        "() => { globalThis.written = [];"
        " const own = CanvasRenderingContext2D.prototype;"
        "const write = own.fillText; own.fillText = function (text, ...place) {"
        " written.push(text); return write.call(this, text, ...place) } }"
    )
    flags = [
        {"step": 5, "text": "set smoothing 0.1 → 0.2", "kind": "set"},
        {"step": 39, "text": "set smoothing 0.2 → 0.3", "kind": "set"},
    ]
    drawn.deliver(message("new", 1, flags=flags), [])
    drawn.page.wait_for_function("written.some((text) => text.startsWith('set'))")
    written = drawn.page.evaluate("written")
    assert "set smoothing 0.1 → 0.2" in written
    assert "set smoothing 0.2 → 0.3" not in written
    assert "ep 1" in written
    assert "ep 2" not in written, "it would be cut off"


def test_what_has_a_key_takes_the_place_of_what_had_it(drawn):
    for base, last in enumerate((0.2, 0.3), 1):
        flag = {"step": 5 + base, "text": f"set a 0.1 → {last}", "kind": "set"}
        line = {
            "at": 0.0,
            "text": f"set a 0.1 → {last}",
            "kind": "change",
            "key": "a 1",
        }
        told = {"flags": [flag | {"key": "a 1"}], "lines": [line]}
        drawn.deliver(message("new", base, **told), [])
    flags = drawn.page.evaluate("view().charts.flags.map((one) => one.text)")
    assert flags == ["set a 0.1 → 0.3"]
    assert drawn.page.locator(".nitro-lines span").all_inner_texts() == flags


def test_html_in_names_values_lines_and_errors_is_text(drawn):
    notice = {"id": 1, "at": 0.0, "text": EVIL}
    program = state()["programs"][0] | {"name": EVIL, "why": EVIL}
    evil = state(
        head={"run": EVIL, "experiment": EVIL, "live": True, "ended": False},
        values=[value(EVIL, value=EVIL, next=EVIL, doc=EVIL, kind="array")],
        programs=[program],
        edit=EVIL,
        error=EVIL,
        waiting=[{"verb": EVIL, "at": 0.0}],
        notices=[notice],
    )
    series, buffers = curve(EVIL, [1, 2], [1, 2], split=EVIL)
    told = {"lines": [{"at": 0.0, "text": EVIL, "kind": EVIL}]}
    told["flags"] = [{"step": 1, "text": EVIL, "kind": "set"}]
    drawn.deliver(message("new", 1, series, state=evil, **told), buffers)
    page = drawn.page
    page.wait_for_timeout(200)
    assert page.locator("#root img").count() == 0
    assert page.evaluate("globalThis.hurt === undefined")
    assert page.locator("#root").inner_text().count(EVIL) >= 10


def test_buttons_say_their_verb_and_a_click_that_waits_is_said_to(drawn):
    page = drawn.page
    assert page.get_by_role("button", name="Resume").is_disabled()
    page.locator(".nitro-count").fill("7")
    page.get_by_role("button", name="Advance").click()
    page.get_by_role("button", name="Pause").click()
    [asked] = says(drawn, "advance")
    assert asked["given"] == {"n": 7}
    [pause] = says(drawn, "pause")
    note = page.locator(".nitro-note")
    note.get_by_text("pause is queued: the kernel is busy").wait_for()
    waiting = [{"verb": "pause", "at": time.time() - 5}]
    heard = [asked["id"], pause["id"]]
    drawn.deliver(message("new", 1, state={"waiting": waiting}, heard=heard), [])
    assert note.inner_text() == "pause waits for the next step boundary"
    drawn.deliver(message("new", 2, state={"waiting": []}), [])
    assert note.inner_text() == ""


def test_a_drag_sends_few_values_and_always_the_last(drawn):
    slider = drawn.page.locator(".nitro-slider")
    box = slider.bounding_box()
    left, middle = box["x"], box["y"] + box["height"] / 2
    drawn.page.mouse.move(left + box["width"] / 3, middle)
    drawn.page.mouse.down()
    begun = time.monotonic()
    for place in range(200):
        drawn.page.mouse.move(left + box["width"] * (1 + place / 100) / 3, middle)
        if place == 100:  # what the kernel says does not fight the hand
            old = [value("smoothing", value=0.1, next=0.1)]
            drawn.deliver(message("new", 1, state={"values": old}), [])
            drawn.page.wait_for_function(
                "performance.now() - view().values.rows.get('smoothing').touched > 600"
            )
            assert float(drawn.page.locator(".nitro-box").input_value()) > 1
    drawn.page.mouse.up()
    took = time.monotonic() - begun
    drawn.page.wait_for_timeout(150)
    sent = [m["given"]["value"] for m in says(drawn, "set")]
    assert 1 < len(sent) <= 10 * took + 3
    assert sent[-1] == pytest.approx(3.0, abs=0.1)
    assert drawn.page.locator(".nitro-box").input_value() == str(sent[-1]).rstrip(".0")
    # Nor is the hand fought later, while the kernel has not done what it was asked.
    asked = [m["id"] for m in says(drawn, "set")]
    drawn.deliver(message("new", 2, heard=asked[:-1]), [])
    drawn.page.wait_for_function(
        "performance.now() - view().values.rows.get('smoothing').touched > 600"
    )
    waiting = {"waiting": [{"verb": "set smoothing", "at": time.time()}]}
    drawn.deliver(message("new", 3, heard=asked, state=waiting), [])
    drawn.page.evaluate("view().values.tick()")
    assert drawn.page.locator(".nitro-box").input_value() == str(sent[-1]).rstrip(".0")
    drawn.deliver(message("new", 4, state={"waiting": []}), [])
    drawn.page.wait_for_function("document.querySelector('.nitro-box').value === '0.1'")


def test_a_box_sends_numbers_and_what_is_none_as_text(drawn):
    box = drawn.page.locator(".nitro-box")
    box.fill("1e-3")
    box.press("Enter")
    assert says(drawn, "set")[-1]["given"] == {"name": "smoothing", "value": 0.001}
    for typed in ("much", "1e400", "nan", ""):  # the run refuses it, with a reason
        box.fill(typed)
        box.press("Enter")
        assert box.get_attribute("aria-invalid") == "true"
        drawn.page.wait_for_function("!view().values.rows.get('smoothing').timer")
        assert says(drawn, "set")[-1]["given"]["value"] == typed


def test_what_is_typed_is_sent_as_it_is(drawn):
    rows = [value("depth", kind="int", value=3, next=3)]
    drawn.deliver(message("new", 1, state={"values": rows}), [])
    box = drawn.page.locator(".nitro-box")
    box.fill("2.5")
    box.press("Enter")
    assert says(drawn, "set")[-1]["given"] == {"name": "depth", "value": 2.5}
    for typed, sent in {"-5": -5, "2.5": 2.5, "": ""}.items():
        drawn.page.locator(".nitro-count").fill(typed)
        drawn.page.get_by_role("button", name="Advance").click()
        assert says(drawn, "advance")[-1]["given"] == {"n": sent}


def grow_silent(bare):
    bare.page.evaluate("view().panel.quiet = 7000; null")
    bare.page.evaluate("view().panel.update()")


def test_a_kernel_that_grows_silent_is_told_and_may_come_back(drawn):
    page = drawn.page
    badge, pause = page.locator(".nitro-phase"), page.locator("[data-verb=pause]")
    assert (badge.inner_text(), pause.is_enabled()) == ("stepping", True)
    pause.click()
    grow_silent(drawn)
    assert badge.inner_text() == "no answer from the kernel"
    assert page.locator("button[data-verb]:enabled, .nitro-slider:enabled").count() == 0
    page.wait_for_function("view().panel.nudged")
    assert drawn.sent()[-1] == {"t": "hello"}
    drawn.deliver(message("new", 1), [])
    assert (badge.inner_text(), pause.is_enabled()) == ("stepping", True)
    assert page.locator(".nitro-slider").is_enabled()


def test_a_page_that_stood_still_is_no_silent_kernel(drawn):
    drawn.page.evaluate("view().panel.ticked -= 60_000; view().panel.tick()")
    drawn.page.evaluate("view().panel.update()")
    assert drawn.page.locator("[data-verb=pause]").is_enabled()


def test_a_button_that_moves_while_it_is_pressed_gets_its_click(drawn):
    mouse, pause = drawn.page.mouse, drawn.page.locator("[data-verb=pause]")
    box = pause.bounding_box()
    mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    mouse.down()
    drawn.page.evaluate("view().head.bar.style.height = '90px'; null")
    assert pause.bounding_box()["y"] > box["y"] + box["height"]
    mouse.up()
    assert len(says(drawn, "pause")) == 1
    drawn.page.evaluate("view().head.bar.style.height = ''; null")
    mouse.down()
    mouse.move(box["x"] + 400, box["y"] + 300)
    mouse.up()
    assert len(says(drawn, "pause")) == 1, "who drags off it wants no click"
    pause.click()
    pause.press("Enter")
    assert len(says(drawn, "pause")) == 3


def later(bare, ms=2100):
    """Have the clicks that are on their way be so much older."""
    bare.page.evaluate(f"view().panel.sent.forEach((one) => one.at -= {ms})")
    bare.page.evaluate("view().panel.tick()")


def test_a_click_that_is_not_heard_of_is_sent_again(drawn):
    drawn.page.locator("[data-verb=pause]").click()
    [asked] = says(drawn, "pause")
    later(drawn)
    assert says(drawn, "pause") == [asked, asked], "the kernel does one id once"
    later(drawn, ms=1000)
    assert len(says(drawn, "pause")) == 2, "later and later"
    later(drawn)
    assert len(says(drawn, "pause")) == 3
    drawn.deliver(message("new", 1, heard=[asked["id"]]), [])
    later(drawn, ms=60_000)
    assert len(says(drawn, "pause")) == 3


def test_a_click_is_not_sent_again_after_a_later_one_that_came(drawn):
    drawn.page.locator("[data-verb=pause]").click()
    drawn.page.locator("[data-verb=stop]").click()
    [stop] = says(drawn, "stop")
    drawn.deliver(message("new", 1, heard=[stop["id"]]), [])
    later(drawn)
    assert len(says(drawn, "pause")) == 1
    drawn.deliver(message("new", 2), [])
    note = drawn.page.locator(".nitro-note").inner_text()
    assert note == "pause got lost on its way: click again"


def test_a_run_that_ended_keeps_its_last_state(drawn):
    head = state()["head"] | {"live": False, "ended": True}
    progress = state()["progress"] | {"phase": "done"}
    drawn.deliver(message("new", 1, state={"head": head, "progress": progress}), [])
    grow_silent(drawn)
    assert drawn.page.locator(".nitro-phase").inner_text() == "done"
    assert drawn.page.locator("[data-verb=swap]").is_enabled()


def test_a_click_that_cannot_be_sent_is_said(drawn):
    page = drawn.page
    page.evaluate(
        "globalThis.push = sent.push;"
        "sent.push = () => { throw new Error('Cannot send') }; null"
    )
    page.locator("[data-verb=pause]").click()
    note = page.locator(".nitro-note").inner_text()
    assert "pause was not sent: no answer from the kernel (Cannot send)" in note
    assert page.locator(".nitro-phase").inner_text() == "no answer from the kernel"
    assert page.locator("button[data-verb]:enabled").count() == 0
    page.evaluate("sent.push = push; null")
    drawn.deliver(message("new", 1), [])
    assert page.locator("[data-verb=pause]").is_enabled()
    assert page.locator(".nitro-note").inner_text() == ""


def test_a_scheduled_value_is_locked_until_it_is_overridden(drawn):
    rows = [value("smoothing", follows="scheduled", next=0.5)]
    drawn.deliver(message("new", 1, state={"values": rows}), [])
    page = drawn.page
    assert page.locator(".nitro-box").is_disabled()
    assert page.locator(".nitro-box").input_value() == "0.5"
    page.get_by_role("button", name="override").click()
    assert says(drawn, "override")[0]["given"] == {"name": "smoothing", "value": 0.5}
    rows = [value("smoothing", follows="set, not scheduled", next=0.5)]
    drawn.deliver(message("new", 2, state={"values": rows}), [])
    assert page.locator(".nitro-box").is_enabled()
    page.get_by_role("button", name="back to schedule").click()
    assert says(drawn, "unset")[0]["given"] == {"name": "smoothing"}


def test_keys_read_values_and_zoom(drawn):
    page = drawn.page
    flags = [{"step": 30, "text": "set smoothing 0.1 → 0.2", "kind": "set"}]
    drawn.deliver(message("new", 1, flags=flags), [])
    canvas = page.locator(".nitro-canvas").first
    canvas.focus()
    page.keyboard.press("Home")
    page.wait_for_function("document.querySelector('.nitro-value').textContent === '1'")
    assert page.locator(".nitro-readout").inner_text().startswith("step 1 ")
    page.keyboard.press("End")
    for _ in range(25):
        page.keyboard.press("ArrowLeft")
    page.get_by_text("⚑ step 30 set smoothing 0.1 → 0.2").wait_for()
    page.keyboard.press("+")
    assert page.evaluate("view().charts.zoom[1] - view().charts.zoom[0]") < 21
    page.keyboard.press("0")
    assert page.evaluate("view().charts.zoom") is None


def test_the_focus_goes_on_from_a_button_that_cannot_be_pressed_any_more(drawn):
    page, button = drawn.page, drawn.page.locator("[data-verb=pause]")
    page.evaluate(
        "globalThis.shortcuts = []; document.addEventListener('keydown', (event) => {"
        " if (event.ctrlKey || !event.defaultPrevented) shortcuts.push(event.key) })"
    )
    button.focus()
    for _ in range(3):  # it is held down
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    assert len(says(drawn, "pause")) == 1
    progress = state()["progress"] | {"phase": "paused"}
    drawn.deliver(message("new", 1, state={"progress": progress}), [])
    assert page.evaluate("document.activeElement.dataset.verb") == "resume"
    page.keyboard.press("Space")
    assert len(says(drawn, "resume")) == 1
    slider, box = page.locator(".nitro-slider"), page.locator(".nitro-box")
    slider.focus()
    page.keyboard.press("ArrowUp")
    drawn.page.wait_for_function("sent.some((m) => m.verb === 'set')")
    assert float(box.input_value()) > 1
    assert page.evaluate("shortcuts") == [], "none is a shortcut of the notebook"
    page.keyboard.press("Control+s")
    assert page.evaluate("shortcuts") == ["Control", "s"]
    page.locator(".nitro-count").press("Enter")
    assert says(drawn, "advance")[-1]["given"] == {"n": 1}


def test_controls_are_named_for_who_does_not_see_them(drawn):
    rows = [value("rate", follows="scheduled"), value("decay", changed=True)]
    lines = [{"at": 0.0, "text": "a line", "kind": "told"}]
    drawn.deliver(message("new", 1, state={"values": rows}, lines=lines), [])
    for role, name in {
        "button": "override: rate",
        "slider": "value of decay",
        "textbox": "value of decay",
        "checkbox": "log axis of loss",
        "progressbar": "steps done",
        "log": "log of the run",
        "spinbutton": "steps to advance",
    }.items():
        found = drawn.page.get_by_role(role, name=name, exact=True)
        assert found.count() == 1, name
    assert drawn.page.get_by_role("button", name="reset: decay").count() == 1


def test_a_time_that_counts_is_not_read_out(drawn):
    progress = state()["progress"] | {"phase": "compiling loss"}
    drawn.deliver(message("new", 1, state={"progress": progress}), [])
    badge = drawn.page.locator(".nitro-phase")
    assert badge.inner_text().startswith("compiling loss ")
    assert (
        badge.locator(":scope > :not([aria-hidden])").inner_text() == "compiling loss"
    )


def test_a_kernel_that_was_restarted_is_known_to_be_gone(drawn):
    page = drawn.page
    asked = len(drawn.sent())
    page.evaluate("happen('comm_live_update')")
    assert drawn.sent()[asked:] == [{"t": "hello"}]
    assert page.locator("[data-verb=pause]").is_enabled(), "it may answer"
    drawn.deliver(message("full", 1, state=state()), [])
    page.evaluate("happen('comm_live_update'); view().panel.cut -= 1001; null")
    page.evaluate("view().panel.update()")
    assert page.locator(".nitro-phase").inner_text() == "no answer from the kernel"
    assert page.locator("button[data-verb]:enabled, .nitro-slider:enabled").count() == 0
    head = state()["head"] | {"live": False, "ended": True}
    progress = state()["progress"] | {"phase": "done"}
    told = state(head=head, progress=progress)
    drawn.deliver(message("full", 2, state=told), [])
    swap = page.locator("[data-verb=swap]")
    assert swap.is_enabled()
    page.evaluate("happen('comm_live_update'); view().panel.cut -= 1001; null")
    page.evaluate("view().panel.update()")
    assert page.locator(".nitro-phase").inner_text() == "done"
    assert swap.is_disabled()


def test_only_a_kernel_that_speaks_is_said_to_be_busy(drawn):
    page, note = drawn.page, drawn.page.locator(".nitro-note")
    page.locator("[data-verb=pause]").click()
    note.get_by_text("pause is queued: the kernel is busy with a cell").wait_for()
    page.evaluate("view().panel.quiet = 4000; view().panel.update()")
    assert note.inner_text() == "pause is sent: no word from the kernel yet"


@pytest.mark.parametrize("many", [2, 12])
@pytest.mark.parametrize("measured", [False, True])
def test_both_columns_are_filled(bare, many, measured):
    series, buffers = curve("loss", [1, 2, 3], [3, 2, 1])
    if measured:
        more, _ = curve("acc", [1, 2, 3], [3, 2, 1], split="val")
        series = [*series, *more]
    names = ("forward", "loss", "backward", "optimizer", "eval")
    programs = [state()["programs"][0] | {"name": name} for name in names]
    rows = [value(f"value_{place}") for place in range(many)]
    lines = [{"at": 0.0, "text": "a line", "kind": "told"}] * 40
    told = message(
        "full", 0, series, state=state(values=rows, programs=programs), lines=lines
    )
    bare.deliver(told, buffers)
    page = bare.page
    page.wait_for_function("view().charts.losses.axes")
    page.evaluate("view().update()")
    ends = page.evaluate(
        "[...document.querySelectorAll('.nitro-column > :last-child')]"
        ".map((one) => one.getBoundingClientRect().bottom)"
    )
    assert abs(ends[0] - ends[1]) < 90
    page.wait_for_function(  # the last line is in sight
        "(() => { const l = view().log.lines;"
        " return l.scrollHeight - l.scrollTop - l.clientHeight < 2 })()"
    )
    page.set_viewport_size({"width": 500, "height": 900})
    page.wait_for_function(
        "view().update() ?? view().right.lastChild === view().log.element"
    )


CONTRAST = """
(() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const mixed = (colors) => {
    for (const color of colors) { paint.fillStyle = color; paint.fillRect(0, 0, 1, 1); }
    const light = [...paint.getImageData(0, 0, 1, 1).data.slice(0, 3)].map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
  };
  const low = [];
  for (const node of document.querySelectorAll(".nitro-panel *")) {
    const text = [...node.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).join("").trim();
    if (!text || !node.checkVisibility() || node.closest(":disabled")) continue;
    const behind = [];
    for (let up = node; up; up = up.parentElement) behind.unshift(getComputedStyle(up).backgroundColor);
    const [a, b] = [mixed(["#fff", ...behind]), mixed(["#fff", ...behind, getComputedStyle(node).color])];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${node.className} ${text} ${ratio.toFixed(2)}`);
  }
  return low;
})()
"""  # noqa: E501


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_can_be_told_from_what_is_behind_it(browser, dark):
    bare = BarePage(browser, dark=dark)
    series, buffers = curve("loss", [1, 2, 3], [3, 2, 1])
    rows = [value("rate", follows="scheduled"), value("decay", changed=True)]
    kinds = ("told", "bad", "change", "good")
    lines = [{"at": 0.0, "text": kind, "kind": kind} for kind in kinds]
    for base, phase in enumerate(("stepping", "paused", "done", "failed")):
        progress = state()["progress"] | {"phase": phase, "note": "compiling loss"}
        shown = state(
            values=rows,
            progress=progress,
            edit="also moved",
            error="ValueError: it",
            notices=[{"id": 1, "at": 0.0, "text": "set: no"}],
        )
        bare.deliver(message("full", base, series, state=shown, lines=lines), buffers)
        bare.page.locator(".nitro-key").first.click()  # shown and hidden in turn
        assert bare.page.evaluate(CONTRAST) == []
    bare.close()
    assert bare.errors == []


@pytest.mark.parametrize("width", [1200, 500])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_cut_off_and_colours_follow_the_theme(browser, width, dark):
    bare = BarePage(browser, width, dark)
    series, buffers = curve("loss", [1, 2, 3], [3, 2, 1])
    long = state(values=[value("a_value_with_quite_a_long_name" * 2)])
    bare.deliver(message("full", 0, series, state=long), buffers)
    page = bare.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    lightness = (
        "((name) => getComputedStyle(document.querySelector('.nitro-panel'))[name]"
        ".match(/\\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b))"
    )
    text, back = (page.evaluate(f"{lightness}('{n}')") for n in ("color", "background"))
    assert (text > back) is dark
    assert abs(text - back) > 400
    bare.close()
    assert bare.errors == []


def test_80_000_points_are_drawn_in_a_frame(bare):
    x = np.arange(20_000)
    all_series, all_buffers = [], []
    for place, name in enumerate(("loss", "b_loss", "c_loss", "d_loss")):
        [series], buffers = curve(name, x, np.sin(x / 500 + place) + 2)
        series |= {"x": 2 * place, "y": 2 * place + 1}
        all_series.append(series)
        all_buffers += buffers
    bare.deliver(message("full", 0, all_series, state=state()), all_buffers)
    bare.page.wait_for_function("view().charts.losses.axes")
    times = bare.page.evaluate(
        "Array.from({ length: 20 }, () => { view().charts.draw();"
        " return view().charts.drawMs }).sort((a, b) => a - b)"
    )
    assert times[10] < 33


@pytest.mark.parametrize("width", [500, 1200])
def test_a_value_of_many_digits_and_a_long_reason_are_shown_whole(browser, width):
    bare = BarePage(browser, width=width)
    rate = value("rate", value=-1.28154e-5, next=-1.28154e-5, bounds=[-1, 1])
    why = (
        "helper focal() changed (loss() -> error() -> focal()), losses.py:12; and more"
    )
    program = {"name": "loss", "outcome": "compiled", "why": why, "cost": 1.0}
    program |= {"stale": False, "busy": False}
    told = state(values=[rate], programs=[program])
    bare.deliver(message("full", 0, state=told), [])
    bare.page.locator(".nitro-why").wait_for()
    fits = "(e) => e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight"
    box = bare.page.locator(".nitro-box")
    assert box.input_value() == "-0.0000128154"
    for part in (box, bare.page.locator(".nitro-why")):
        assert part.evaluate(fits)
    tops = "new Set([...document.querySelectorAll('.nitro-buttons button')]"
    tops += ".map((b) => Math.round(b.getBoundingClientRect().top))).size"
    assert bare.page.evaluate(tops) == 1, "the buttons stand in one row"
    bare.close()
    assert bare.errors == []


@pytest.mark.parametrize(
    ("low", "high"), [(0.0122, 0.0124), (3.1, 3.9), (0.5, 0.5), (2, 9)]
)
@pytest.mark.parametrize("log", [False, True])
def test_an_axis_has_marks_that_tell_its_scale(bare, low, high, log):
    series, buffers = curve("loss", np.arange(1, 41), np.linspace(high, low, 40))
    bare.deliver(message("full", 0, series, state=state()), buffers)
    bare.page.wait_for_function("view().charts.losses.axes")
    box = bare.page.locator(".nitro-tool input[type=checkbox]").first
    box.set_checked(log)
    bare.page.wait_for_function(f"view().charts.losses.axes.log === {str(log).lower()}")
    assert bare.page.evaluate("view().charts.losses.axes.ticksY().length") >= 2
