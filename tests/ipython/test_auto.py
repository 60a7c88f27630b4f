from __future__ import annotations

import importlib
import sys
import threading

import pytest

from nitro_repl._programs.trace import tracing
from nitro_repl._watch.news import News
from tests.cells import DATA, LOSS, TINY

LOUDER = LOSS.replace("wrong * wrong", "{} * wrong * wrong")
TRAIN = "run = %nitro train Tiny --paused --run-dir None --logger None\nrun.advance(2)"


# -- cells


def test_the_level_is_told_set_and_refused(console, shell, capsys):
    assert "auto 1" in console.cell("_level = %nitro auto\nprint(_level)")
    assert "auto 2" in console.cell(
        "print(get_ipython().run_line_magic('nitro', 'auto 2'))"
    )
    assert "auto 2" in console.cell("_level = %nitro auto\nprint(_level)")
    shell.run_cell("%nitro auto 3")
    assert "UsageError: there is no auto level 3: 0, 1 or 2" in capsys.readouterr().err


def test_an_edit_is_named_once_with_its_cause(console):
    said = console.cell(LOUDER.format(2.0))
    assert said.count("stale in run") == 1
    assert f"{console.run.id}: loss (" in said
    assert "squared_error" in said
    assert "%nitro swap" in said
    assert console.cell("pass") == ""
    assert console.cell(LOUDER.format(2.0)) == ""
    said = console.cell(LOUDER.format(3.0))
    assert said.count("stale in run") == 1
    assert console.cell("x = 1") == ""


def test_an_undone_edit_is_silent_and_made_again_it_is_named_again(console):
    assert "stale" in console.cell(LOUDER.format(2.0))
    assert console.cell(LOSS) == ""
    assert console.run.stale == ()
    assert "stale" in console.cell(LOUDER.format(2.0))


def test_only_what_is_new_is_named(console):
    assert "loss" in console.cell(LOUDER.format(2.0))
    said = console.cell(
        "@Tiny.hook\ndef optimizer(self, hp):\n    return optax.adam(hp.learning_rate)"
    )
    assert "optimizer" in said
    assert "loss" not in said


def test_an_edit_that_a_swap_took_is_not_named(console):
    said = console.cell(LOUDER.format(2.0) + "\nrun.swap()")
    assert "stale" not in said
    assert "stale" in console.cell(LOUDER.format(3.0))  # control
    said = console.cell(LOUDER.format(4.0) + "\nrun.swap(wait=False)")
    console.settled()
    assert "stale" not in console.waits_for("switched at step")


def test_the_run_that_ended_last_is_named_too(console):
    console.cell("run.stop()")
    said = console.cell(LOUDER.format(2.0))
    assert "stale in run" in said
    assert "%nitro swap takes the edit, then %nitro train goes on" in said
    console.cell("%nitro auto 2")
    assert "stale in run" in console.cell(LOUDER.format(3.0))


def test_runs_that_an_edit_makes_stale_alike_are_named_in_one_line(console):
    first = console.run
    console.cell(TRAIN.replace("Tiny", "Tiny --fresh"))
    second = console.run
    assert first is not second
    assert first.live
    said = console.cell(LOUDER.format(2.0))
    assert said.count("stale in") == said.count("squared_error") == 1
    assert f"stale in runs {first.id}, {second.id}: loss (" in said
    console.cell("run.stop()")
    said = console.cell(LOUDER.format(3.0))
    assert f"stale in run {first.id}: " in said
    assert second.id not in said
    console.cell("for run in list(nitro.runs.values()):\n    run.stop()")
    assert console.cell("pass") == "", "named already, though not of this run"
    said = console.cell(LOUDER.format(4.0))
    assert f"stale in run {second.id}: " in said, "the last one started"
    assert first.id not in said


def test_level_0_is_silent_until_it_is_raised(console):
    console.cell("%nitro auto 0;")
    assert console.cell(LOUDER.format(2.0)) == ""
    assert "stale in run" in console.cell("%nitro auto 1;")


def test_looking_makes_no_program_and_traces_nothing(console):
    events = len(console.shell.user_ns["nitro"].programs.events())
    console.cell(LOUDER.format(2.0))
    console.cell("pass")
    assert len(console.shell.user_ns["nitro"].programs.events()) == events


def test_a_new_code_that_does_not_fit_is_told_once(console):
    for level in (1, 2):
        console.cell(f"%nitro auto {level};")
        said = console.cell("ROWS2 = ROWS\n" + TINY.replace("ROWS,", "ROWS2,"))
        assert said.count("does not fit run") == 1
        assert "build_data" in said
        assert console.cell("pass") == ""
        assert "fits run" in console.cell(TINY)
        assert console.cell("pass") == ""
    assert console.run.phase == "paused"


# -- level 2


def test_level_2_swaps_after_the_cell_and_says_so_once(console):
    console.cell("%nitro auto 2;")
    console.cell(LOUDER.format(2.0))
    said = console.waits_for("switched at step")
    assert console.settled().stale == ()
    assert said.count("switched") == 1
    assert "loss" in said
    assert "stale in" not in said
    assert console.cell("pass") == ""
    entries = [e for e in console.run.journal.entries if e["command"] == "swap"]
    assert [entry["by"] for entry in entries] == ["auto"]


def test_raising_the_level_swaps_what_was_only_named(console):
    assert "stale" in console.cell(LOUDER.format(2.0))
    console.cell("%nitro auto 2;")
    console.waits_for("switched at step")
    assert console.settled().stale == ()


def test_a_swap_that_fails_is_told_once_and_the_run_goes_on(console):
    console.cell("%nitro auto 2;")
    console.cell(LOUDER.format("no_such_name"))
    said = console.waits_for("swap refused")
    assert "no_such_name" in said
    console.settled()
    assert console.cell("pass") == ""
    console.cell("run.advance(1)")
    assert console.run.step == 3
    console.cell("no_such_name = 2.0")
    console.waits_for("switched at step")
    assert console.settled().stale == ()


def test_a_swap_that_was_undone_stays_undone(console):
    console.cell("%nitro auto 2;")
    console.cell(LOUDER.format(2.0))
    console.waits_for("switched at step")
    console.settled()
    console.cell("run.swap(undo=True)")
    assert console.run.stale == ("loss",)
    console.cell("pass")
    assert not console.run.swapping
    assert console.run.stale == ("loss",)
    console.cell(LOUDER.format(3.0))
    console.waits_for("switched at step")
    assert console.settled().stale == ()


# -- while something is traced


def test_a_cell_does_not_wait_for_a_trace_and_its_edit_is_named_after_it(console):
    held, done = threading.Event(), threading.Event()

    def trace():
        with tracing:
            held.set()
            assert done.wait(60)

    thread = threading.Thread(target=trace)
    thread.start()
    assert held.wait(60)
    try:
        assert console.cell(LOUDER.format(2.0)) == ""
    finally:
        done.set()
        thread.join()
    assert console.waits_for("stale in run").count("stale") == 1
    assert console.cell("pass") == ""


def test_no_failure_reaches_the_cell_and_it_is_said_once(console, monkeypatch):
    def take(self, run):
        raise ZeroDivisionError("mine")

    monkeypatch.setattr(News, "take", take)
    said = console.cell("x = 1")
    assert "could not look for edits: ZeroDivisionError: mine" in said
    assert console.cell("x = 2") == ""


# -- files


@pytest.fixture
def module(console, tmp_path, monkeypatch):
    """A loss in a file, used by the live run."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "nitro_auto_loss.py"
    file.write_text("import jax\n" + LOSS)
    importlib.invalidate_caches()
    console.cell("from nitro_auto_loss import squared_error\nrun.swap()")
    assert console.run.stale == ()
    yield file
    sys.modules.pop("nitro_auto_loss", None)


def test_a_saved_file_is_named_without_a_cell(console, module):
    module.write_text("import jax\n" + LOUDER.format(2.0))
    said = console.waits_for("stale in run")
    assert "squared_error" in said
    assert "nitro_auto_loss.py" in said
    assert console.cell("pass") == ""
    module.write_text("import jax\n" + LOUDER.format(2.0) + "# a comment\n")
    module.write_text("import jax\n" + LOUDER.format(3.0))
    assert console.waits_for("stale in run").count("stale in run") == 1


def test_a_cell_takes_from_a_file_what_was_saved_just_before(console, module):
    console.cell("%nitro auto 0;\nimport nitro_auto_loss")  # no look at the save itself
    console.said()
    module.write_text("import jax\n" + LOUDER.format(3.5))
    said = console.cell("mine = nitro_auto_loss.squared_error")
    assert 3.5 in console.shell.user_ns["mine"].__code__.co_consts
    assert "still holds" not in said


def test_saves_of_every_kind_are_swapped_in_and_none_is_lost(console, module, tmp_path):
    console.cell("%nitro auto 2;")
    steps = 0

    def save(text, how):
        if how == "rename":
            temporary = tmp_path / "nitro_auto_loss.py.tmp"
            temporary.write_text(text)
            temporary.replace(module)
        else:
            if how == "anew":
                module.unlink()
            module.write_text(text)

    for k, how in enumerate(["rename"] * 5 + ["in place"] * 2 + ["anew"]):
        console.cell("pass")
        save("import jax\n" + LOUDER.format(f"{k + 2}.0"), how)
        console.waits_for("switched at step")
        assert console.settled().stale == ()
        steps += 1
        assert console.text.count("switched") == 1
    assert (
        len([e for e in console.run.journal.entries if e["by"] == "auto"]) == steps == 8
    )


def test_files_that_fail_are_told_once_each_and_the_last_edit_is_applied(
    console, module
):
    console.cell("%nitro auto 2;")
    module.write_text("def squared_error(:\n")
    assert console.waits_for("does not parse").count("does not parse") == 1
    module.write_text("import no_such_module\n" + LOUDER.format(2.0))
    said = console.waits_for("does not run")
    assert said.count("does not parse") == said.count("does not run") == 1
    console.cell("run.advance(1)")
    module.write_text("import jax\n" + LOUDER.format(4.0))
    console.waits_for("switched at step")
    assert console.settled().step == 3
    assert console.run.stale == ()


def test_what_a_cell_made_of_a_function_of_the_file_is_swapped_in(console, module):
    console.cell(
        "import nitro_auto_loss\n"
        "scored = functools.partial(nitro_auto_loss.squared_error, smoothing=0.0)\n"
        "table = {'loss': jax.jit(scored)}\n"
        "own = nitro_auto_loss.squared_error\n"
        "@Tiny.hook\n"
        "def loss(self, logits, *, y):\n"
        "    return table['loss'](logits, y)\n"
        "run.swap()\n"
        "before = run.handle.validate()['val_loss']"
    )
    console.cell("%nitro auto 2;")
    module.write_text("import jax\n" + LOUDER.format(4.0))
    said = console.waits_for("switched at step")
    assert "`own` still holds an older `nitro_auto_loss.squared_error`" in said
    assert "run its cell again" in said
    console.settled()
    console.cell("after = run.handle.validate()['val_loss']")
    names = console.shell.user_ns
    assert names["after"] == pytest.approx(4 * names["before"], rel=1e-5)
    module.write_text("import jax\n" + LOUDER.format(5.0))
    assert "still holds" not in console.waits_for("switched at step")
    console.settled()


BASE = """
import nitro_repl as nitro
class Base(nitro.Experiment):
    def loss(self, logits, *, y):
        return {0} * (logits * logits).mean()
"""
SUB = (
    "import numpy as np, optax\nfrom flax import nnx\nimport nitro_repl as nitro\n"
    "from nitro_repl import Device, GraphConst\nfrom nitro_auto_base import Base\n"
    + DATA
    + TINY.replace("nitro.Experiment", "Base").replace(
        "return squared_error(logits, y, self.smoothing)",
        "return super().loss(logits, y=y) + self.smoothing",
    )
)


def test_a_base_class_in_another_file_is_followed_through_super(
    console, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(str(tmp_path))
    base, sub = tmp_path / "nitro_auto_base.py", tmp_path / "nitro_auto_sub.py"
    base.write_text(BASE.format(1.0))
    sub.write_text(SUB)
    importlib.invalidate_caches()
    try:
        console.cell("import nitro_auto_sub\n%nitro stop")
        console.cell(TRAIN.replace("Tiny", "nitro_auto_sub.Tiny"))
        console.cell("e = nitro_auto_sub.Tiny()\n%nitro auto 2")
        console.cell("before = run.handle.validate()['val_loss'] - 0.1")
        base.write_text(BASE.format(3.0))
        said = console.waits_for("switched at step")
        assert console.settled().stale == ()
        console.cell("after = run.handle.validate()['val_loss'] - 0.1")
        names = console.shell.user_ns
        assert names["after"] == pytest.approx(3 * names["before"], rel=1e-4)
        assert type(names["e"]) is names["nitro_auto_sub"].Tiny
        assert isinstance(names["e"], sys.modules["nitro_auto_base"].Base)
        assert "still holds" not in said
    finally:
        for name in ("nitro_auto_base", "nitro_auto_sub"):
            sys.modules.pop(name, None)


# -- what a reason says


def test_a_changed_global_is_named_with_the_cell_that_set_it(console):
    def numbered(source):
        """Run a cell that counts; its number."""
        console.said()
        console.text = ""
        console.shell.run_cell(source, store_history=True).raise_error()
        return console.shell.execution_count - 1

    numbered("GAIN = 1.0")
    numbered(LOUDER.format("GAIN"))
    numbered("run.swap()")
    number = numbered("GAIN = 2.0")  # who watches the files may be the one to tell it
    console.waits_for(f"global GAIN 1.0 -> 2.0, In [{number}], read by squared_error()")
    numbered("run.swap()")
    number = numbered("globals()['GAIN'] = 3.0")
    console.waits_for(f", In [{number}], read")
    numbered("def bump():\n    global GAIN\n    GAIN = 4.0")
    number = numbered("bump()")
    console.waits_for(f", In [{number}], read")  # where it was set
    console.shell.user_ns["GAIN"] = 5.0  # by nobody's cell
    (why, *_) = console.run.swap()[1:]
    assert "GAIN 2.0 -> 5.0, read by" in why, why


def test_a_changed_global_of_a_file_is_named_with_its_line(console, module):
    before = module.read_text()
    module.write_text(before + "\ncoef = 0.1\n")
    console.cell("import nitro_auto_loss as mod\n" + LOUDER.format("mod.coef"))
    console.cell("run.swap()")
    module.write_text(before + "\n\ncoef = 0.2\n")
    said = console.cell("print(list(run.swap()))")
    line = module.read_text().splitlines().index("coef = 0.2") + 1
    where = f"nitro_auto_loss.py:{line}"
    assert f"mod.coef 0.1 -> 0.2, {where}, read by squared_error()" in said, said
    console.cell("mod.coef = 0.3")  # who watches the files may be the one to tell it
    console.waits_for("mod.coef 0.2 -> 0.3, read by squared_error()")


def test_all_frames_of_a_failing_hook_are_shown(console):
    console.cell("def inner(x):\n    return x @ jnp.ones((7, 7))")
    console.cell("@Tiny.hook\ndef loss(self, logits, *, y):\n    return inner(logits)")
    console.capsys.readouterr()
    console.shell.run_cell("run.swap()")
    said = "".join(console.capsys.readouterr())
    assert "line 3, in loss" in said
    assert "line 2, in inner" in said
    assert "swap.py" not in said
    console.shell.run_cell(
        "_next = nitro.Nitro(Tiny(), run_dir=None).train()\n_next.wait()"
    )
    said = "".join(console.capsys.readouterr())
    assert said.count("line 2, in inner") >= 1
    assert "worker.py" not in said
