from __future__ import annotations

import numpy as np
import pytest
from cells import (
    SPLITS,
    STATEFUL,
    Gate,
    Outcomes,
    check_error,
    live,
    losses,
    same,
    tiny,
    until,
)

import nitro_repl as nitro
from nitro_repl.testing import count_compiles


@pytest.fixture(scope="module")
def book():
    return tiny(STATEFUL, SPLITS)


def train(book, split=None, **settings):
    fields = {"splits": {"train": split}} if split is not None else {}
    return book.train(fields=fields, **settings)


def all_state(run):
    """Parameters, model state and optimizer state."""
    carry = run._loop.carry
    return [*carry.params, *carry.opt, *map(plain, carry.state)]


def plain(leaf):
    import jax

    key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(leaf) if key else leaf


# ---- numbers that are not finite


class Rows:
    """A loader over rows; the tests change what it yields."""

    def __init__(self, rows):
        self.rows = list(rows)

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        yield from self.rows


class Poison(Rows):
    """Rows of which one has a NaN, until it is cured."""

    def __init__(self, rows, bad):
        super().__init__(rows)
        self.bad, self.cured = bad, False

    def __iter__(self):
        for index, row in enumerate(self.rows):
            wrong = index == self.bad and not self.cured
            yield {**row, "x": row["x"] * np.float32(np.nan)} if wrong else row


@pytest.mark.parametrize("bad", [0, 3])
def test_a_loss_that_is_not_finite_stops_at_the_state_before_it(book, bad):
    before = train(book, max_steps=bad)
    rows = Poison(book["ROWS"], bad)
    with pytest.raises(nitro.NonFiniteError) as error:
        train(book, rows, max_steps=12)
    run = nitro.current()
    check_error(
        error.value, "the loss is nan", f"step {bad + 1}", f"those of step {bad}"
    )
    assert (run.phase, run.step, run.epoch) == ("failed", bad, 0)
    assert run.exception is error.value
    assert same(all_state(run), all_state(before))
    columns = run.history()
    assert columns.get("loss", np.zeros(0)).tolist() == (losses(before) if bad else [])


def test_after_a_bad_batch_was_cured_the_run_is_as_if_it_never_was(book):
    rows = Poison(book["ROWS"][:4], 1)
    handle = book.handle(fields={"splits": {"train": rows}}, max_steps=12)
    with pytest.raises(nitro.NonFiniteError):
        handle.train(background=False)
    rows.cured = True
    run = handle.train(background=False)
    expected = train(book, book["ROWS"][:4], max_steps=12)
    assert losses(run) == losses(expected)
    assert run.history()["epoch"].tolist() == expected.history()["epoch"].tolist()
    assert run.epoch == expected.epoch == 3
    assert same(all_state(run), all_state(expected))


def test_an_advance_onto_a_bad_step_raises_it(book):
    rows = Poison(book["ROWS"], 2)
    handle = book.handle(fields={"splits": {"train": rows}}, max_steps=None)
    run = handle.train(background=True, paused=True)
    with pytest.raises(nitro.NonFiniteError, match="step 3"):
        run.advance(8)
    with pytest.raises(nitro.NonFiniteError):
        run.wait()
    assert run.step == 2
    assert np.isfinite(run.params["one"]["kernel"]).all()


def test_the_rate_and_the_time_left_are_never_below_zero(book, monkeypatch):
    from types import SimpleNamespace

    from nitro_repl._run import pace

    ticks = iter(range(10_000))
    clock = SimpleNamespace(perf_counter=lambda: 0.3 * next(ticks))
    monkeypatch.setattr(pace, "time", clock)
    seen = []

    class Watched(Poison):
        def __iter__(self):
            for row in super().__iter__():
                if self.watching:
                    seen.append(nitro.current().progress())
                yield row

    rows = Watched(book["ROWS"], 4)
    rows.watching = False
    handle = book.handle(fields={"splits": {"train": rows}}, max_steps=30)
    rows.watching = True
    with pytest.raises(nitro.NonFiniteError):
        handle.train(background=False)
    failed = handle.run.progress()
    assert failed.rate > 0
    rows.cured = True
    begun = len(seen)
    run = handle.train(background=False)
    assert seen[begun].rate is None, "that of the first start"
    assert all(now.rate is None or now.rate > 0 for now in seen)
    assert all(now.eta_s is None or now.eta_s > 0 for now in seen)
    assert any(now.eta_s for now in seen)
    run._loop.pace.rate, run._life.phase = -1.25, "stepping"
    assert run.progress().eta_s is None


def test_a_gradient_that_is_not_finite_is_caught_too():
    book = tiny("""
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return jnp.sqrt(jnp.abs(logits) * 0).sum() + 1
""")
    with pytest.raises(nitro.NonFiniteError) as error:
        book.train()
    check_error(error.value, "a gradient is", "step 1")
    assert same(nitro.current().params, book.train(max_steps=0).params)


# ---- loaders


class Breaks(Rows):
    """Rows whose `n`-th read fails, while it is told to."""

    def __init__(self, rows, at, error):
        super().__init__(rows)
        self.at, self.error, self.read, self.broken = at, error, 0, False

    def __iter__(self):
        for row in self.rows:
            self.read += 1
            if self.broken and self.read == self.at:
                raise self.error
            yield row


def test_a_loader_that_raises_at_step_7_is_named_and_can_be_corrected(book):
    rows = Breaks(book["ROWS"], 7, ValueError("corrupt image 42"))
    handle = book.handle(fields={"splits": {"train": rows}}, max_steps=9)
    rows.read, rows.broken = 0, True
    with pytest.raises(nitro.HookError) as error:
        handle.train(background=False)
    check_error(error.value, "corrupt image 42", "train", "step 7", "test_loop.py")
    run = handle.run
    assert run.phase == "failed"
    assert run.history()["step"].tolist() == [1, 2, 3, 4, 5, 6]
    rows.broken = False
    assert handle.train(background=False) is run
    expected = train(book, max_steps=9)
    assert losses(run) == losses(expected)
    assert same(all_state(run), all_state(expected))


def test_a_loader_with_fewer_batches_than_its_len_says_so(book):
    class Short(Rows):
        def __len__(self):
            return 7

    with pytest.raises(nitro.DataError) as error:
        train(book, Short(book["ROWS"]), max_steps=9)
    check_error(error.value, "5 batches", "7", "train")
    assert nitro.current().step == 5


def test_a_batch_that_lacks_a_field_at_step_3_says_which(book):
    rows = [dict(row) for row in book["ROWS"]]
    del rows[2]["y"]
    with pytest.raises(nitro.DataError) as error:
        train(book, rows, max_steps=5)
    check_error(error.value, "`loss` needs `y`", "`x`", "train")
    assert nitro.current().step == 2


def test_a_loader_that_refills_one_buffer_trains_on_the_right_rows(book):
    class Refills(Rows):
        def __iter__(self):
            buffer = {name: np.empty_like(a) for name, a in self.rows[0].items()}
            for row in self.rows:
                for name, array in row.items():
                    buffer[name][...] = array
                yield buffer
                for array in buffer.values():
                    array[...] = 0

    expected = train(book, max_steps=12, eval_every=5)
    rows = Refills(book["ROWS"])
    fields = {"splits": {"train": rows, "val": Refills(book["ROWS"][:2])}}
    found = book.train(fields=fields, max_steps=12, eval_every=5)
    assert losses(found) == losses(expected)
    assert same(found.params, expected.params)
    assert same(found.history("val")["val_loss"], expected.history("val")["val_loss"])


def test_fields_that_no_hook_names_may_hold_anything(book):
    rows = [{**row, "path": ["a.png"] * 4, "meta": object()} for row in book["ROWS"]]
    found = book.train(
        fields={"splits": {"train": rows, "val": rows[:2]}}, eval_every=1
    )
    assert losses(found) == losses(train(book))
    assert found.handle.predict(rows[0]).shape == (4, 2)
    assert found.handle.evaluate("val").keys() == {"val_loss"}


def test_a_hook_gets_the_fields_that_it_names():
    book = tiny("""
class Tiny(Tiny):
    def loss(self, logits, *, y, weight=None, **rest):
        assert set(rest) == {"x", "more"} and weight is None
        return super().loss(logits, y=y) * rest["more"].mean()

    def forward(self, model, *, x, weight=1.0):
        assert weight == 1.0
        return model(x)

ROWS = [{**row, "more": np.full(4, 2.0, "f")} for row in ROWS]
""")
    expected = losses(tiny().train(max_steps=1))[0]
    assert losses(book.train())[0] == pytest.approx(2 * expected, rel=1e-6)


def test_a_ragged_last_batch_compiles_once_more_and_no_epoch_after(book):
    rows = [*book["ROWS"][:2], {k: v[:3] for k, v in book["ROWS"][2].items()}]
    with count_compiles() as count:
        run = train(book, rows, max_steps=9)
    assert max(count.compiled.values()) == 1, count
    assert run.step == 9
    with count_compiles() as count:
        train(book, rows, max_steps=9)
    assert count.nothing, nitro.programs.why()


def test_a_steady_run_looks_nothing_up(book):
    with live(book) as run:
        outcomes = Outcomes()
        run.advance(20)
        assert outcomes.worst == {}


# ---- validation inside a run


def test_validation_leaves_training_as_it_was_to_the_last_bit(book):
    plain_run = train(book, max_steps=13)
    validated = train(book, max_steps=13, eval_every=3)
    assert validated.history("val")["step"].tolist() == [3, 6, 9, 12]
    assert losses(validated) == losses(plain_run)
    assert same(all_state(validated), all_state(plain_run))


def test_validation_comes_each_epoch_and_uses_the_state_of_its_step(book):
    run = train(book, max_steps=None, max_epochs=3, eval_every="1 epoch")
    assert run.step == 15
    val = run.history("val")
    assert val["step"].tolist() == [5, 10, 15]
    assert val["epoch"].tolist() == [1, 2, 3]
    assert val["val_loss"][-1] == pytest.approx(run.handle.validate()["val_loss"])
    assert run.history()["epoch"].tolist() == [0] * 5 + [1] * 5 + [2] * 5


def test_metrics_that_raise_stop_the_run_and_keep_its_state():
    book = tiny("""
class Tiny(Tiny):
    broken = True
    def metrics(self, logits, *, y):
        if Tiny.broken:
            raise KeyError("confusion")
        return {"acc": Mean((logits.argmax(-1) == y).sum(), len(y))}
""")
    handle = book.handle(max_steps=8, eval_every=7)
    with pytest.raises(nitro.HookError) as error:
        handle.train(background=False)
    check_error(error.value, "confusion", "metrics", "<cell 5>", "line 6")
    run = handle.run
    assert (run.phase, run.step) == ("failed", 7)
    assert len(losses(run)) == 7
    book.cell("Tiny.broken = False")
    assert handle.train(background=False).step == 8
    assert losses(run) == losses(tiny().train(max_steps=8))
    assert 0 <= handle.validate()["acc"] <= 1


@pytest.mark.parametrize("hook", ["metrics", "loss"])
def test_sys_exit_in_a_hook_ends_the_run_and_not_the_script(hook):
    book = tiny(f"""
import sys

class Tiny(Tiny):
    def {hook}(self, logits, *, y):
        sys.exit()
""")
    with pytest.raises(nitro.HookError) as error:
        book.train(max_steps=2, eval_every=1)
    check_error(error.value, "SystemExit", hook, "<cell 5>", "line 6")


# ---- what is recorded


def test_train_metrics_and_the_gradient_norm_are_columns():
    book = tiny("""
class Tiny(Tiny):
    def loss(self, logits, *, y):
        value = super().loss(logits, y=y)
        return value, {"twice": value * 2, "deep": {"three": 3}}

    def train_metrics(self, logits, *, y):
        right = (logits.argmax(-1) == y).sum()
        return {"acc": Mean(right, len(y)), "top": logits.max()}
""")
    run = book.train(max_steps=3)
    columns = run.history()
    np.testing.assert_allclose(columns["twice"], columns["loss"] * 2, 1e-6)
    assert columns["deep/three"].tolist() == [3, 3, 3]
    assert set((columns["acc"] * 4).tolist()) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert set(columns) == {
        "step", "epoch", "loss", "twice", "deep/three", "acc", "top", "grad_norm",
        "learning_rate", "weight_decay",
    }  # fmt: skip
    assert (columns["grad_norm"] > 0).all()


def test_the_gradient_norm_is_that_of_all_gradients():
    book = tiny("""
class Tiny(Tiny):
    def learning_rate(self):
        return 1.0
""")
    run = book.train(max_steps=1)
    start = book.train(max_steps=0).params
    import jax

    moved = jax.tree.map(lambda a, b: np.sum((a - b) ** 2), start, run.params)
    norm = np.sqrt(sum(jax.tree.leaves(moved)))
    assert run.history()["grad_norm"][0] == pytest.approx(norm, rel=1e-4)


def test_a_run_of_no_steps_is_done_at_once(book):
    run = train(book, max_steps=0)
    assert (run.phase, run.step) == ("done", 0)


def test_the_phase_says_what_the_worker_does(book):
    gate = Gate(book["ROWS"], before=0)
    val = Gate(book["ROWS"])
    handle = book.handle(max_steps=2, eval_every=2)
    handle.data["train"], handle.data["val"] = gate, val
    run = handle.train(background=True)
    assert gate.reached.wait(60)
    assert run.phase == "stepping"
    gate.opened.set()
    assert val.reached.wait(60)
    assert run.phase == "evaluating"
    val.opened.set()
    until(lambda: not run.live)
    assert run.phase == "done"


NAMES_ITS_CLASS = """
class Base(Tiny):
    def build_data(self):
        return {"train": [ROWS[0], ROWS[1], {k: v[:3] for k, v in ROWS[2].items()}]}

class Sub(Base):
    def forward(self, model, *, x):
        assert isinstance(self, Sub) and isinstance(self, Base)
        return super(Sub, self).forward(model, x=x)
"""
NAMED_HOOK = """
@Sub.hook
def loss(self, logits, *, y):
    return super(Sub, self).loss(logits, y=y) * 2.0
"""


def test_a_run_outlives_its_class_cell_when_a_new_batch_shape_comes(capsys):
    book = tiny(NAMES_ITS_CLASS, NAMED_HOOK)
    expected = losses(book.train("Sub", max_steps=3))
    run = book.handle("Sub", max_steps=3).train(background=True, paused=True)
    run.advance(2)
    nitro.programs.clear()  # so that the third batch is traced anew
    book.cell(NAMES_ITS_CLASS)
    assert "loss" in capsys.readouterr().out, "the hook that it drops is named"
    run.advance(1)
    run.wait()
    assert losses(run) == expected
