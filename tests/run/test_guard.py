from __future__ import annotations

import zlib

import jax
import numpy as np
import pytest
from cells import SPLITS, STATEFUL, check_error, live, losses, same, tiny, until

import nitro_repl as nitro
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

GUARDED = """
class Tiny(Tiny):
    def loss(self, logits, *, y, weight, root):
        # Where `root` is 0 the loss is finite and the gradient is not.
        more = jnp.sqrt(root * (logits ** 2).sum())
        return super().loss(logits, y=y) * weight + 1e-3 * more

ROWS = [
    {**row, "weight": np.float32(1), "root": np.float32(1)} for row in ROWS + ROWS[:3]
]
"""
INJECTED = {
    "loss": ("weight", np.nan, "the loss is nan"),
    "gradient": ("root", 0.0, "a gradient is nan"),
    "BatchNorm": ("x", np.nan, "the loss is nan"),
}
VARIANTS = [
    pytest.param({"fuse": fuse, "accum": accum}, id=name)
    for name, fuse, accum in (
        ("split", False, 1),
        ("fused", True, 1),
        ("split, accum", False, 2),
        ("fused, accum", True, 2),
    )
]


@pytest.fixture(scope="module")
def book():
    return tiny(STATEFUL, SPLITS, GUARDED)


class Poison:
    """Rows of which one has a bad field, until it is cured."""

    def __init__(self, rows, bad, field, value):
        self.rows, self.bad, self.cured = list(rows), bad, False
        self.field, self.value = field, value

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        for index, row in enumerate(self.rows):
            if index == self.bad and not self.cured:
                wrong = np.full_like(row[self.field], self.value)
                row = {**row, self.field: wrong}  # noqa: PLW2901
            yield row


def poisoned(book, bad, kind="loss"):
    field, value, _ = INJECTED[kind]
    return Poison(book["ROWS"], bad, field, value)


def state(run):
    """Parameters, optimizer state and model state of a boundary."""
    carry = run._worker.look(lambda loop: (loop.carry[:3], loop.carry.step))
    return [plain(leaf) for leaf in jax.tree.leaves(carry[0])]


def plain(leaf):
    key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if key else leaf)


def begun(book, rows, **settings):
    settings = {"max_steps": None, **settings}
    handle = book.handle(fields={"splits": {"train": rows}}, **settings)
    return handle.train(background=True, paused=True)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", INJECTED)
def test_a_nan_at_any_step_changes_nothing_in_each_mode(book, kind, variant):
    accum = variant["accum"]
    random = np.random.default_rng(zlib.crc32(f"{kind}{variant}".encode()))
    good = int(random.integers(1, 8 // accum - 1))
    micro = int(random.integers(accum))
    for mode in ("pause", "stop", "skip"):
        rows = poisoned(book, good * accum + micro, kind)
        run = begun(book, rows, on_nonfinite=mode, **variant)
        run.advance(good)
        before = state(run)
        if mode == "skip":
            run.advance(1)
            assert same(state(run), before), mode
            assert not np.isfinite(run.history()["grad_norm"][-1])
            run.advance(1)
            assert not same(state(run), before), "it goes on"
        else:
            with pytest.raises(nitro.NonFiniteError) as error:
                run.advance(2)
            said = (f"those of step {good}", f"step {good + 1}, epoch 0")
            check_error(error.value, INJECTED[kind][2], *said)
            assert same(state(run), before), mode
            assert run.step == good
            assert run.phase == "paused" if mode == "pause" else not run.live
        culprit = run.culprit
        assert (culprit.step, culprit.epoch) == (good + 1, 0)
        batches = culprit.batch if accum > 1 else (culprit.batch,)
        same_rows = list(rows)[good * accum : good * accum + accum]
        assert same([dict(batch) for batch in batches], same_rows)
        run.stop()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_data_is_moved_back_so_a_cured_batch_is_as_if_it_never_was(book, variant):
    rows = poisoned(book, 2)
    run = begun(book, rows, on_nonfinite="pause", max_steps=6, **variant)
    run.resume()
    until(lambda: run.culprit is not None and run.phase == "paused")
    assert run.step == 2 // variant["accum"]
    assert "nan at step" in run.status().error, "why it paused"
    assert "reason" in repr(run.status())
    rows.cured = True
    run.resume()
    run.wait()
    expected = begun(book, book["ROWS"], max_steps=6, **variant)
    expected.resume()
    expected.wait()
    assert run.status().error == ""
    assert losses(run) == losses(expected)
    assert same(state(run), state(expected))
    assert run.epoch == expected.epoch


def test_the_last_step_of_a_run_is_guarded_too(book):
    rows = poisoned(book, 2)
    run = begun(book, rows, on_nonfinite="pause", max_steps=3)
    run.resume()
    until(lambda: run.phase == "paused")
    assert run.step == 2
    rows.cured = True
    run.resume()
    run.wait()
    assert (run.phase, run.step) == ("done", 3)


def test_the_mode_is_changed_live_and_nothing_compiles(book):
    rows = poisoned(book, 2)
    run = begun(book, rows, on_nonfinite="stop")
    run.advance(1)
    with count_compiles() as count:
        run.set(on_nonfinite="pause")
        with pytest.raises(nitro.NonFiniteError) as error:
            run.advance(2)
        check_error(error.value, "run.culprit", "run.resume()", 'on_nonfinite="skip"')
        run.set(on_nonfinite="skip")
        run.advance(2)
        assert np.isnan(run.history()["loss"]).tolist() == [False] * 2 + [True, False]
        assert run.step == 4
        run.set(on_nonfinite="stop")
    assert count.total == 0, count
    changes = [e for e in run.journal.entries if e["command"] == "set"]
    said = [(e["before"], e["after"]) for e in changes]
    assert said[0] == ({"on_nonfinite": "stop"}, {"on_nonfinite": "pause"})
    assert any(e["command"] == "not finite" for e in run.journal.entries)
    with pytest.raises(nitro.SettingError) as error:
        run.set(on_nonfinite="ignore")
    check_error(error.value, "'ignore'", "'pause'", "'stop'", "'skip'")
    run.stop()
    with pytest.raises(nitro.SettingError):
        book.handle(fields={"splits": {"train": rows}}, on_nonfinite="ignore")


def test_a_skipped_step_is_told_once_and_counts_as_a_step(book, capsys):
    rows = poisoned(book, 2)
    handle = book.handle(
        fields={"splits": {"train": rows}}, max_steps=12, on_nonfinite="skip"
    )
    run = handle.train(background=False)
    assert run.step == 12
    assert np.flatnonzero(np.isnan(run.history()["loss"])).tolist() == [2, 10]
    assert capsys.readouterr().out.count("is skipped") == 1
    assert run.culprit.step == 11
    assert np.isfinite(run.params["one"]["kernel"]).all()


def test_a_foreground_run_stops_since_nobody_could_resume_it(book):
    handle = book.handle(
        fields={"splits": {"train": poisoned(book, 1)}}, max_steps=4,
        on_nonfinite="pause",
    )  # fmt: skip
    with pytest.raises(nitro.NonFiniteError):
        handle.train(background=False)
    assert handle.run.step == 1


def test_the_default_is_stop_outside_of_ipython(book):
    handle = book.handle(fields={"splits": {"train": book["ROWS"]}})
    assert handle.settings["on_nonfinite"] == "stop"


# ---- the culprit


def culprit_of(book, rows, **settings):
    with pytest.raises(nitro.NonFiniteError) as error:
        begun(book, rows, on_nonfinite="stop", **settings).advance(4)
    run = nitro.current()
    assert run.culprit.tensor in str(error.value)
    return run.culprit


def test_the_culprit_is_a_field_of_the_batch(book):
    found = culprit_of(book, poisoned(book, 1, "BatchNorm"))
    assert (found.tensor, found.where) == ("the batch field `x`", "batch")
    assert str(found) == "step 2: the batch field `x` is not finite (batch)"
    found = culprit_of(book, poisoned(book, 1), accum=2)
    assert found.tensor == "the batch field `weight` of micro-batch 1"


def test_the_culprit_is_the_first_gradient(book):
    found = culprit_of(book, poisoned(book, 1, "gradient"))
    assert found.where == "backward"
    assert found.tensor == "the gradient of `norm.bias`"
    fused = culprit_of(book, poisoned(book, 1, "gradient"), fuse=True)
    assert (fused.tensor, fused.where) == ("a gradient", "backward")


CULPRITS = [
    ("forward", "log(x.sum(-1, keepdims=True) * 0 - 1) + model(x)", "the output of"),
    ("forward", "{'a': model(x), 'b': model(x) / 0.0}", "the output `['b']`"),
    ("loss", "jnp.log(-1.0 - (logits ** 2).sum())", "the loss"),
]


@pytest.mark.parametrize(("hook", "source", "tensor"), CULPRITS, ids=str)
def test_the_culprit_is_what_the_programs_first_make_not_finite(
    book, hook, source, tensor
):
    if hook == "loss":
        source = f"def loss(self, logits): return {source}"
    else:
        source = f"def forward(self, model, *, x): return {source}"
    pick = "jax.tree.leaves(logits)[0]"
    loss = f"def loss(self, logits): return ({pick} ** 2).sum() + sum(\n"
    loss += "            leaf.sum() for leaf in jax.tree.leaves(logits))"
    book.cell(f"""
from jax.numpy import log
class Bad(Tiny):
    {loss}
    {source}
""")
    handle = book.handle("Bad", fields={"splits": {"train": book["ROWS"]}})
    run = handle.train(background=True, paused=True)
    with pytest.raises(nitro.NonFiniteError):
        run.advance(1)
    assert run.culprit.tensor.startswith(tensor)
    assert run.culprit.where == hook


def test_the_culprit_is_a_value_or_a_parameter(book):
    with live(book, steps=0, fields={"splits": {"train": book["ROWS"]}}) as run:
        run.set(on_nonfinite="pause", smoothing=float("inf"))
        with pytest.raises(nitro.NonFiniteError):
            run.advance(1)
        assert run.culprit.tensor == "the value `smoothing`"
        run.set(smoothing=0.0)
        params = run.params
        params["two"]["bias"][...] = np.nan
        run.load(params)
        with pytest.raises(nitro.NonFiniteError):
            run.advance(1)
        assert run.culprit.tensor == "the parameter `two.bias`"
    assert same(run.culprit.batch, book["ROWS"][0])
