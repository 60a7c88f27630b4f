"""Level 2 takes edits that only a trace shows, and leaves no mark where none is."""

from __future__ import annotations

import threading

import pytest

import nitro_repl as nitro
from nitro_repl.testing import count_compiles
from tests.cells import until

KEPT = """
import contextvars, pathlib, time
held = contextvars.ContextVar("held", default=2.0)

def noted():
    with open(NOTED) as file:
        return float(file.read())
"""
UNSEEN_LOSS = """
@Tiny.hook
def loss(self, logits, *, y):
    return logits.mean() * {}
"""
EDITS = {
    "eval": ("FACTOR = 2.0", "eval('FACTOR')", "FACTOR = 3.0"),
    "environ": (
        "os.environ['NITRO_TEST_FACTOR'] = '2'",
        "float(os.environ['NITRO_TEST_FACTOR'])",
        "os.environ['NITRO_TEST_FACTOR'] = '3'",
    ),
    "file": (
        "NOTED.write_text('2')",
        "noted()",
        "NOTED.write_text('3')",
    ),
    "ContextVar": ("held.set(2.0)", "held.get()", "held.set(3.0)"),
}


@pytest.fixture
def unseen(console, monkeypatch, tmp_path):
    """Level 2, and a run whose loss has a factor that no look sees."""
    monkeypatch.delenv("NITRO_TEST_FACTOR", raising=False)
    console.shell.user_ns["NOTED"] = tmp_path / "factor"
    console.cell(KEPT)

    def begin(first, code):
        console.cell(f"%nitro auto 2;\n{first}")
        console.cell(UNSEEN_LOSS.format(code))
        console.waits_for("switched at step")
        console.settled()
        looked()
        return console

    return begin


def looked():
    """Wait until no look is at work."""
    until(lambda: not [t for t in threading.enumerate() if "nitro-look" in t.name])


def marks(run):
    """All that a swap leaves behind."""
    lines = [line.text for line in run.log.since(0)[0]]
    return (
        nitro.programs.count(),
        len(run.journal.entries),
        lines,
        str(nitro.programs.why()),
    )


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_that_only_a_trace_shows_is_swapped_in(unseen, what):
    first, code, edit = EDITS[what]
    console = unseen(first, code)
    before = marks(console.run)
    with count_compiles() as count:
        assert console.cell("pass") == ""
        looked()
    assert dict(count.traced) == {"loss": 2}, "its two forms, once a cell"
    assert not count.compiled
    assert marks(console.run) == before
    with count_compiles() as count:
        console.cell(edit)
        console.waits_for("switched at step")
        console.settled()
        looked()
    assert set(count.compiled) <= {"loss"}
    entry = console.run.journal.entries[-1]
    assert (entry["command"], entry["by"]) == ("swap", "auto")


def test_the_value_that_is_taken_is_the_new_one(unseen):
    console = unseen(*EDITS["eval"][:2])
    console.cell("run.set(learning_rate=0.0)\nFACTOR = 6.0")
    console.waits_for("switched at step")
    console.settled()
    console.cell("run.advance(5)\nFACTOR = 2.0")
    console.waits_for("switched at step")
    console.settled()
    console.cell("run.advance(5)")
    losses = console.run.history("train")["loss"][-10:]
    assert losses[:5] == pytest.approx(3 * losses[5:])


def test_a_swap_of_such_an_edit_that_was_undone_stays_undone(unseen):
    console = unseen(*EDITS["eval"][:2])
    console.cell("FACTOR = 3.0")
    console.waits_for("switched at step")
    console.settled()
    looked()
    console.cell("run.swap(undo=True)")
    looked()
    before = marks(console.run)
    console.cell("pass")
    looked()
    assert marks(console.run) == before
    console.cell("FACTOR = 4.0")
    console.waits_for("switched at step")
    console.settled()


def test_a_clock_is_no_edit(unseen):
    console = unseen("pass", "(time.perf_counter_ns() % 1000003)")
    before = marks(console.run)
    console.cell("pass")
    looked()
    with count_compiles() as count:
        console.cell("pass")
        looked()
    assert count.nothing, "it is not traced again and again either"
    assert marks(console.run) == before


def test_what_does_not_trace_any_more_is_said_once(unseen):
    console = unseen(*EDITS["eval"][:2])
    console.cell("del FACTOR")
    assert console.waits_for("swap refused").count("FACTOR") >= 1
    console.settled()
    looked()
    assert console.cell("pass") == ""
    looked()
    assert console.said() == ""
    console.cell("FACTOR = 3.0")
    console.waits_for("switched at step")
    console.settled()


def test_below_level_2_nothing_is_traced(unseen):
    console = unseen(*EDITS["eval"][:2])
    console.cell("%nitro auto 1;")
    looked()
    with count_compiles() as count:
        assert console.cell("FACTOR = 3.0") == ""
        looked()
    assert count.nothing


VALIDATED = """
def shown(logits):
    return logits.argmax(-1)

class Tiny(Tiny):
    metrics_residency = "device"

    def forward(self, model, *, x):
        return model(x) if self.training else tempered(model(x))

    def metrics(self, logits, *, y):
        return {"acc": Mean((shown(logits) == y).sum(), len(y))}
"""
TEMPERED = "def tempered(logits):\n    return logits / {}"


@pytest.mark.parametrize(
    ("edit", "programs"),
    [
        (TEMPERED.format(3.0), {"eval": 1}),
        ("def shown(logits):\n    return logits.argmin(-1)", {"metrics": 1}),
    ],
    ids=["forward", "metrics"],
)
def test_an_edit_that_only_evaluation_reaches_is_swapped_in(console, edit, programs):
    console.cell("run.stop()")
    console.cell(TEMPERED.format(2.0))
    console.cell(VALIDATED)
    console.cell(
        "run = %nitro train Tiny --paused --run-dir None --logger None "
        "--eval-every '1 step'\nrun.advance(1)\n%nitro auto 2;"
    )
    with count_compiles() as count:
        console.cell(edit)
        console.waits_for("switched at step")
        console.settled()
    assert dict(count.compiled) == programs
