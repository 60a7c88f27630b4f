"""Measure the live panel in JupyterLab: frames, messages, kernel cost, the step rate.

    python tests/bench/panel.py [--seconds 8] [--rounds 9]

Needs chromium and `.[dev]`. First a run makes 19,500 steps at once and goes on at a
steady pace, so that the panel holds 20,000 points of each curve and gets new ones ten
times a second: the frames of the page, the messages that reach it, and the time of a
turn of the thread that writes the panel. Then two runs of one experiment take turns,
one with its panel open and one without; the turns of the one without are compared with
each other too: that ratio says how much of the other is noise.
"""

from __future__ import annotations

import argparse
import ast
import os
import statistics
import sys
import tempfile
from pathlib import Path

os.environ["NITRO_CACHE_DIR"] = "off"
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.browser import lab, pages
from tests.browser.shown import Shown
from tests.browser.test_live_page import comm_messages
from tests.browser.tiny import tiny

SETUP = (
    tiny(200, max_steps=100_000_000, eval_every=1000, fuse=True)
    + """    def train_metrics(self, outputs):
        return {"a_loss": outputs.mean() ** 2, "b_loss": outputs.std()}

import statistics
from nitro_repl._widgets.panel import Panel
turns, own = [], Panel._turn
def timed(panel):
    wall, cpu = time.perf_counter(), time.thread_time()
    try:
        return own(panel)
    finally:
        turns.append((time.perf_counter() - wall, time.thread_time() - cpu))
Panel._turn = timed
"""
)
TRAIN = """
run = %nitro train Tiny
_ = run.advance(19_500)
"""
PACE = """
_ = run.every(lambda run: time.sleep(0.01), steps=1)
run.resume()
turns.clear()
"""
COST = """
print([[f(ms) for f in (statistics.median, max)] for ms in
       ([1e3 * t[i] for t in turns] for i in (0, 1))])
run.stop()
"""
RATES = """
with_panel = %nitro train Tiny
with_panel.pause()
without = nitro.Nitro(Tiny()).train(background=True, paused=True)

def rate(run, seconds=1.0):
    first = run.step
    run.resume()
    begun = time.perf_counter()
    time.sleep(seconds)
    run.pause()
    return (run.step - first) / (time.perf_counter() - begun)

for one in (with_panel, without):
    rate(one)
rounds = [(rate(without), rate(with_panel), rate(without)) for _ in range(ROUNDS)]
with_panel.stop(); without.stop()
print(rounds)
"""
FRAMES = """
(seconds) => new Promise((done) => {
  const begun = performance.now();
  let frames = 0;
  const count = () => {
    frames += 1;
    const took = (performance.now() - begun) / 1000;
    if (took < seconds) requestAnimationFrame(count); else done([frames, took]);
  };
  requestAnimationFrame(count);
})
"""
CELLS = [SETUP, TRAIN, PACE, COST, RATES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        lab.server(Path(folder)) as server,
        pages.browser() as browser,
    ):
        cells = [c.replace("ROUNDS", str(options.rounds)) for c in CELLS]
        lab.write(server.root, cells)
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        came = comm_messages(page)
        book = lab.Notebook(page, server).open()
        steady(book, came, options.seconds)
        rates(book)


def steady(book, came, seconds):
    """A panel that is full and gets new points all the time."""
    for place in range(3):
        book.run(place)
    panel = Shown(book.page).wait()
    panel.root.scroll_into_view_if_needed()
    panel.until_step(19_550)
    points = panel.ask("return [...view.charts.store.values()].map((p) => p.count)")
    draws, messages = panel.ask("return view.charts.draws"), len(came)
    frames, took = book.page.evaluate(FRAMES, seconds)
    draws = panel.ask("return view.charts.draws") - draws
    messages = len(came) - messages
    draw_ms = panel.ask("return view.charts.drawMs")
    book.run(3)
    wall, cpu = ast.literal_eval(book.text(3))
    print(f"points of the curves      {points}")
    print(f"frames of the page        {frames / took:.1f} a second")
    print(
        f"drawn anew                {draws / took:.1f} times a second, {draw_ms:.1f} ms"
    )
    print(f"messages                  {messages / took:.1f} a second")
    print(
        f"a turn, wall time         {wall[0]:.2f} ms median, {wall[1]:.2f} ms longest"
    )
    print(f"a turn, thread's CPU time {cpu[0]:.2f} ms median, {cpu[1]:.2f} ms longest")


def rates(book):
    """Steps a second, with the panel open and without, in turns."""
    book.run(4)
    printed = book.cell(4).locator(".jp-OutputArea-output").last.inner_text()
    rounds = ast.literal_eval(printed)
    middle = statistics.median(row[0] for row in rounds)
    with_panel = statistics.median(p / ((a + b) / 2) for a, p, b in rounds)
    noise = [b / a for a, _, b in rounds]
    print(f"steps a second without    {middle:.0f}")
    print(
        f"with the panel / without  {with_panel:.3f} (median of {len(rounds)} rounds)"
    )
    low, mid, high = min(noise), statistics.median(noise), max(noise)
    print(f"without / without (A/A)   {mid:.3f}, from {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    main()
