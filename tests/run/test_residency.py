"""Metrics on the host and on the device: the same numbers, other compiles."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cells import check_error, live, tiny

import nitro_repl as nitro
from nitro_repl.testing import count_compiles

METRICS = """
Concat, Max, Min = nitro.Concat, nitro.Max, nitro.Min

class Tiny(Tiny):
    scale: Device[float] = 2.0

    def metrics(self, logits, *, y, weight=None):
        right = logits.argmax(-1) == y
        return {
            "acc": Mean(right.sum(), len(y)),
            "pair": (right.sum(), len(y)),
            "deep": {"right": Sum(right), "both": Sum({"n": len(y), "y": y.sum()})}
            if weight is not None else {"n": (len(y), None)},
            "top": Max(logits.max(0) * self.scale),
            "low": Min(logits.min(0) * self.scale),
            "rows": Concat({"score": logits[:, 1], "label": y}),
        }

    def finalize_metrics(self, totals, split):
        rows = totals.pop("rows")
        order = rows["score"].argsort()
        return {**totals, "n": len(order), "by_rank": (rows["label"][order] *
                np.arange(len(order))).sum() * self.scale, "said": "a text"}
"""
EDIT = """
@Tiny.hook
def metrics(self, logits, *, y):
    return {"wrong": Mean((logits.argmax(-1) != y).sum(), len(y))}

@Tiny.hook
def finalize_metrics(self, totals, split):
    return totals
"""


def cut(rows, *sizes):
    joined = {k: np.concatenate([row[k] for row in rows]) for k in rows[0]}
    edges = np.cumsum([0, *sizes])
    return [
        {k: v[a:b] for k, v in joined.items()} for a, b in itertools.pairwise(edges)
    ]


@pytest.fixture(scope="module")
def book():
    return tiny(METRICS)


def found(book, sizes, **settings):
    handle = book.handle(**settings)
    handle.data["val"] = cut(book["ROWS"], *sizes)
    return handle.validate()


@pytest.mark.parametrize("pad_eval", [True, False])
@pytest.mark.parametrize("residency", ["host", "device"])
def test_ragged_batches_give_the_numbers_of_one_batch(book, residency, pad_eval):
    whole = found(book, (19,), metrics_residency="host")
    settings = {"metrics_residency": residency, "pad_eval": pad_eval}
    for sizes in ((4, 4, 4, 4, 3), (8, 8, 3)):
        result = found(book, sizes, **settings)
        assert result.keys() == whole.keys()
        assert result["n"] == 19
        for name, value in whole.items():
            if name == "said":
                assert result[name] == value
            else:
                np.testing.assert_allclose(result[name], value, rtol=2e-6)


def test_both_widths_of_device_metrics_compile_once_and_then_nothing(book):
    nitro.programs.clear()
    handle = book.handle(metrics_residency="device")
    handle.data["val"] = cut(book["ROWS"], 4, 4, 3)
    with count_compiles() as count:
        handle.validate()
    assert count.compiled["metrics"] == 2, count
    assert count.compiled["eval"] == 1, count
    with count_compiles() as count:
        handle.validate()
    assert count.total == 0, count


def as_list(rows):
    return rows


def as_loader(rows):
    joined = {k: np.concatenate([row[k] for row in rows]) for k in rows[0]}
    return nitro.ArrayLoader(joined, len(rows[0]["x"]))


@pytest.mark.parametrize("loader", [as_list, as_loader])
def test_a_run_makes_both_widths_of_device_metrics_before_its_first_step(book, loader):
    settings = {"metrics_residency": "device", "eval_every": 2, "max_steps": None}
    for sizes, widths in (((4, 4, 3), 2), ((4, 4), 1)):
        nitro.programs.clear()
        handle = book.handle(**settings)
        handle.data["val"] = loader(cut(book["ROWS"], *sizes))
        with count_compiles() as count:
            run = handle.train(background=True, paused=True)
            run.advance(1)
        assert count.compiled["metrics"] == widths, count
        assert count.compiled["eval"] == 1, count
        with count_compiles() as count:
            run.advance(3)
        assert not count.compiled, count
        assert run.history("val")["n"].tolist() == [sum(sizes)] * 2
        run.stop()


@pytest.mark.parametrize("residency", ["host", "device"])
def test_an_edit_of_metrics_compiles_itself_on_the_device_and_nothing_on_the_host(
    residency,
):
    book = tiny(METRICS)
    with live(book, metrics_residency=residency, eval_every=1) as run:
        assert np.isfinite(run.history("val")["acc"]).all()
        names = {program.name for program in run.status().programs}
        assert ("metrics" in names) == (residency == "device")
        book.cell(EDIT)
        assert run.stale == (("metrics",) if residency == "device" else ())
        with count_compiles() as count:
            run.swap()
            run.advance(1)
        expected = {"metrics": 1} if residency == "device" else {}
        assert dict(count.compiled) == expected, count
        assert run.history("val")["wrong"][-1] == run.handle.validate()["wrong"]


@pytest.mark.parametrize("residency", ["host", "device"])
def test_metrics_see_the_live_value_of_a_field_and_a_new_one_compiles_nothing(
    book, residency
):
    with live(book, metrics_residency=residency) as run:
        before = run.handle.validate()
        with count_compiles() as count:
            run.set(scale=20.0)
            after = run.handle.validate()
        assert count.total == 0, count
        for name in ("top", "low", "by_rank"):
            np.testing.assert_allclose(after[name], before[name] * 10, rtol=1e-6)


def test_a_swap_of_metrics_alone_leaves_other_edits(book):
    book = tiny(METRICS)
    with live(book, metrics_residency="device", eval_every=1) as run:
        book.cell(EDIT)
        book.cell("""
@Tiny.hook
def loss(self, logits, *, y):
    return squared_error(logits, y, 0.0)
""")
        assert set(run.stale) == {"loss", "metrics"}
        run.swap("metrics")
        assert run.stale == ("loss",)


def test_a_first_ragged_batch_after_an_edit_below_metrics_is_refused_not_mixed():
    helper = "def wrong(logits, y): return (logits.argmax(-1) != y).sum()"
    book = tiny(
        helper, EDIT.replace("(logits.argmax(-1) != y).sum()", "wrong(logits, y)")
    )
    handle = book.handle(metrics_residency="device")
    before = handle.validate()
    book.cell(helper.replace("!=", "=="))
    assert handle.validate() == before, "a handle is a fixed point"
    handle.data["val"] = cut(book["ROWS"], 4, 4, 3)
    with pytest.raises(nitro.StaleError) as error:
        handle.validate()
    check_error(error.value, "`metrics`", "wrong")
    book.cell(helper)
    assert len(handle.validate()) == 2


def test_device_metrics_may_ask_for_a_key():
    book = tiny("""
class Tiny(Tiny):
    metrics_residency = "device"

    def metrics(self, logits, *, y, key):
        return {"noise": Mean(jax.random.uniform(key, y.shape).sum(), len(y))}
""")
    handle = book.handle()
    noise = handle.validate()["noise"]
    assert 0 < noise < 1
    assert handle.validate()["noise"] == noise
    with pytest.raises(nitro.HookError) as error:
        book.handle(metrics_residency="host")
    check_error(error.value, "key", 'metrics_residency="device"')


@pytest.mark.parametrize("residency", ["host", "device"])
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("{'acc': right.mean()}", ("`acc`", "Mean")),
        ("{'c': nitro.Concat(right.sum())}", ("`c`", "Concat", "()")),
        ("{'c': nitro.Concat(logits[:3])}", ("`c`", "(3, 2)", "4")),
        ("{'c': nitro.Concat({'a': right, 'b': right[:2]})}", ("`c`", "(2,)")),
        ("{'d': {'c': nitro.Concat(right)}}", ("`d/c`", "finalize_metrics")),
        ("{'step': Sum(1)}", ("`step`", "column")),
    ],
)
def test_metrics_that_say_not_how_they_add_up_are_refused_by_name(
    residency, returned, words
):
    book = tiny(f"""
class Tiny(Tiny):
    def metrics(self, logits, *, y):
        right = logits.argmax(-1) == y
        return {returned}
""")
    with pytest.raises(nitro.MetricError) as error:
        book.handle(metrics_residency=residency).validate()
    check_error(error.value, *words)


def test_a_metric_of_another_kind_in_the_last_batch_is_refused_by_name():
    book = tiny("""
class Tiny(Tiny):
    def metrics(self, logits, *, y):
        return {"m": Mean(1, 2) if len(y) == 4 else nitro.Max(1)}
""")
    for residency in ("host", "device"):
        with pytest.raises(nitro.MetricError) as error:
            found(book, (4, 3), metrics_residency=residency)
        check_error(error.value, "`m`", "Mean, then Max")


def test_a_residency_that_there_is_not_is_refused():
    with pytest.raises(nitro.SettingError) as error:
        tiny().handle(metrics_residency="gpu")
    check_error(error.value, "gpu", "host", "device")


def test_a_metric_value_returned_by_finalize_metrics_is_refused():
    book = tiny("""
class Tiny(Tiny):
    def finalize_metrics(self, totals, split):
        return {"m": Mean(1, 2)}
""")
    with pytest.raises(nitro.MetricError) as error:
        book.handle().validate()
    check_error(error.value, "`m`", "Mean")


# ---- the loss and its train metrics


TRAINED = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        wrong = ((logits - jax.nn.one_hot(y, 2)) ** 2).mean(-1)
        right = logits.argmax(-1) == y
        return Mean(wrong.sum(), len(y)), {
            "acc": Mean(right.sum(), len(y)), "pair": (right.sum(), len(y)),
            "part": {"most": nitro.Max(wrong.max()), "least": nitro.Min(wrong.min())},
            "tree": Sum({"a": right.sum(), "b": 1.0}),
        }

    def train_metrics(self, logits, *, y):
        return {"size": jnp.abs(logits).mean()}
"""


@pytest.mark.parametrize("fuse", [False, True])
def test_a_loss_may_be_a_mean_with_a_dict_of_train_metrics(fuse):
    book = tiny(TRAINED)
    run = book.train(fuse=fuse, max_steps=1, eval_every=1)
    row = {name: column[0] for name, column in run.history("train").items()}
    model = book["Tiny"]().build_model(book["nnx"].Rngs(0))
    batch = book["ROWS"][0]
    logits = np.asarray(model(batch["x"]))
    wrong = ((logits - np.eye(2)[batch["y"]]) ** 2).mean(-1)
    right = (logits.argmax(-1) == batch["y"]).sum()
    expected = {
        "loss": wrong.mean(), "acc": right / 4, "pair": right / 4,
        "part/most": wrong.max(), "part/least": wrong.min(),
        "tree/a": right, "tree/b": 1, "size": np.abs(logits).mean(),
    }  # fmt: skip
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-5), name
    assert list(run.history("val")) == ["step", "epoch", "val_loss"]


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("Mean(1.0, 1), {'c': nitro.Concat(logits)}", ("`c`", "Concat", "metrics")),
        ("Mean(logits.sum(0), 4), {}", ("loss", "(2,)")),
        ("Mean({'a': 1.0, 'b': 1.0}, 4)", ("loss", "pytree")),
        ("nitro.Sum(logits.sum())", ("loss", "Sum")),
        ("logits.mean(), {'m': Mean(logits.sum(0), 4)}", ("`m`", "(2,)")),
        ("logits.mean(), {'loss': logits.mean()}", ("`loss`", "column")),
        ("logits.mean(), {'m': 'text'}", ("`m`", "str")),
    ],
)
def test_a_loss_or_train_metric_that_is_no_number_is_refused_before_a_compile(
    returned, words
):
    book = tiny(f"""
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return {returned}
""")
    with pytest.raises(nitro.HookError) as error:
        book.train()
    check_error(error.value, *words)
