from __future__ import annotations

import itertools

import pytest

pytestmark = pytest.mark.kernel


def test_train_returns_at_once_and_goes_on_while_cells_run(kernel):
    cell = kernel.run("run = %nitro train Tiny").succeed()
    kernel.run("first = run.step\nrun.advance(1)\nrun.resume()").succeed()
    busy = kernel.run(
        "import time\n"
        "before = run.step\n"
        "end = time.monotonic() + 60\n"
        "while run.step < before + 10 and time.monotonic() < end: pass\n"
        "print(run.step - before)"
    ).succeed()
    assert int(busy.text) >= 10, "no training while the main thread was busy"
    assert cell.lines, "no progress line under the cell"


def test_progress_comes_at_most_four_times_a_second_and_ends_true(kernel):
    cell = kernel.run("run = %nitro train Tiny --max-epochs 200").succeed()
    kernel.run("run.wait()").succeed()
    kernel.wait_for(lambda: "done" in cell.lines[-1], "last progress line")
    [step] = kernel.run("print(run.step)").succeed().text.split()
    assert f"step {int(step):,}/{int(step):,}  epoch 200/200" in cell.lines[-1]
    times = [m["came"] for m in cell.messages("update_display_data")]
    for a, e in itertools.pairwise(range(0, len(times), 5)):
        assert times[e] - times[a] > 0.9, "more than four updates in a second"
    shown = cell.messages("display_data", "update_display_data")
    ids = [m["content"]["transient"].get("display_id") for m in shown]
    assert ids[:2] == [None, None], "the report of the set-up and the panel, above"
    assert len({*ids[2:]}) == 1, "the line is one output, updated in place"


def test_prints_of_host_hooks_land_in_the_starting_cell(kernel):
    kernel.run(
        "class Chatty(Tiny):\n"
        "    def finalize_metrics(self, totals, split):\n"
        "        print('evaluated', split)\n"
        "        return totals"
    ).succeed()
    starting = kernel.run("run = %nitro train Chatty").succeed()
    starting.wait_for_text("evaluated val")
    other = kernel.send(
        "import threading\n"
        "seen = threading.Event()\n"
        "print('other cell')\n"
        "target = run.epoch + 2\n"
        "while run.epoch < target: seen.wait(0.01)"
    )
    said = starting.text.count("evaluated")
    other.finish().succeed()
    kernel.wait_for(lambda: starting.text.count("evaluated") > said, "a later print")
    assert other.text == "other cell\n"


def test_a_hook_that_raises_shows_only_the_users_frames(kernel):
    kernel.run(
        "class Breaks(Tiny):\n"
        "    def finalize_metrics(self, totals, split):\n"
        "        return self.compute(totals)\n"
        "    def compute(self, totals):\n"
        "        raise ValueError('my own mistake')"
    ).succeed()
    starting = kernel.run("run = %nitro train Breaks").succeed()
    starting.wait_for_text("my own mistake")
    assert "in compute" in starting.text
    assert "raise ValueError" in starting.text
    assert "nitro_repl" not in starting.text
    assert "my own mistake" in kernel.run("run.wait()").error
    assert kernel.run("print(run.phase, run.live)").text == "failed False\n"


def test_a_line_that_cannot_be_read_is_one_line(kernel):
    cell = kernel.run("%nitro trian Tiny")
    assert cell.text.splitlines() == [
        "UsageError: there is no verb `trian`: did you mean `train`? See %nitro help"
    ]


INTERRUPT_WHEN_WAITING = """
import os, signal, sys, threading

def interrupt_when_waiting():
    turn, main = threading.Event(), threading.main_thread().ident
    while True:
        frame = sys._current_frames()[main]
        while frame is not None:
            if frame.f_code is type(run).wait.__code__:
                return os.kill(os.getpid(), signal.SIGINT)
            frame = frame.f_back
        turn.wait(0.01)

threading.Thread(target=interrupt_when_waiting, daemon=True).start()
%nitro wait
"""


def test_waiting_ends_by_an_interrupt_and_the_run_goes_on(kernel):
    kernel.run("run = %nitro train Tiny").succeed()
    waiting = kernel.run(INTERRUPT_WHEN_WAITING).succeed()
    assert "goes on" in waiting.text
    assert "stop" in waiting.text
    assert kernel.run("print(run.live)").text == "True\n"


def test_a_swap_returns_at_once_and_reports_the_switch_in_its_own_cell(kernel):
    kernel.run("run = %nitro train Tiny").succeed()
    kernel.run(
        "@Tiny.hook\n"
        "def loss(self, logits, *, y):\n"
        "    return self.scale * (logits ** 2).mean()"
    ).succeed()
    swap = kernel.run("%nitro swap").succeed()
    kernel.run("'another cell'").succeed()
    swap.wait_for_text("switched at step")
    why = kernel.run("%nitro why").succeed().result
    assert "loss" in why
    assert kernel.run("print(run.stale)").text == "()\n"


def test_a_swap_that_fails_says_why_in_its_own_cell_and_the_run_goes_on(kernel):
    kernel.run("run = %nitro train Tiny").succeed()
    kernel.run(
        "@Tiny.hook\ndef loss(self, logits, *, y):\n    return no_such_name(logits)"
    ).succeed()
    swap = kernel.run("%nitro swap").succeed()
    swap.wait_for_text("no_such_name")
    assert "the old programs go on" in swap.text
    assert kernel.run("run.advance(2)\nprint(run.live)").succeed().text == "True\n"


def test_completion_and_help_reach_the_front_end(kernel):
    client = kernel.client
    client.complete("%nitro train Ti", 15)
    reply = client.get_shell_msg(timeout=60)["content"]
    while "matches" not in reply:
        reply = client.get_shell_msg(timeout=60)["content"]
    assert reply["matches"] == ["Tiny"]
    assert kernel.run("%nitro help train").result.startswith(
        "%nitro train [EXPERIMENT]"
    )


def test_views_carry_text_and_html(kernel):
    kernel.run("run = %nitro train Tiny --max-epochs 1\nrun.wait()").succeed()
    for line in ("status", "programs", "why", "history", "runs"):
        [message] = kernel.run(f"%nitro {line}").succeed().messages("execute_result")
        data = message["content"]["data"]
        assert set(data) >= {"text/plain", "text/html"}, line
        assert data["text/html"].startswith("<pre"), line


@pytest.mark.parametrize("busy", [False, True])
def test_shutdown_while_training_exits_cleanly_within_five_seconds(own_kernel, busy):
    own_kernel.run("run = %nitro train Tiny").succeed()
    own_kernel.run("run.advance(1); run.resume()").succeed()
    if busy:
        own_kernel.run("%nitro set scale 0.5").succeed()
    assert own_kernel.shut_down(timeout=5.0) == 0


def test_a_saved_file_is_swapped_in_and_told_in_the_cell_that_ran_last(own_kernel):
    kernel = own_kernel
    kernel.run("open('kernel_loss.py', 'w').write('def scaled(x): return 1.0 * x')")
    kernel.run(
        "import importlib, sys\n"
        "sys.path.insert(0, '')\n"
        "importlib.invalidate_caches()\n"
        "from kernel_loss import scaled\n"
        "@Tiny.hook\n"
        "def loss(self, logits, *, y):\n"
        "    return scaled((logits ** 2).mean())"
    ).succeed()
    kernel.run("run = %nitro train Tiny\nrun.advance(1)\nrun.resume()").succeed()
    kernel.run("%nitro auto 2").succeed()
    last = kernel.run(
        "'saved as an editor would'\n"
        "open('other.tmp', 'w').write('def scaled(x): return 2.0 * x')\n"
        "import os\n"
        "os.replace('other.tmp', 'kernel_loss.py')"
    ).succeed()
    last.wait_for_text("switched at step")
    assert "constant 1.0 -> 2.0 in scaled()" in last.text
    assert kernel.run("print(run.stale, run.live)").text == "() True\n"
    assert own_kernel.shut_down(timeout=5.0) == 0
