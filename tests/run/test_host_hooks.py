"""A host hook that raises ends the run, which goes on whole once it is mended."""

from __future__ import annotations

import pytest
from cells import Outcomes, check_error, live, tiny, until

import nitro_repl as nitro
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

HOOKS = """
def helper(x):
    return x

def of_loader(x): return x
def of_val(x): return x
def of_metrics(x): return x
def of_finalize(x): return x

class Rows:
    def __init__(self, rows, each):
        self.rows, self.each = rows, each
    def __len__(self):
        return len(self.rows)
    def __iter__(self):
        for k, row in enumerate(self.rows):
            if k == 1:
                globals()[self.each](1)
            yield row

class Opens(Rows):
    def __iter__(self):
        globals()[self.each](1)
        return iter(self.rows)

class Tiny(Tiny):
    def build_data(self):
        return {"train": Rows(ROWS, "of_loader"), "val": Opens(ROWS[:2], "of_val")}

    def metrics(self, logits, *, y):
        of_metrics(1)
        return {"acc": Mean((logits.argmax(-1) == y).sum(), len(y))}

    def finalize_metrics(self, totals, split):
        of_finalize(1)
        return totals
"""
RAISE = {"deleted": "del {0}", "raises": "def {0}(x): raise OSError('no disk')"}


@pytest.mark.parametrize("how", RAISE)
@pytest.mark.parametrize("what", ["loader", "val", "metrics", "finalize"])
def test_the_run_goes_on_whole_after_the_fix(what, how):
    name = f"of_{what}"
    with live(tiny(HOOKS), eval_every="1 step") as run:
        book_globals = run.handle.experiment.metrics.__globals__
        exec(RAISE[how].format(name), book_globals)
        with pytest.raises(nitro.HookError) as error:
            run.advance(100)
        check_error(error.value, "no disk" if how == "raises" else name)
        assert error.value.frames, "the user's own"
        until(lambda: not run.live)
        assert run.phase == "failed"
        kept = run.step
        assert run.params
        exec(f"def {name}(x): return x", book_globals)
        with count_compiles() as count:
            looked = Outcomes()
            assert run.handle.train(background=True, paused=True) is run
            run.advance(4)
        assert not count.compiled
        assert not looked.not_hits
        assert run.step == kept + 4
        assert run.history()["step"].tolist() == list(range(1, run.step + 1))
        val = run.history("val")["step"].tolist()
        assert val[:-1] == list(range(1, run.step)), "the one that failed is made up"


def test_an_edit_of_a_traced_hook_is_the_control():
    book = tiny(HOOKS)
    with live(book) as run, count_compiles() as count:
        book.cell("@Tiny.hook\ndef loss(self, logits, *, y):\n    return logits.std()")
        run.swap()
    assert count.compiled
