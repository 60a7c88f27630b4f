"""A process that ends leaves no thread of ours in a trace, in XLA or in user code."""

from __future__ import annotations

import os
import subprocess
import sys

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
