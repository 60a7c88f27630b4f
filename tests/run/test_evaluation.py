from __future__ import annotations

import itertools

import numpy as np
import pytest
from cells import check_error, live, losses, tiny

import nitro_repl as nitro
from nitro_repl.testing import count_compiles

FIXED = """
class Tiny(Tiny):
    rows: dict = nitro.field(default_factory=dict)

    def build_data(self):
        return {"train": ROWS, **self.rows}

    def loss(self, logits, *, value, weight=None):
        if weight is None:
            return value.mean()
        return Mean((value * weight).sum(), weight.sum())
"""
SHAPES = """
class Tiny(Tiny):
    def metrics(self, logits, *, y):
        SEEN.append((logits.copy(), np.asarray(y).copy()))
        right = (logits.argmax(-1) == y).sum()
        table = np.zeros((2, 2))
        np.add.at(table, (y, logits.argmax(-1)), 1)
        return {"acc": Mean(right, len(y)), "deep": {"table": Sum(table)}}

SEEN = []
"""


def ragged(rows, *sizes):
    """The rows cut into batches of these sizes."""
    joined = {k: np.concatenate([row[k] for row in rows]) for k in rows[0]}
    edges = np.cumsum([0, *sizes])
    return [
        {k: v[a:b] for k, v in joined.items()} for a, b in itertools.pairwise(edges)
    ]


def values(*batches):
    """Rows whose loss is known."""
    return [
        {"x": np.ones((len(v), 3), np.float32), "value": np.float32(v)} for v in batches
    ]


def fixed(val, **settings):
    book = tiny(FIXED)
    book.cell("ROWS = [{**row, 'value': np.ones(4, 'f')} for row in ROWS]")
    return book.handle(fields={"rows": {"val": val}}, **settings)


# ---- numbers


def test_the_loss_is_a_mean_over_samples_not_over_batches():
    handle = fixed(values([9.0, 11.0], [9.0]))
    assert handle.validate() == {"val_loss": pytest.approx(29 / 3)}


def test_a_mean_loss_is_exact_whatever_the_batches():
    rng = np.random.default_rng(1)
    value, weight = rng.normal(size=7), rng.uniform(size=7)
    expected = (value * weight).sum() / weight.sum()
    for sizes in ((4, 3), (1, 2, 4), (7,)):
        edges = np.cumsum([0, *sizes])
        batches = [
            {
                "x": np.ones((b - a, 3), np.float32),
                "value": value[a:b].astype(np.float32),
                "weight": weight[a:b].astype(np.float32),
            }
            for a, b in itertools.pairwise(edges)
        ]
        found = fixed(batches).validate()["val_loss"]
        assert found == pytest.approx(expected, rel=1e-5)


def test_padding_reaches_neither_metrics_nor_loss():
    book = tiny(SHAPES)
    handle = book.handle()
    whole = handle.data["train"]
    handle.data["val"] = ragged(whole, 4, 4, 4, 4, 4)
    expected = handle.validate()
    book["SEEN"].clear()
    handle.data["val"] = ragged(whole, 4, 4, 4, 3, 1, 4)
    found = handle.validate()
    seen = book["SEEN"]
    assert [len(logits) for logits, _ in seen] == [4, 4, 4, 3, 1, 4]
    assert all(len(logits) == len(y) for logits, y in seen)
    assert all(isinstance(part, np.ndarray) for pair in seen for part in pair)
    assert found["acc"] == expected["acc"]
    assert found["val_loss"] == pytest.approx(expected["val_loss"], rel=1e-6)
    assert np.array_equal(found["deep/table"], expected["deep/table"])
    assert found["deep/table"].sum() == 20


def test_a_metric_that_is_called_loss_does_not_replace_the_loss():
    book = tiny("""
class Tiny(Tiny):
    def metrics(self, logits, *, y):
        return {"loss": Mean(0.0, len(y))}
""")
    expected = tiny().handle().validate()["val_loss"]
    found = book.handle().validate()
    assert found["val_loss"] == pytest.approx(expected, rel=1e-6)
    assert found["loss"] == 0.0


# ---- programs


def test_a_ragged_batch_compiles_the_eval_program_once_and_the_loss_once_more():
    book = tiny(SHAPES)
    handle = book.handle()
    handle.data["val"] = ragged(book["ROWS"], 4, 4, 3)
    with count_compiles() as count:
        first = handle.validate()
    assert count.compiled["eval"] <= 1
    assert count.compiled["loss"] <= 2
    with count_compiles() as count:
        second = handle.validate()
    assert count.total == 0, count
    assert {k: v for k, v in first.items() if "table" not in k} == {
        k: v for k, v in second.items() if "table" not in k
    }


def test_predicting_fewer_rows_compiles_nothing_new():
    book = tiny()
    handle = book.handle()
    x = np.concatenate([row["x"] for row in book["ROWS"]])[:4]
    expected = handle.predict({"x": x})
    with count_compiles() as count:
        for n in (3, 1, 2, 4):
            found = handle.predict({"x": x[:n]})
            assert found.shape == (n, 2)
            assert np.array_equal(found, expected[:n])
    assert count.total == 0, count


@pytest.mark.parametrize("trained", [False, True])
def test_the_largest_batch_ever_met_serves_all_smaller_ones(trained):
    book = tiny()
    handle = book.handle(max_steps=1)
    if trained:
        handle.train(background=False)
    x = np.concatenate([row["x"] for row in book["ROWS"]])
    expected = handle.predict({"x": x[:13]})
    with count_compiles() as count:
        for n in (12, 5, 3):
            assert np.array_equal(handle.predict({"x": x[:n]}), expected[:n])
        handle.evaluate("train")
    assert "eval" not in count.compiled, count


def test_predict_over_a_loader_joins_its_batches():
    book = tiny()
    handle = book.handle()
    rows = ragged(book["ROWS"], 4, 4, 3)
    joined = handle.predict(rows)
    assert isinstance(joined, np.ndarray)
    assert joined.shape == (11, 2)
    parts = [handle.predict(row) for row in rows]
    assert np.array_equal(joined, np.concatenate(parts))
    loader = nitro.ArrayLoader({"x": np.concatenate([r["x"] for r in rows])}, 4)
    assert np.array_equal(handle.predict(loader), joined)


def test_predict_needs_only_what_forward_names():
    handle = tiny().handle()
    x = np.ones((2, 3))
    for batch in ({"x": x}, {"x": x.tolist()}, {"x": x, "y": "anything"}):
        assert handle.predict(batch).shape == (2, 2)
    with pytest.raises(nitro.DataError) as error:
        handle.predict({"y": x})
    check_error(error.value, "`forward` needs `x`", "`y`")


def test_outputs_may_be_a_tree():
    book = tiny("""
class Tiny(Tiny):
    def forward(self, model, *, x):
        logits = model(x)
        return {"logits": logits, "best": logits.argmax(-1)}

    def loss(self, outputs, *, y):
        return super().loss(outputs["logits"], y=y)
""")
    handle = book.handle()
    found = handle.predict(book["ROWS"][0])
    assert found["best"].tolist() == found["logits"].argmax(-1).tolist()
    assert handle.validate()["val_loss"] == pytest.approx(
        tiny().handle().validate()["val_loss"]
    )


POOLED = """
class Tiny(Tiny):
    def forward(self, model, *, x):
        return model(x).mean(0)

    def loss(self, pooled, *, y):
        return (pooled ** 2).sum()
"""


def test_outputs_that_are_not_batch_first_are_refused_for_a_ragged_batch():
    book = tiny(POOLED)
    rows = ragged(book["ROWS"], 4, 3)
    handle = book.handle()
    handle.data["val"] = rows[:1]
    assert handle.validate()["val_loss"] > 0, "nothing was padded"
    handle.data["val"] = rows
    with pytest.raises(nitro.DataError) as error:
        handle.validate()
    check_error(error.value, "(2,)", "pad_eval=False")
    with pytest.raises(nitro.DataError) as error:
        handle.predict(rows[1])
    check_error(error.value, "pad_eval=False")


def test_without_padding_each_batch_is_taken_as_it_is():
    book = tiny(POOLED)
    rows = ragged(book["ROWS"], 4, 3)
    handle = book.handle(pad_eval=False)
    handle.data["val"] = rows
    first, second = (handle.predict(row) for row in rows)
    expected = ((first**2).sum() * 4 + (second**2).sum() * 3) / 7
    assert handle.validate()["val_loss"] == pytest.approx(expected, rel=1e-6)


def test_a_field_that_is_not_batch_first_needs_no_padding():
    book = tiny("""
class Tiny(Tiny):
    def forward(self, model, *, x, mixing):
        return model(x @ mixing)

ROWS = [{**row, "mixing": np.eye(3, dtype="f")} for row in ROWS]
""")
    expected = tiny().handle().validate()["val_loss"]
    with pytest.raises(nitro.DataError) as error:
        book.handle().validate()
    check_error(error.value, "`mixing` 3", "`x` 4", "pad_eval=False")
    found = book.handle(pad_eval=False).validate()["val_loss"]
    assert found == pytest.approx(expected, rel=1e-6)
    assert len(losses(book.train())) == 2, "training pads nothing"


# ---- hooks of the host


def test_finalize_metrics_replaces_what_is_reported_but_the_loss():
    book = tiny(
        SHAPES
        + """
class Tiny(Tiny):
    def finalize_metrics(self, totals, split):
        table = totals["deep"]["table"]
        recall = table[1, 1] / table[1].sum()
        return {f"{split}/recall": recall, "n": {"all": table.sum()},
                "on device": jnp.float32(2), "name": "table", "table": table}
"""
    )
    found = book.handle().evaluate("train")
    assert [*found] == [
        "train_loss", "train/recall", "n/all", "on device", "name", "table"
    ]  # fmt: skip
    assert found["n/all"] == 20
    kinds = [float, float, float, float, str, np.ndarray]
    assert [type(value) for value in found.values()] == kinds


def test_finalize_metrics_sees_the_loss_and_must_return_a_dict():
    book = tiny("""
class Tiny(Tiny):
    def finalize_metrics(self, totals, split):
        return {"twice": totals[f"{split}_loss"] * 2} if split == "val" else None
""")
    handle = book.handle()
    found = handle.validate()
    assert found["twice"] == found["val_loss"] * 2
    with pytest.raises(nitro.HookError) as error:
        handle.evaluate("train")
    check_error(error.value, "finalize_metrics", "NoneType", "dict")


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("{'acc': 0.5}", ("acc", "Mean")),
        ("{'acc': np.ones(4)}", ("acc", "Mean")),
        ("{'acc': None}", ("acc",)),
        ("0.5", ("metrics", "dict")),
        ("None", ("metrics", "dict")),
        ("undefined", ("undefined", "<cell 5>, line 4")),
    ],
)
def test_metrics_are_refused_that_cannot_be_added_up(returned, words):
    book = tiny(f"""
class Tiny(Tiny):
    def metrics(self, logits, *, y):
        return {returned}
""")
    handle = book.handle()
    with pytest.raises(nitro.NitroError) as error:
        handle.validate()
    check_error(error.value, *words)
    assert tiny().handle().validate()


def test_metrics_may_read_host_fields_and_fields_that_only_they_name():
    book = tiny("""
class Tiny(Tiny):
    def metrics(self, logits, *, name, y=None):
        assert name.dtype.kind == "U", name
        assert self.note == "host"
        return {"n": Sum(sum(n == "a" for n in name))}

ROWS = [{**row, "name": ["a", "b", "a", "c"]} for row in ROWS]
""")
    assert book.handle().validate()["n"] == 4
    assert book.train(eval_every=1).history("val")["n"].tolist() == [4, 4]


# ---- eval mode


def test_evaluation_is_in_eval_mode_and_repeats():
    book = tiny("""
class Net(nnx.Module):
    def __init__(self, rngs):
        self.one = nnx.Linear(3, 2, rngs=rngs)
        self.norm = nnx.BatchNorm(2, rngs=rngs)
        self.drop = nnx.Dropout(0.9, rngs=rngs)

    def __call__(self, x):
        return self.drop(self.norm(self.one(x)))

class Tiny(Tiny):
    def build_model(self, rngs):
        return Net(rngs)

    def forward(self, model, *, x, key):
        noise = jax.random.normal(key, (2,))
        return model(x) + (noise if self.training else noise * 1e-3)
""")
    with live(book, steps=3) as run:
        handle = run.handle
        first = handle.predict(book["ROWS"][0])
        assert np.array_equal(handle.predict(book["ROWS"][0]), first)
        assert (np.abs(first) > 1e-2).any(), "the dropout is off"
        before = handle.validate()
        mean = np.asarray(run.model().norm.mean[...])
        assert handle.validate() == before
        assert np.array_equal(np.asarray(run.model().norm.mean[...]), mean)
        model = run.model()
        np.testing.assert_allclose(
            first, np.asarray(model(book["ROWS"][0]["x"])), atol=1e-2
        )
        assert handle.evaluate("train") != before


def test_an_evaluation_of_a_live_run_leaves_it_stepping():
    book = tiny()
    with live(book) as run:
        run.resume()
        steps = [run.step]
        for _ in range(3):
            assert run.handle.validate()["val_loss"] > 0
            steps.append(run.step)
        assert steps[-1] > steps[0]


def test_predict_of_an_array_says_what_to_give():
    with pytest.raises(nitro.DataError) as error:
        tiny().handle().predict(np.zeros((4, 3)))
    check_error(error.value, "ndarray", '{"image": x}')
