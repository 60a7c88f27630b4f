from __future__ import annotations

import contextlib
import sys
import threading

import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from cells import (
    Outcomes,
    check_error,
    in_thread,
    live,
    losses,
    same,
    tiny,
    until,
)

import nitro_repl as nitro
from nitro_repl import SwapError
from nitro_repl.testing import count_compiles
from nitro_repl.testing._compiles import COMPILED

pytestmark = pytest.mark.usefixtures("nothing_known")

ADAM = """
class Tiny(Tiny):
    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)

    def learning_rate(self):
        return 0.01
"""
NEW_LOSS = """
@Tiny.hook
def loss(self, logits, *, y):
    return squared_error(logits, y, self.smoothing) * {}
"""
SLOW_LOSS = """
@Tiny.hook
def loss(self, logits, *, y):
    value = squared_error(logits, y, self.smoothing)
    for n in range(12):
        value = jnp.sin(value * (1 + n / 100)) + jnp.exp(-value)
    return value
"""
CODE_LOSS = """
@Tiny.hook
def loss(self, logits, *, y):
    return squared_error(logits, y, self.smoothing) + 0 * jnp.{}(abs(logits)).sum()
"""
LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"


def edit_loss(book, factor):
    book.cell(NEW_LOSS.format(factor))


# ---- only the loss compiles, and the run goes on


def test_after_a_loss_edit_only_the_loss_compiles_and_everything_goes_on():
    book = tiny(ADAM)
    with live(book, steps=3, eval_every=2) as run:
        before, rows, state = run.params, losses(run), run._loop.carry.opt
        adam_count = [int(leaf) for leaf in state if leaf.dtype == np.int32]
        edit_loss(book, 3.5)
        assert run.stale == ("loss",)
        outcomes = Outcomes()
        with count_compiles() as count:
            run.swap()
        assert set(count.compiled) == {"loss"}, count
        assert outcomes.worst == {
            "forward": "hit", "loss": "compiled", "backward": "hit",
            "optimizer": "hit", "eval": "hit",
        }  # fmt: skip
        assert run.step == 3
        assert same(run.params, before)
        assert run.stale == ()
        with count_compiles() as count:
            run.advance(3)
        assert count.nothing
        assert losses(run)[:3] == rows
        assert run.history()["step"].tolist() == [1, 2, 3, 4, 5, 6]
        counts = [int(a) for a in run._loop.carry.opt if a.dtype == np.int32]
        assert counts == [n + 3 for n in adam_count]
        assert len(run.history("val")) > 0


def test_a_swap_is_as_if_the_edit_had_been_there_at_that_step():
    book = tiny(ADAM)
    with live(book, steps=2) as run:
        edit_loss(book, 3.5)
        run.swap()
        run.advance(2)
        swapped = losses(run)
    expected = losses(tiny(ADAM).train(max_steps=3))
    assert swapped[:2] == expected[:2]
    assert swapped[2] == pytest.approx(expected[2] * 3.5, rel=1e-6)
    assert swapped[3] != pytest.approx(swapped[2], rel=1e-3)


def test_the_run_steps_on_while_the_new_loss_is_compiled():
    book = tiny()
    seen = {}

    with live(book) as run:

        def watch(event, seconds, **details):
            if details.get("fun_name") == "jit(nitro_loss)" and event == LOWERED:
                seen["lowered"] = run.step
            elif details.get("fun_name") == "jit(nitro_loss)" and event == COMPILED:
                seen["compiled"] = (run.step, seconds)

        run.resume()
        book.cell(SLOW_LOSS)
        jax.monitoring.register_event_duration_secs_listener(watch)
        try:
            begun = run.step
            run.swap()
        finally:
            jax.monitoring.unregister_event_duration_listener(watch)
        switched = swaps(run)[0]["step"]
        run.pause()
        assert run.exception is None
        compiled, seconds = seen["compiled"]
        assert seen["lowered"] > begun, "no step while it was traced and lowered"
        assert compiled - seen["lowered"] > 5, f"no steps in {seconds:.2f} s of XLA"
        assert switched >= compiled
        assert run.step > switched


@contextlib.contextmanager
def held():
    """The first compile of a loss waits: events for its coming and its going on."""
    came, go = threading.Event(), threading.Event()

    def hold(event, seconds, **details):
        fun = details.get("fun_name")
        if event == LOWERED and fun == "jit(nitro_loss)" and not came.is_set():
            came.set()
            assert go.wait(60)

    jax.monitoring.register_event_duration_secs_listener(hold)
    try:
        yield came, go
    finally:
        go.set()
        jax.monitoring.unregister_event_duration_listener(hold)


def swaps(run):
    return [e for e in run.journal.entries if e["command"] in ("swap", "undo")]


def test_values_that_are_set_during_a_compile_stay():
    book = tiny()
    with live(book) as run:
        run.set(smoothing=0.25)
        edit_loss(book, 2.75)
        wait, go = threading.Event(), threading.Event()

        def hold(event, seconds, **details):
            if event == LOWERED and details.get("fun_name") == "jit(nitro_loss)":
                wait.set()
                assert go.wait(60)

        jax.monitoring.register_event_duration_secs_listener(hold)
        try:
            swapping = in_thread(run.swap)
            assert wait.wait(60)
            assert run.progress().note
            run.set(smoothing=0.5, learning_rate=0.125)
            run.advance(1)
        finally:
            go.set()
            jax.monitoring.unregister_event_duration_listener(hold)
        swapping()
        assert {row.name: row.value for row in run.status().values} == {
            "smoothing": 0.5,
            "learning_rate": 0.125,
            "weight_decay": 0.0,
        }
        assert run.progress().note == ""
        run.advance(1)
        assert run.history()["learning_rate"].tolist() == [0.5, 0.5, 0.125, 0.125]


def test_swap_without_waiting_reports_the_switch(capsys):
    book = tiny()
    with live(book) as run:
        book.cell(CODE_LOSS.format("exp2"))
        run.swap(wait=False)
        until(lambda: swaps(run))
        until(lambda: not run.note)
    said = capsys.readouterr().out
    assert "switched at step 2" in said
    assert "loss: compiled" in said
    assert "forward" not in said.split("switched")[0]


# ---- which code


def test_swap_by_program_takes_its_hooks_only():
    book = tiny()
    with live(book) as run:
        book.cell("Tiny.forward = lambda self, model, *, x: jnp.cosh(model(x))")
        edit_loss(book, 1.875)
        assert set(run.stale) == {"forward", "loss", "backward"}
        with count_compiles() as count:
            run.swap("loss")
        assert set(count.traced) == {"loss"}, count
        assert set(run.stale) == {"forward", "backward"}
        outcomes = Outcomes()
        run.swap()
        assert set(outcomes.not_hits) == {"forward", "backward"}
        assert run.stale == ()
        run.advance(1)


def test_swap_of_a_function_binds_to_this_run_only():
    book = tiny()
    with live(book) as run, live(book) as other:
        run.swap(loss=lambda self, logits, *, y: (logits**2).mean() * 0 + 7.0)
        run.advance(1)
        other.advance(1)
        assert losses(run)[2] == 7.0
        assert losses(other)[2] != 7.0
        run.swap()
        run.advance(1)
        assert losses(run)[3] == 7.0, "what was bound stays bound"


def test_undo_goes_back_and_again_back():
    book = tiny()
    with live(book) as run:
        for value in (5.0, 6.0):
            run.swap(loss=lambda self, logits, *, y, v=value: logits.mean() * 0 + v)
            run.advance(1)
        run.swap(undo=True)
        run.advance(1)
        run.swap(undo=True)
        run.advance(1)
        assert losses(run)[2:5] == [5.0, 6.0, 5.0]
        assert losses(run)[5] not in (5.0, 6.0)
        with pytest.raises(SwapError) as error:
            run.swap(undo=True)
        check_error(error.value, "undo")
        assert [s["command"] for s in swaps(run)] == ["swap", "swap", "undo", "undo"]


def test_the_newest_request_wins():
    book = tiny()
    hooks = [  # new programs, so that they compile
        lambda self, logits, *, y: jnp.arctan(logits).mean() * 0 + 1.5,
        lambda self, logits, *, y: jnp.sinc(logits).mean() * 0 + 2.5,
    ]
    with live(book) as run:
        wait, go = threading.Event(), threading.Event()

        def hold(event, seconds, **details):
            fun = details.get("fun_name")
            if event == LOWERED and fun == "jit(nitro_loss)" and not wait.is_set():
                wait.set()
                assert go.wait(60)

        jax.monitoring.register_event_duration_secs_listener(hold)
        try:
            first = in_thread(lambda: run.swap(loss=hooks[0]))
            assert wait.wait(60)
            second = in_thread(lambda: run.swap(loss=hooks[1]))
            until(lambda: len(swap_threads()) == 2)
        finally:
            go.set()
            jax.monitoring.unregister_event_duration_listener(hold)
        second()
        with pytest.raises(SwapError, match="newer"):
            first()
        run.advance(1)
        assert losses(run)[-1] == 2.5


def test_a_class_cell_that_was_run_again_is_found_with_new_defaults_reported():
    book = tiny()
    source = """
class Tiny(nitro.Experiment):
    smoothing: Device[float] = {}
    {}
    def build_data(self): return {{"train": ROWS}}
    def build_model(self, rngs): return nnx.Linear(3, 2, rngs=rngs)
    def forward(self, model, *, x): return model(x)
    def loss(self, logits, *, y): return squared_error(logits, y, self.smoothing) {}
    def optimizer(self, hp): return optax.sgd(hp.learning_rate)
"""
    book.cell(source.format(0.1, "", ""))
    with live(book) as run:
        run.set(smoothing=0.75)
        book.cell(source.format(0.2, "extra: Device[float] = 50.0\n", "+ self.extra"))
        run.swap()
        run.advance(1)
        values = {row.name: row.value for row in run.status().values}
        assert values["smoothing"] == 0.75, "what lives stays"
        assert values["extra"] == 50.0
        notes = " ".join(swaps(run)[0]["notes"])
        assert "smoothing" in notes
        assert "0.2" in notes
        assert "extra" in notes
        run.set(extra=0.0)
        run.advance(1)
        third, fourth = losses(run)[2:]
        assert third > 50 > fourth


# ---- what is carried over


def test_a_swapped_optimizer_keeps_the_state_that_fits():
    book = tiny(ADAM)
    with live(book, steps=3) as run:
        moments = {str(a.shape): np.asarray(a).copy() for a in run._loop.carry.opt}
        book.cell(
            ADAM.replace(
                "optax.adam(hp.learning_rate)",
                "optax.chain(optax.clip(1.0), optax.adam(hp.learning_rate), "
                "optax.trace(0.5))",
            )
        )
        with count_compiles() as count:
            run.swap()
        assert set(count.compiled) == {"optimizer"}
        [entry] = swaps(run)
        notes = " ".join(entry["notes"])
        assert "fresh" in notes
        assert "TraceState" in notes
        assert "ScaleByAdam" not in notes
        kept = {str(a.shape): np.asarray(a) for a in run._loop.carry.opt}
        assert moments.keys() == kept.keys()
        counts = [int(a) for a in run._loop.carry.opt if a.dtype == np.int32]
        assert counts == [3]
        run.advance(2)
        assert np.isfinite(losses(run)).all()
        run.swap(undo=True)
        run.advance(1)


def test_a_new_shape_of_outputs_swaps_with_its_loss():
    book = tiny()
    with live(book, steps=3, eval_every=2) as run:
        book.cell("""
@Tiny.hook
def forward(self, model, *, x):
    return {"logits": model(x), "top": model(x).argmax(-1)}

@Tiny.hook
def loss(self, outputs, *, y):
    return squared_error(outputs["logits"], y, self.smoothing) * 1.0625
""")
        run.swap()
        run.advance(2)
        assert run.step == 5
        assert set(run.handle.predict(book["ROWS"][0])) == {"logits", "top"}
        assert len(run.history("val")["step"]) == 2


# ---- what is refused


def refused(book, run, *words, **bound):
    before, rows = run.params, losses(run)
    with pytest.raises(nitro.NitroError) as error:
        run.swap(**bound)
    check_error(error.value, *words)
    assert same(run.params, before)
    run.advance(1)
    assert losses(run)[: len(rows)] == rows
    assert run.exception is None
    assert swaps(run) == []
    return error.value


def test_a_loss_that_does_not_trace_leaves_the_old_one_running():
    book = tiny()
    expected = losses(book.train(max_steps=4))
    with live(book) as run:
        book.cell(
            "@Tiny.hook\ndef loss(self, logits, *, y):\n    return logits.men()\n"
        )
        refused(book, run, "men", "program `loss`", "<cell 5>, line 3")
        book.cell("@Tiny.hook\ndef loss(self, logits, *, y):\n    return logits\n")
        refused(book, run, "`loss` returned", "(4, 2)", ".mean()")
    assert losses(run) == expected


LEAKS = {
    "in a list": "KEPT.append(logits)",
    "in a global": "global LAST; LAST = logits",
    "in a variable of a closure": "remember(logits)",
    "in a dict, of a helper": "helper(logits)",
    "on an object": "HOLDER.last = logits.mean()",
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_loss_that_leaks_an_array_of_its_trace_is_refused_where_it_leaks(name):
    book = tiny(
        """
import types
KEPT, SEEN, HOLDER, LAST = [], {}, types.SimpleNamespace(), None
def helper(x):
    SEEN["x"] = x * 2
def make():
    last = None
    def remember(x):
        nonlocal last
        last = x
    return remember
remember = make()
"""
    )
    expected = losses(book.train(max_steps=4))
    with live(book) as run:
        book.cell(
            f"@Tiny.hook\ndef loss(self, logits, *, y):\n    {LEAKS[name]}\n"
            "    return logits.mean()\n"
        )
        for _ in range(2):  # what the first try left behind is no excuse
            refused(book, run, "array of a trace", "return the value", "loss")
        book.cell(
            "KEPT.clear(); SEEN.clear(); HOLDER = types.SimpleNamespace()\n"
            "LAST = None; remember = make()\n"
            "@Tiny.hook\ndef loss(self, logits, *, y):\n"
            "    return squared_error(logits, y, self.smoothing)\n"
        )
        run.swap()
    assert losses(run) == expected


def test_an_edit_during_the_compile_of_a_swap_is_for_the_next_one():
    book = tiny("GAIN = 1.5")
    with live(book) as run:
        wait, go = threading.Event(), threading.Event()

        def hold(event, seconds, **details):
            fun = details.get("fun_name")
            if event == LOWERED and fun == "jit(nitro_loss)" and not wait.is_set():
                wait.set()
                assert go.wait(60)

        cell = "@Tiny.hook\ndef loss(self, logits, *, y):\n    return {} + GAIN\n"
        book.cell(cell.format("0 * jnp.expm1(logits).mean()"))
        jax.monitoring.register_event_duration_secs_listener(hold)
        try:
            swap = in_thread(run.swap)
            assert wait.wait(60)
            book.cell("GAIN = 2.5")
            run.pause()  # commands are heard meanwhile
        finally:
            go.set()
            jax.monitoring.unregister_event_duration_listener(hold)
        swap()
        assert run.stale == ("loss",)
        run.advance(1)
        assert losses(run)[-1] == 1.5, "the code as it was traced"
        run.swap()
        assert run.stale == ()
        run.advance(1)
        assert losses(run)[-1] == 2.5


def test_many_edits_and_swaps_at_once_end_with_the_last_edit():
    book = tiny()
    with live(book) as run:
        run.resume()
        for number in range(8):
            book.cell(
                "@Tiny.hook\ndef loss(self, logits, *, y):\n"
                f"    return 0 * logits.mean() + {number}.25\n"
            )
            run.swap(wait=False)
        until(lambda: not run.note and not swap_threads())
        run.swap()
        run.pause()
        assert run.exception is None
        assert run.stale == ()
        run.advance(1)
        assert losses(run)[-1] == 7.25


def test_a_refused_swap_without_waiting_says_why(capsys):
    book = tiny()
    with live(book) as run:
        book.cell(
            "@Tiny.hook\ndef loss(self, logits, *, y):\n    return logits.men()\n"
        )
        run.swap(wait=False)
        until(lambda: not run.note and not swap_threads())
        run.advance(1)
    said = capsys.readouterr().err
    assert "the old programs go on" in said
    assert "men" in said
    assert "site-packages" not in said


def swap_threads():
    return [t for t in threading.enumerate() if t.name.startswith("nitro-swap")]


REFUSED = {
    "another marker": (
        "class Tiny(Tiny):\n    smoothing: GraphConst[float] = 0.1\n",
        ("smoothing", "Device[float]", "GraphConst[float]"),
    ),
    "other parameters": (
        "@Tiny.hook\ndef build_model(self, rngs):\n"
        "    return nnx.Linear(3, 2, rngs=rngs)\n",
        ("other parameters", "build_model", "Nitro(Tiny"),
    ),
    "another shape": (
        "@Tiny.hook\ndef build_model(self, rngs):\n"
        "    return nnx.Sequential(nnx.Linear(3, 6, rngs=rngs), nnx.relu,\n"
        "                          nnx.Linear(6, 2, rngs=rngs))\n",
        ("other parameters", "layers.0"),
    ),
    "other data": (
        "@Tiny.hook\ndef build_data(self):\n    return {'train': ROWS[:2]}\n",
        ("build_data", "new Nitro"),
    ),
    "a new field without a default": (
        "class Tiny(Tiny):\n    gain: Device[float]\n",
        ("gain", "value"),
    ),
    "a hook that needs another batch field": (
        "@Tiny.hook\ndef loss(self, logits, *, weight):\n    return logits.mean()\n",
        ("weight",),
    ),
    "a wrong signature": (
        "@Tiny.hook\ndef loss(self, logits, y):\n    return logits.mean()\n",
        ("loss", "self, outputs", "*"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_is(name):
    edit, words = REFUSED[name]
    book = tiny()
    with live(book) as run:
        book.cell(edit)
        refused(book, run, *words)


def test_unknown_programs_and_hooks_are_refused_with_a_suggestion():
    with live(tiny()) as run:
        with pytest.raises(SwapError) as error:
            run.swap("los")
        check_error(error.value, "los", "loss")
        with pytest.raises(nitro.HookError) as error:
            run.swap(forwrd=lambda self, model, *, x: x)
        check_error(error.value, "forwrd", "forward")


def test_swaps_leave_the_interpreter_as_it_was():
    before = sys.getswitchinterval()
    with live(tiny()) as run:
        hooks = [
            lambda self, logits, *, y, n=n: logits.mean() * 0 + n / 7 for n in range(6)
        ]
        swapping = [in_thread(lambda h=hook: run.swap(loss=h)) for hook in hooks]
        won = 0
        for wait in swapping:
            try:
                wait()
                won += 1
            except SwapError:
                continue
        assert won >= 1
    assert sys.getswitchinterval() == before


# ---- a run that has ended


NAN_LOSS = """
@Tiny.hook
def loss(self, logits, *, y):
    return squared_error(logits, y, self.smoothing) * jnp.log(-1.0)
"""


def fail(book, run):
    book.cell(NAN_LOSS)
    run.swap()
    run.resume()
    with pytest.raises(nitro.NonFiniteError) as error:
        run.wait()
    check_error(error.value, "run.swap()", "run.handle.train()")


ENDS = {
    "failed": fail,
    "stopped": lambda book, run: run.stop(),
    "done": lambda book, run: (run.resume(), run.wait()),
}


@pytest.mark.parametrize("phase", ENDS)
def test_a_run_that_has_ended_takes_the_edit_and_goes_on_with_it(phase):
    book = tiny()
    steps = 3 if phase == "done" else None
    with live(book, max_steps=steps) as run:
        ENDS[phase](book, run)
        made, rows, before = run.step, losses(run), run.params
        edit_loss(book, 3.5)
        assert run.stale == ("loss",)
        said = run.swap(wait=False)  # it is waited for all the same: nothing steps
        assert f"switched at step {made}" in said[0]
        assert run.phase == phase
        assert run.stale == ()
        assert same(run.params, before)
        assert run.handle.train(background=True, paused=True) is run
        with count_compiles() as count:
            run.advance(1)
        assert count.nothing
        assert run.step == made + 1
        assert losses(run)[:made] == rows
    expected = losses(tiny().train(max_steps=made + 1))[-1]
    assert losses(run)[-1] == pytest.approx(expected * 3.5, rel=1e-6)


def test_a_run_that_has_ended_is_swapped_by_program_with_hooks_and_back():
    book = tiny()
    with live(book) as run:
        run.stop()
        run.swap(loss=lambda self, logits, *, y: logits.mean() * 0 + 9.0)
        book.cell("@Tiny.hook\ndef optimizer(self, hp):\n    return optax.sgd(0.25)")
        run.swap("optimizer")
        run.swap(undo=True)
        run.handle.train(background=True, paused=True)
        run.advance(1)
        assert losses(run)[-1] == 9.0
        run.stop()
        run.swap(undo=True)
        run.handle.train(background=True, paused=True)
        run.advance(1)
        assert losses(run)[-1] != 9.0
        assert [s["step"] for s in swaps(run)] == [2, 2, 2, 3]


def test_a_swap_that_a_run_that_has_ended_refuses_changes_nothing():
    book = tiny()
    with live(book) as run:
        run.stop()
        book.cell(
            "@Tiny.hook\ndef loss(self, logits, *, y):\n    return logits.men()\n"
        )
        with pytest.raises(nitro.HookError) as error:
            run.swap()
        check_error(error.value, "men")
        assert (run.phase, run.note, swaps(run)) == ("stopped", "", [])


def test_a_run_whose_first_trace_failed_is_mended_by_a_swap():
    book = tiny("@Tiny.hook\ndef loss(self, logits, *, y):\n    return logits.men()\n")
    run = book.handle(max_steps=2).train(background=True)
    with pytest.raises(nitro.HookError):
        run.wait()
    with pytest.raises(nitro.HookError):  # control: it is traced by the swap
        run.swap()
    edit_loss(book, 1.0)
    run.swap()
    assert run.handle.train(background=False) is run
    assert losses(run) == losses(tiny().train(max_steps=2))


def test_a_run_that_its_handle_has_left_is_not_swapped():
    book = tiny()
    with live(book) as run:
        run.stop()
        new = run.handle.train(background=True, paused=True, fresh=True)
        new.stop()
        with pytest.raises(nitro.RunError) as error:
            run.swap()
        check_error(error.value, run.id, new.id, "new Nitro")


def test_other_verbs_on_a_run_that_has_ended_say_what_works():
    with live(tiny()) as run:
        run.stop()
        with pytest.raises(nitro.RunError) as error:
            run.set(smoothing=0.5)
        check_error(error.value, "run.handle.train()", "run.swap()")


def test_a_swap_ends_with_the_run_and_does_not_switch_after_it(capsys):
    book = tiny()
    with live(book) as run:
        book.cell(CODE_LOSS.format("arcsinh"))
        with held() as (came, go):
            run.swap(wait=False)
            assert came.wait(60)
            run.stop()
            assert run.note == ""
            assert not run.swapping
            said = capsys.readouterr().out
            assert len(said.splitlines()) == 1
            assert f"ended with run {run.id}" in said
            run.handle.train(background=True, paused=True)
            go.set()
            until(lambda: not swap_threads())
        run.advance(1)
        assert swaps(run) == []
        assert run.stale == ("loss",)
        assert run.note == ""
        assert "switched" not in capsys.readouterr().out
        run.swap()  # control
        assert run.stale == ()


def test_who_waits_for_a_swap_hears_that_the_run_ended():
    book = tiny()
    with live(book) as run:
        book.cell(CODE_LOSS.format("log1p"))
        with held() as (came, go):
            swap = in_thread(run.swap)
            assert came.wait(60)
            run.stop()
            go.set()
            with pytest.raises(nitro.RunError) as error:
                swap()
        check_error(error.value, "ended before the switch", "run.swap()")


# ---- what a swap shows and says


def test_a_swap_is_shown_in_the_note_and_leaves_the_phase():
    book = tiny()
    with live(book) as run:
        book.cell(CODE_LOSS.format("cbrt"))
        with held() as (came, go):
            swap = in_thread(run.swap)
            assert came.wait(60)
            assert (run.phase, run.note) == ("paused", "compiling loss")
            go.set()
            swap()
        assert (run.phase, run.note) == ("paused", "")
        book.cell("@Tiny.hook\ndef loss(self, logits, *, y):\n    return logits\n")
        with pytest.raises(nitro.HookError):
            run.swap()
        assert (run.phase, run.note) == ("paused", "")
        book.cell("@Tiny.hook\ndef forward(self, model, *, x): return model(x * 2)\n")
        run.handle.evaluate("val")
        assert run.phase == "paused"


RADAM = """
class Tiny(Tiny):
    def optimizer(self, hp):
        return optax.radam(hp.learning_rate)
"""


def test_a_swapped_optimizer_says_what_it_dropped():
    book = tiny(RADAM)
    with live(book) as run:
        book.cell(RADAM.replace("radam", "sgd"))
        said = "\n".join(run.swap())
        assert "0 arrays kept; fresh: nothing; dropped: ScaleByAdamState.count" in said
        assert "ScaleByAdamState.mu (4 arrays), ScaleByAdamState.nu (4 arrays)" in said
        run.advance(1)


METRICS = """
@Tiny.hook
def metrics(self, logits, *, y):
    return {{"acc": Mean({} * (logits.argmax(-1) == y).sum(), len(y))}}
"""


def test_a_swap_says_which_host_hooks_it_takes():
    book = tiny(METRICS.format(1.0))
    with live(book) as run:
        run.set(learning_rate=0.25)
        book.cell(METRICS.format(1.0))
        book.cell("@Tiny.hook\ndef learning_rate(self):\n    return 0.5  # as it was\n")
        said = "\n".join(run.swap())
        assert "metrics" not in said
        assert "learning_rate" not in said
        book.cell(METRICS.format(2.0))
        book.cell("@Tiny.hook\ndef learning_rate(self):\n    return 0.125\n")
        book.cell(
            "@Tiny.hook\ndef finalize_metrics(self, totals, split):\n"
            "    return {**totals, 'one': 1.0}\n"
        )
        assert "metrics" not in "\n".join(run.swap("loss"))
        said = run.swap()
        assert "metrics: taken; it runs on the host" in said
        assert "finalize_metrics: taken; it runs on the host" in said
        [rate] = [line for line in said if line.startswith("learning_rate")]
        assert "gives 0.125 now, the run keeps 0.25" in rate
        assert 'run.unset("learning_rate")' in rate
        assert run.handle.evaluate("val")["one"] == 1.0
        run.unset("learning_rate")
        run.advance(1)
        assert run.history()["learning_rate"][-1] == 0.125
        assert "metrics: taken; it runs on the host" in run.swap(undo=True)


def test_a_method_that_a_host_hook_calls_counts_as_the_hook():
    source = """
class Tiny(Tiny):
    def metrics(self, logits, *, y):
        return {{"acc": Mean(self.right(logits, y), len(y))}}
    def right(self, logits, y):
        return {} * (logits.argmax(-1) == y).sum()
"""
    book = tiny(source.format(1.0))
    with live(book) as run:
        book.cell(source.format(1.0))
        assert "metrics" not in "\n".join(run.swap())
        book.cell(source.format(3.0))
        assert "metrics: taken; it runs on the host" in run.swap()


def test_the_run_is_named_when_several_live(capsys):
    book = tiny()
    with live(book) as run:
        assert run.id not in run.swap()[0]
        with live(book) as other:
            assert run.id in run.swap()[0]
            book.cell(
                "@Tiny.hook\ndef loss(self, logits, *, y):\n    return logits.men()\n"
            )
            other.swap(wait=False)
            until(lambda: not swap_threads())
            assert f"run {other.id}: swap refused" in capsys.readouterr().err


def test_a_swap_that_a_newer_one_replaces_says_so_in_one_line(capsys):
    book = tiny()
    with live(book) as run:
        book.cell(CODE_LOSS.format("deg2rad"))
        with held() as (came, go):
            run.swap(wait=False)
            assert came.wait(60)
            book.cell(CODE_LOSS.format("tan"))
            run.swap(wait=False)
            assert "a newer swap replaces" in capsys.readouterr().out
            go.set()
            until(lambda: not swap_threads())
        said = capsys.readouterr().out
        assert said.count("switched at") == 1
        assert "newer" not in said
        assert len(swaps(run)) == 1
        assert run.stale == ()


WEIGHTED = """
@Tiny.hook
def loss(self, logits, *, y, w):
    return (w * (logits - y[:, None]) ** 2).mean()
"""


def test_a_loss_that_names_a_field_of_the_batch_that_no_hook_named_before():
    book = tiny("ROWS = [{**r, 'w': np.full((4, 1), 2.0), 'id': 'a'} for r in ROWS]")
    with live(book, eval_every=5) as run:
        book.cell(WEIGHTED)
        with count_compiles() as count:
            run.swap()
        assert count.compiled == {"loss": 2}, "of the step and of the evaluation"
        with count_compiles() as count:
            run.advance(len(book["ROWS"]))
        assert not count.compiled, "all was made before the switch"
        assert run.history("val")["step"].tolist() == [5]


def test_a_field_that_the_batches_lack_is_named_and_the_run_goes_on():
    book = tiny()
    with live(book) as run:
        book.cell(WEIGHTED)
        with pytest.raises(nitro.DataError) as error:
            run.swap()
        check_error(error.value, "`loss` needs `w`", "a batch of `train` has `x`, `y`")
        run.advance(1)


def test_a_swap_that_changes_nothing_is_nothing_to_go_back_from():
    book = tiny()
    with live(book) as run:
        book.cell("@Tiny.hook\ndef loss(self, logits, *, y):\n    return logits.mean()")
        run.swap()
        run.swap("forward")
        run.swap()
        run.advance(1)
        said = run.swap(undo=True)
        assert "back to the code before the swap of step 2" in said
        assert run.stale == ("loss",)
        with pytest.raises(nitro.SwapError, match="no swap to undo"):
            run.swap(undo=True)
