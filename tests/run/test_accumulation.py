from __future__ import annotations

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import check_error, live, losses, same, tiny

import nitro_repl as nitro
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

# Four micro-batches, and the one batch that they are together.
MASKED = """
ROWS = [{**row, "mask": np.float32(mask)} for row, mask in zip(ROWS, [
    [1, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 1],
])]
WHOLE = {k: np.concatenate([row[k] for row in ROWS]) for k in ROWS[0]}

class Tiny(Tiny):
    whole: bool = False

    def build_data(self):
        return {"train": [WHOLE] if self.whole else ROWS}
"""
MEAN = """
class Tiny(Tiny):
    def loss(self, logits, *, y, mask):
        wrong = ((logits - jax.nn.one_hot(y, 2)) ** 2).sum(-1)
        right = Mean((logits.argmax(-1) == y) @ mask, mask.sum())
        return Mean(wrong @ mask, mask.sum()), {"acc": right, "seen": Sum(mask.sum())}
"""
CONTRAST = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        unit = logits / jnp.linalg.norm(logits, axis=-1, keepdims=True)
        return -jnp.diagonal(jax.nn.log_softmax(unit @ unit.T)).mean()
"""
KINDS = [
    pytest.param("mean", False, id="mean"),
    pytest.param("mean", True, id="mean fused"),
    pytest.param("joint", False, id="joint"),
    pytest.param("joint", True, id="joint fused"),
]


@pytest.fixture(scope="module")
def book():
    return tiny(MASKED)


@pytest.fixture(scope="module")
def masked():
    return tiny(MASKED, MEAN)


@pytest.fixture(scope="module")
def contrast():
    return tiny(MASKED, CONTRAST)


def close(run, expected):
    assert losses(run) == pytest.approx(losses(expected), abs=1e-6)
    norms = [one.history()["grad_norm"].tolist() for one in (run, expected)]
    assert norms[0] == pytest.approx(norms[1], abs=2e-6)
    leaves = [jax.tree.leaves(one.params) for one in (run, expected)]
    for one, two in zip(*leaves, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("mode", "fuse"), KINDS)
def test_micro_batches_equal_one_big_batch(book, mode, fuse):
    expected = book.train(fields={"whole": True}, max_steps=3)
    run = book.train(max_steps=3, accum=4, accum_mode=mode, fuse=fuse)
    close(run, expected)
    assert run.history()["step"].tolist() == [1, 2, 3]
    assert run.history()["epoch"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(("mode", "fuse"), KINDS)
def test_uneven_masks_are_exact_through_mean(masked, mode, fuse):
    expected = masked.train(fields={"whole": True}, max_steps=3)
    run = masked.train(max_steps=3, accum=4, accum_mode=mode, fuse=fuse)
    close(run, expected)
    acc = [one.history()["acc"].tolist() for one in (run, expected)]
    assert acc[0] == pytest.approx(acc[1], abs=1e-6)
    assert run.history()["seen"].tolist() == [7, 7, 7]


@pytest.mark.parametrize(("mode", "fuse"), KINDS)
def test_frozen_leaves_and_a_clip_of_all_gradients_go_with_it(book, mode, fuse):
    book.cell("""
class Frozen(Tiny):
    clip_norm = 0.25
    def frozen(self, path, leaf):
        return path[:2] == ("layers", "0") or path[0] == 0 or "bias" in path
""")
    expected = book.train("Frozen", fields={"whole": True}, max_steps=3)
    run = book.train("Frozen", max_steps=3, accum=4, accum_mode=mode, fuse=fuse)
    close(run, expected)
    assert (expected.history()["grad_norm"] > 0.25).all(), "the clip does something"


@pytest.mark.parametrize("fuse", [False, True])
def test_in_batch_negatives_are_exact_through_joint(contrast, fuse):
    expected = contrast.train(fields={"whole": True}, max_steps=3)
    run = contrast.train(max_steps=3, accum=4, accum_mode="joint", fuse=fuse)
    close(run, expected)
    mean = contrast.train(max_steps=1, accum=4)
    assert abs(losses(mean)[0] - losses(expected)[0]) > 0.1, "the control"


def test_batches_of_different_sizes_are_exact_through_mean(masked):
    cut = [
        {k: v[: 2 + n % 3] for k, v in r.items()} for n, r in enumerate(masked["ROWS"])
    ]
    masked.names["CUT"] = cut
    masked.names["JOINED"] = {k: np.concatenate([r[k] for r in cut]) for k in cut[0]}
    masked.cell("""
class Cut(Tiny):
    def build_data(self):
        return {"train": [JOINED] if self.whole else CUT}
""")
    expected = masked.train("Cut", fields={"whole": True}, max_steps=2)
    close(masked.train("Cut", max_steps=2, accum=4), expected)
    close(masked.train("Cut", max_steps=2, accum=4, accum_mode="joint"), expected)


def test_changing_accum_compiles_backward_and_optimizer_at_most(fresh_programs):
    book = tiny(MASKED)
    book.train()
    for accum, compiled in ((2, {"backward": 1}), (4, {}), (1, {})):
        with count_compiles() as count:
            book.train(accum=accum)
        assert dict(count.compiled) == compiled, count
    with count_compiles() as count:
        book.train(accum=2, fuse=True)
    assert dict(count.compiled) == {"grad": 1}, "the control"
    names = [event.program for event in nitro.programs.events()[-2:]]
    assert names == ["grad", "optimizer"]


def test_a_swap_of_the_loss_compiles_the_loss_alone(book):
    with live(book, steps=1, accum=2) as run:
        book.cell("""
@Tiny.hook
def loss(self, logits, *, y):
    return jnp.abs(logits - jax.nn.one_hot(y, 2)).mean()
""")
        with count_compiles() as count:
            run.swap()
            run.advance(1)
        assert dict(count.compiled) == {"loss": 1}, count
    book.cell("del Tiny.loss")


STATEFUL = """
class Net(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.BatchNorm(3, momentum=0.9, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.outer = nnx.Linear(3, 2, rngs=rngs)

    def __call__(self, x):
        return self.outer(self.drop(self.norm(x)))

class Tiny(Tiny):
    def build_model(self, rngs):
        return Net(rngs)

    def loss(self, logits, *, y, key):
        drawn = jax.random.uniform(key)
        return super().loss(logits, y=y), {"drawn": drawn, "sum": logits.sum()}
"""


@pytest.fixture(scope="module")
def stateful():
    return tiny(MASKED, STATEFUL)


@pytest.mark.parametrize(("mode", "fuse"), KINDS)
def test_model_state_goes_through_the_micro_batches_in_order(stateful, mode, fuse):
    run = stateful.train(max_steps=2, accum=2, accum_mode=mode, fuse=fuse)
    mean, count = np.zeros(3), run.model().drop.rngs.count[...]
    for row in stateful["ROWS"]:
        mean = 0.9 * mean + 0.1 * row["x"].mean(0)
    np.testing.assert_allclose(run.model().norm.mean[...], mean, rtol=0, atol=1e-6)
    assert int(count) == int(stateful.train(max_steps=4).model().drop.rngs.count[...])


@pytest.mark.parametrize("fuse", [False, True])
def test_randomness_is_drawn_anew_for_each_micro_batch(stateful, fuse):
    run = stateful.train(max_steps=3, accum=2, fuse=fuse)
    key = jax.random.fold_in(jax.random.key(0), zlib.crc32(b"loss"))

    def drawn(step, micro):
        here = jax.random.fold_in(jax.random.fold_in(key, step), micro)
        return float(jax.random.uniform(here))

    expected = [np.mean([drawn(step, 0), drawn(step, 1)]) for step in range(3)]
    assert run.history()["drawn"].tolist() == pytest.approx(expected)
    again = stateful.train(max_steps=3, accum=2, fuse=fuse)
    assert losses(again) == losses(run), "repeated to the last bit"
    assert same(again.params, run.params)


@pytest.mark.parametrize(("mode", "fuse"), KINDS)
def test_only_an_edit_makes_the_programs_of_micro_batches_stale(mode, fuse):
    book = tiny(MASKED, STATEFUL)
    with live(book, steps=1, accum=2, accum_mode=mode, fuse=fuse) as run:
        assert run.stale == ()
        book.cell("@Tiny.hook\ndef forward(self, model, *, x): return 2 * model(x)")
        assert run.stale == (("grad",) if fuse else ("forward", "backward"))


class Breaks(list):
    """Rows whose second read of an epoch fails, once."""

    broken = True

    def __iter__(self):
        for index, row in enumerate(list.__iter__(self)):
            if index == 1 and self.broken:
                self.broken = False
                raise OSError("the disk is away")
            yield row


def test_a_loader_that_fails_within_a_step_gives_it_whole_the_next_time(book):
    handle = book.handle(max_steps=4, accum=2)
    handle.data["train"] = Breaks(book["ROWS"])
    with pytest.raises(nitro.HookError, match="the disk is away"):
        handle.train(background=False)
    run = handle.train(background=False)
    expected = book.train(max_steps=4, accum=2)
    assert losses(run) == losses(expected)
    assert run.epoch == expected.epoch == 2


def test_epochs_and_horizons_count_optimizer_steps(book):
    book.cell("""
class Horizon(Tiny):
    def schedules(self):
        return {"smoothing": lambda total: lambda step: total / 64}
""")
    run = book.train("Horizon", max_steps=None, max_epochs=3, accum=2, eval_every=None)
    assert (run.step, run.epoch) == (6, 3)
    assert run.history()["smoothing"].tolist() == [6 / 64] * 6


REFUSED = [
    ({"accum": 3}, nitro.DataError, ("accum=3", "4 batches", "accum=2 or 4")),
    ({"accum": 8}, nitro.DataError, ("accum=8", "4 batches")),
    ({"accum": 0}, nitro.SettingError, ("accum=0",)),
    ({"accum": 2.0}, nitro.SettingError, ("accum=2.0",)),
    ({"accum_mode": "sum"}, nitro.SettingError, ("'sum'", "'mean'", "'joint'")),
]


@pytest.mark.parametrize(("settings", "kind", "words"), REFUSED, ids=str)
def test_a_wrong_accum_is_refused_at_set_up(book, settings, kind, words):
    with pytest.raises(kind) as error:
        book.handle(**settings)
    check_error(error.value, *words)


@pytest.mark.parametrize("fuse", [False, True])
def test_outputs_without_rows_cannot_be_joint(book, fuse):
    book.cell("""
class Scalar(Tiny):
    def forward(self, model, *, x):
        return model(x).mean()
    def loss(self, output):
        return output ** 2
""")
    with pytest.raises(nitro.HookError) as error:
        book.train("Scalar", accum=2, accum_mode="joint", fuse=fuse)
    check_error(error.value, "single number", 'accum_mode="mean"')
    assert jnp.isfinite(losses(book.train("Scalar", accum=2))[0])


HALF = """
class Half(Tiny):
    half: bool = True

    def build_model(self, rngs):
        kind = jnp.bfloat16 if self.half else jnp.float32
        model = nnx.Linear(3, 2, use_bias=False, param_dtype=kind, rngs=rngs)
        model.kernel[...] = jnp.full((3, 2), 1.0, kind)
        return model

    def loss(self, out, *, y):
        return (out.astype(jnp.float32) * (jnp.arange(2) + 1.0)).mean()

    def optimizer(self, hp):
        return optax.sgd(hp.learning_rate)

    def learning_rate(self):
        return 1.0

    def build_data(self):
        first = np.full((4, 3), 1.0, "float32")
        small = {"x": first / 300, "y": np.zeros(4, "int32")}
        rows = [small] * 8 + [{**small, "x": first}] + [small] * 7
        return {"train": [joined(rows)] if self.whole else rows}

def joined(rows):
    return {k: np.concatenate([row[k] for row in rows]) for k in rows[0]}
"""


@pytest.mark.parametrize(("mode", "fuse"), KINDS)
def test_gradients_of_bfloat16_parameters_add_up_in_float32(mode, fuse):
    book = tiny(MASKED, HALF)
    whole = {"whole": True, "half": False}
    exact = book.train("Half", fields=whole, max_steps=1).history()["grad_norm"][0]
    settings = {"accum": 16, "accum_mode": mode, "fuse": fuse}
    run = book.train("Half", max_steps=1, **settings)
    assert run.history()["grad_norm"][0] == pytest.approx(exact, rel=2**-8)
    assert run.params["kernel"].dtype == jnp.bfloat16
    lost = float(jnp.bfloat16(1) + jnp.bfloat16(1 / 300))
    assert lost == 1, "the control: so small a share is lost in bfloat16"
