"""The panel in a real ipykernel, with a front end that is played."""

from __future__ import annotations

import pytest

from tests.kernel.conftest import Comm

pytestmark = pytest.mark.kernel

VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def panel(kernel):
    """A panel that is connected, of a run that steps."""
    cell = kernel.run("run = %nitro train Tiny").succeed()
    panel = kernel.panel(cell)
    panel.send(t="hello")
    panel.wait_for(lambda m: m["t"] == "full")
    panel.wait_for(stepping)
    panel.cell = cell
    return panel


def stepping(message):
    return message["state"].get("progress", {}).get("phase") == "stepping"


def heard(identity):
    return lambda message: identity in message["heard"]


def test_a_click_in_a_busy_cell_is_done_at_once(kernel, panel):
    busy = kernel.send("import time\nprint('busy', flush=True)\ntime.sleep(2)")
    busy.wait_for_text("busy")
    clicked = panel.send(t="do", id="a", verb="pause", given={})
    came, _ = panel.wait_for(heard("a"))
    assert came - clicked < 1.0  # the cell sleeps for two
    came, _ = panel.wait_for(
        lambda m: m["state"].get("progress", {}).get("phase") == "paused"
    )
    assert came - clicked < 1.0
    assert not busy._idle(), "the cell had not ended"
    busy.finish().succeed()
    said = "print(run.phase, run.journal.entries[-1]['by'])"
    assert kernel.run(said).text == "paused panel\n"


def test_a_page_that_comes_back_in_a_busy_cell_gets_everything(kernel, panel):
    busy = kernel.send("import time\nprint('busy', flush=True)\ntime.sleep(1)")
    busy.wait_for_text("busy")
    asked = panel.send(t="hello")
    came, _ = panel.wait_for(lambda m: m["t"] == "full" and m["base"] > 0)
    assert came - asked < 0.5
    assert not busy._idle()
    busy.finish()


def state(kernel, part, **how):
    """What a part of a panel says of its state when it is asked."""
    _, asked = part.ask("request_state", **how)
    kernel.wait_for(lambda: part.states(asked), "its state")
    return part.states(asked)[0]


def layout_of(kernel, panel):
    return Comm(kernel, state(kernel, panel)["layout"].removeprefix("IPY_MODEL_"))


def test_all_parts_of_a_panel_say_their_state_in_a_busy_cell(kernel, panel):
    layout = layout_of(kernel, panel)
    busy = kernel.send("import time\nprint('busy', flush=True)\ntime.sleep(1)")
    busy.wait_for_text("busy")
    assert state(kernel, layout)["_model_name"] == "LayoutModel"
    assert state(kernel, panel)["_esm"]
    assert not busy._idle(), "the cell had not ended"
    busy.finish()


def test_a_page_comes_back_after_the_subshell_of_the_one_before_is_gone(kernel, panel):
    layout = layout_of(kernel, panel)
    subshell = kernel.control("create_subshell_request")["subshell_id"]
    for part in (layout, panel):
        state(kernel, part, subshell=subshell)
    kernel.control("delete_subshell_request", subshell_id=subshell)
    for part in (layout, panel):
        assert state(kernel, part)


def test_without_the_pin_a_click_waits_and_nothing_is_lost(kernel):
    kernel.run(
        "from nitro_repl._widgets import panel as _panels\n"
        "_pin, _panels.pin = _panels.pin, lambda widget: False"
    ).succeed()
    cell = kernel.run("run = %nitro train Tiny").succeed()
    kernel.run("_panels.pin = _pin").succeed()
    panel = kernel.panel(cell)
    panel.send(t="hello")
    panel.wait_for(stepping)
    busy = kernel.send("import time\nprint('busy', flush=True)\ntime.sleep(1)")
    busy.wait_for_text("busy")
    panel.send(t="do", id="late", verb="pause", given={})
    came, _ = panel.wait_for(heard("late"))
    assert came >= busy.finish()._idle()["came"] - 0.1
    assert kernel.run("print(run.phase)").text == "paused\n"


def test_a_click_triggers_no_event_of_the_shell(kernel, panel):
    kernel.run(
        "events = []\n"
        "for _name in ('pre_execute', 'post_execute'):\n"
        "    get_ipython().events.register(_name, lambda n=_name: events.append(n))"
    ).succeed()
    busy = kernel.send("events.clear()\nprint('busy', flush=True)\ntime.sleep(1)")
    busy.wait_for_text("busy")
    panel.send(t="do", id="quiet", verb="pause", given={})
    panel.wait_for(heard("quiet"))
    busy.finish().succeed()
    assert kernel.run("print(events[:-1])").text == "['post_execute']\n"


def test_messages_are_few_whatever_the_rate_of_steps(kernel, panel):
    first = len(panel.came())
    kernel.run("run.advance(4000)").succeed()
    panel.wait_for(lambda m: m["state"].get("progress", {}).get("phase") == "paused")
    told = panel.came()[first:]
    seconds = told[-1][0] - told[0][0]
    assert len(told) <= 12 * seconds + 2


def test_the_output_of_the_cell_stays_small_and_holds_the_last_word(kernel, panel):
    kernel.run("run.advance(2000); run.stop()").succeed()
    kernel.wait_for(lambda: "stopped" in panel.cell.lines[-1], "last line")
    [view] = [
        m["content"]["data"]
        for m in panel.cell.messages("display_data")
        if VIEW in m["content"]["data"]
    ]
    last = panel.cell.messages("update_display_data")[-1]["content"]["data"]
    assert len(str(view)) + len(str(last)) < 30_000
    assert "<svg" in last["text/html"]
    step = kernel.run("print(f'{run.step:,}')").text.strip()
    assert f"step {step}" in last["text/plain"]


def test_dash_shows_the_panel_of_a_run_that_ended(kernel, panel):
    kernel.run("run.stop()").succeed()
    again = kernel.run("%nitro dash").succeed()
    assert kernel.panel(again).id == panel.id
    seen = len(panel.came())
    panel.send(t="hello")
    kernel.wait_for(lambda: len(panel.came()) > seen, "a snapshot")
    assert panel.came()[-1][1]["state"]["progress"]["phase"] == "stopped"


def test_an_extension_that_is_unloaded_leaves_no_thread(kernel, panel):
    names = "print([t.name for t in threading.enumerate() if t.name.startswith('sub')])"
    kernel.run("import threading").succeed()
    assert "subshell-" in kernel.run(names).succeed().text
    kernel.run("run.stop()\n%unload_ext nitro_repl").succeed()
    assert kernel.run(names).succeed().text == "[]\n"
    panel.send(t="hello")  # of the panel that is closed: nobody listens, nothing breaks
    kernel.run("%load_ext nitro_repl").succeed()
    again = kernel.run("run = %nitro train Tiny").succeed()
    front = kernel.panel(again)
    front.send(t="hello")
    front.wait_for(stepping)
    assert "subshell-" in kernel.run(names).succeed().text


def test_shutdown_with_a_connected_panel_exits_cleanly(own_kernel):
    cell = own_kernel.run("run = %nitro train Tiny").succeed()
    panel = own_kernel.panel(cell)
    panel.send(t="hello")
    panel.wait_for(stepping)
    assert own_kernel.shut_down(timeout=5.0) == 0


def test_where_there_is_no_anywidget_a_line_of_text_is_shown(own_kernel):
    own_kernel.run("import sys\nsys.modules['anywidget'] = None").succeed()
    cell = own_kernel.run("run = %nitro train Tiny --max-epochs 20").succeed()
    own_kernel.run("run.wait()").succeed()
    own_kernel.wait_for(lambda: "done" in cell.lines[-1], "last progress line")
    assert VIEW not in str(cell.messages("display_data"))
    assert "no panel" in cell.text
