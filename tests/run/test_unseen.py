"""Programs that only a trace can compare: whoever looks is told, once aloud."""

from __future__ import annotations

import pytest
from cells import check_error, live, losses, tiny

import nitro_repl as nitro
from nitro_repl._run.look import Look

LOSS = "@Tiny.hook\ndef loss(self, logits, *, y):\n    return logits.mean() * {}\n"
KEPT = (
    "import contextvars\nFACTOR = 2.0\nheld = contextvars.ContextVar('h', default=2.0)"
)
READS = {
    "eval": ("eval('FACTOR')", "eval() is called"),
    "globals": ("globals()['FACT' + 'OR']", "globals() is called"),
    "environ": ("float(os.environ.get('FACTOR', 2))", "environ"),
    "ContextVar": ("held.get()", "ContextVar"),
}


def told(run):
    return [x.text for x in run.log.since(0)[0] if "without tracing" in x.text]


@pytest.mark.parametrize("what", READS)
def test_what_only_a_trace_can_compare_is_said(what, fresh_programs):
    code, reason = READS[what]
    with live(tiny(KEPT, LOSS.format(code))) as run:
        (line,) = told(run)
        assert "`loss` cannot be compared" in line
        assert reason in line
        rows = {row.name: row for row in run.status().programs}
        assert rows["loss"].unknown.startswith("stale unknown: always traced, ")
        assert reason in rows["loss"].unknown
        assert not rows["forward"].unknown
        assert "stale unknown" in repr(run.status())
        assert "stale unknown" in repr(nitro.programs)
        shown = {row["name"]: row["why"] for row in Look(run).sections()["programs"]}
        assert "stale unknown" in shown["loss"]
        assert "stale unknown" not in shown["forward"]
        assert run.stale == ()


def test_a_swap_that_makes_such_a_program_says_it_once(fresh_programs):
    book = tiny("FACTOR = 2.0", LOSS.format("FACTOR"))
    with live(book) as run:
        assert told(run) == []
        assert "unknown" not in repr(run.status())
        assert "unknown" not in repr(nitro.programs)
        book.cell(LOSS.format("eval('FACTOR')"))
        run.swap()
        assert len(told(run)) == 1
        run.swap()
        assert len(told(run)) == 1
        book.cell(LOSS.format("FACTOR"))
        run.swap()
        assert "unknown" not in repr(run.status())


THREAD_LOCAL = """
import threading
class Held(threading.local):
    other = 1.0
held = Held()
held.factor = held.other = 3.0
"""


def test_a_thread_local_is_said_to_be_another_in_a_trace(fresh_programs):
    book = tiny(THREAD_LOCAL, LOSS.format("held.other"))
    with live(book) as run:
        (line,) = told(run)
        assert "has what the thread that traces put there, not yours" in line
        assert run.stale == (), "what this thread put there is no edit"
        run.swap()
        assert run.stale == ()
        book.cell(LOSS.format("(held.other + 1)"))  # control: code around it is
        assert run.stale == ("loss",)


def test_what_a_thread_local_lacks_in_a_trace_is_explained():
    with pytest.raises(nitro.HookError) as error:
        tiny(THREAD_LOCAL, LOSS.format("held.factor")).train()
    check_error(error.value, "threading.local", "`factor`", "ContextVar")


def test_a_hook_may_set_a_thread_local_and_read_it(fresh_programs):
    code = "\n    held.factor = 2.0\n    return logits.mean() * held.factor"
    cell = LOSS.format(0).replace("    return logits.mean() * 0", code)
    plain = tiny(LOSS.format("2.0")).train()
    assert losses(tiny(THREAD_LOCAL, cell).train()) == losses(plain)
