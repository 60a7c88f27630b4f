"""A process that ends leaves no thread of ours in a trace, in XLA or in user code."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(__file__))
SCRIPT = """
import atexit, sys, threading
sys.path.insert(0, {tests!r})

def left():
    names = [t.name for t in threading.enumerate() if t.name.startswith("nitro")]
    print("left:", sorted(names), flush=True)

atexit.register(left)  # the first to be registered is the last to be called
from cells import tiny, until

class Waits:
    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()
    def __call__(self):
        self.reached.set()
        self.opened.wait(60)

in_trace, in_schedule = Waits(), Waits()

def schedule(step):
    if int(step) == 20:
        in_schedule()
    return 0.1

book = tiny('''
class Tiny(Tiny):
    def schedules(self):
        return {{"smoothing": lambda total: schedule}}
''')
book.names |= {{"in_trace": in_trace, "schedule": schedule}}
run = book.handle(max_steps=None).train(background=True, paused=True)
run.advance(1)
book.cell('''
@Tiny.hook
def loss(self, logits, *, y):
    in_trace()
    return logits.mean()
''')
run.swap(wait=False)
assert in_trace.reached.wait(60) and in_schedule.reached.wait(60)
left()
for waits in (in_trace, in_schedule):
    atexit.register(waits.opened.set)
"""


def test_a_process_that_ends_in_the_middle_of_a_swap_waits_for_its_threads():
    script = SCRIPT.format(tests=TESTS)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    said = [x for x in done.stdout.splitlines() if x.startswith("left:")]
    assert "nitro-swap-" in said[0], "the control: they are there"
    assert "nitro-schedule-" in said[0]
    assert said[-1] == "left: []"


BROKEN = """
import atexit, json, pathlib, sys, threading
sys.path.insert(0, {tests!r})
reached, taken_down = threading.Event(), threading.Event()

def end():
    taken_down.set()  # the first to be registered: runs have been waited for by now
    for thread in threading.enumerate():
        if thread.name.startswith("nitro"):
            thread.join(60)

atexit.register(end)
from cells import tiny

def breaks():
    reached.set()
    taken_down.wait(60)
    raise KeyError("JAX is gone")

book = tiny('''
class Tiny(Tiny):
    def forward(self, model, *, x):
        breaks()
''')
book.names["breaks"] = breaks
run = book.handle(max_steps=None, run_dir={folder!r}).train(background=True)
assert reached.wait(60)
if {now}:
    taken_down.set()
    run.wait()
"""


@pytest.mark.parametrize("now", [False, True])
def test_what_the_end_of_a_process_breaks_is_no_failure_of_the_run(now, tmp_path):
    script = BROKEN.format(tests=TESTS, folder=str(tmp_path), now=now)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    (record,) = tmp_path.rglob("run.json")
    outcome = json.loads(record.read_text())["outcome"]
    assert ("failed" in done.stdout + done.stderr) is now, "the control fails"
    assert (outcome == "failed") is now
