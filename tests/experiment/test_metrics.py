from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nitro_repl._experiment.metrics import (
    Concat,
    Max,
    Mean,
    Min,
    Sum,
    as_metric,
    as_metrics,
    flat,
)
from nitro_repl._experiment.totals import Totals
from nitro_repl.errors import MetricError


def totals_of(*batches, where=""):
    totals = Totals(where)
    for batch in batches:
        totals.add(batch)
    return totals.compute()


def test_a_mean_weighs_samples_not_batches():
    assert totals_of({"loss": Mean(20.0, 2)}, {"loss": Mean(9.0, 1)}) == {
        "loss": pytest.approx(29 / 3, abs=0)
    }
    assert round(29 / 3, 3) == 9.667


def test_a_pair_is_a_mean_and_a_pair_with_none_a_sum():
    assert isinstance(as_metric("m", (3, 4)), Mean)
    assert isinstance(as_metric("m", (3, None)), Sum)
    assert totals_of({"a": (3, 4), "b": (3, None)}, {"a": (1, 4), "b": (1, None)}) == {
        "a": 0.5,
        "b": 4.0,
    }


def test_a_metric_value_is_itself():
    value = Mean(1, 2)
    assert as_metric("m", value) is value


def test_results_are_python_floats_or_numpy_arrays():
    result = totals_of({"a": Sum(jnp.int32(3)), "b": Mean(jnp.ones(2), 4)})
    assert type(result["a"]) is float
    assert type(result["b"]) is np.ndarray
    np.testing.assert_array_equal(result["b"], [0.25, 0.25])


def test_sums_are_exact_in_float64():
    ones = [{"n": Sum(np.float32(1))} for _ in range(3)]
    assert totals_of({"n": Sum(np.float32(2**24))}, *ones) == {"n": 2.0**24 + 3}


def test_a_split_in_any_batches_gives_the_same_mean():
    values = np.random.default_rng(0).integers(0, 100, 103)

    def mean(size):
        parts = [values[i : i + size] for i in range(0, 103, size)]
        return totals_of(*({"m": Mean(p.sum(), len(p))} for p in parts))["m"]

    assert mean(8) == mean(103) == mean(1) == values.sum() / 103


def test_a_mean_over_no_sample_is_nan():
    result = totals_of(
        {"m": Mean(0.0, 0), "each": Mean(np.array([1.0, 2]), np.array([0, 4]))}
    )
    assert np.isnan(result["m"])
    np.testing.assert_array_equal(result["each"], [np.nan, 0.5])


def test_an_empty_batch_changes_nothing():
    assert totals_of({"m": Mean(0.0, 0)}, {"m": Mean(3.0, 2)}) == {"m": 1.5}


def test_no_batch_gives_no_metric():
    assert totals_of() == {}


def test_a_metric_may_be_absent_from_some_batches():
    assert totals_of({"a": (1, 1)}, {"b": (2, 1)}, {"a": (2, 1)}) == {"a": 1.5, "b": 2}


def test_nested_dicts_keep_their_nesting_and_order():
    batch = {"z": {"b": (1, 2), "a": (3, None)}, "k": (1, 1)}
    result = totals_of(batch, batch)
    assert result == {"z": {"b": 0.5, "a": 6.0}, "k": 1.0}
    assert list(result) == ["z", "k"]
    assert list(result["z"]) == ["b", "a"]
    assert flat(result) == {"z/b": 0.5, "z/a": 6.0, "k": 1.0}


def test_a_value_around_a_pytree_gives_a_pytree():
    batch = {"c": Sum({"tp": 1, "fp": np.arange(2)}), "m": Mean({"x": 4, "y": 6}, 2)}
    result = totals_of(batch, batch)
    assert result["c"]["tp"] == 2.0
    np.testing.assert_array_equal(result["c"]["fp"], [0, 2])
    assert result["m"] == {"x": 2.0, "y": 3.0}


def test_a_mean_may_have_a_count_for_each_leaf():
    assert totals_of({"m": Mean({"x": 4, "y": 6}, {"x": 1, "y": 3})}) == {
        "m": {"x": 4.0, "y": 2.0}
    }


def test_a_traced_hook_may_return_metric_values():
    @jax.jit
    def hook(x):
        return as_metrics({"m": Mean(x.sum(), len(x)), "s": (x, None), "p": (x[0], 2)})

    result = totals_of(hook(jnp.arange(3.0)))
    assert result["m"] == 1.0
    assert result["p"] == 0.0
    np.testing.assert_array_equal(result["s"], [0, 1, 2])


@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16, np.int8, np.bool_])
def test_any_real_dtype_is_summed(dtype):
    assert totals_of(*[{"s": Sum(jnp.ones((), dtype))}] * 3) == {"s": 3.0}


def test_the_first_value_is_copied():
    buffer = np.ones(2)
    totals = Totals()
    totals.add({"s": Sum(buffer)})
    buffer[:] = 7
    totals.add({"s": Sum(buffer)})
    np.testing.assert_array_equal(totals.compute()["s"], [8, 8])


def test_reading_results_leaves_the_totals_alone():
    totals = Totals()
    totals.add({"s": Sum(np.ones(2))})
    totals.compute()["s"][:] = 9
    totals.add({"s": Sum(np.ones(2))})
    np.testing.assert_array_equal(totals.compute()["s"], [2, 2])


def test_metric_values_merge_on_their_own():
    assert Mean(20.0, 2).merge(Mean(9.0, 1)).compute() == 29 / 3
    assert Sum(3).merge(Sum(4)).compute() == 7.0


@pytest.mark.parametrize(
    "value",
    [0.5, 3, True, np.float32(1), jnp.ones(()), jnp.ones(3), None, [1, 2], (1, 2, 3)],
)
def test_a_bare_value_is_refused_by_name_with_the_fix(value):
    with pytest.raises(MetricError, match="`acc`") as caught:
        as_metric("acc", value, "hook `metrics`")
    assert "nitro.Mean(total, count)" in str(caught.value)
    assert "hook `metrics`" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 6


def test_a_nested_bare_value_is_refused_by_its_whole_name():
    with pytest.raises(MetricError, match="`head/acc`"):
        totals_of({"head": {"acc": 0.5}})


@pytest.mark.parametrize("bad", ["text", np.array(["a"]), 1j, jax.random.key(0)])
def test_a_value_that_is_not_a_real_number_is_refused(bad):
    with pytest.raises(MetricError, match=r"`m`.*real numbers"):
        as_metric("m", Sum(bad))


def test_a_count_unlike_its_total_is_refused():
    for count in ({"a": 1}, None):
        with pytest.raises(MetricError, match=r"`m`.*count"):
            as_metric("m", Mean({"x": 1, "y": 2}, count))


@pytest.mark.parametrize("bad", [0.5, [("a", 1)], None, Mean(1, 2)])
def test_metrics_that_are_not_a_dict_are_refused(bad):
    with pytest.raises(MetricError, match="not a dict"):
        as_metrics(bad)


def test_a_name_that_is_not_a_string_is_refused():
    with pytest.raises(MetricError, match="not a string"):
        as_metrics({1: (1, 2)})


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (Mean(1, 2), Sum(1), "Mean, then Sum"),
        (Sum(1), Mean(1, 2), "Sum, then Mean"),
        (Sum(np.ones(3)), Sum(np.ones(2)), r"shape \(3,\), then \(2,\)"),
        (Sum(np.ones(3)), Sum(1.0), "shape"),
        (Sum({"a": 1}), Sum({"b": 1}), "structure"),
        (Mean(1, 1), {"a": Mean(1, 1)}, "a dict in another"),
        ({"a": Mean(1, 1)}, Mean(1, 1), "a dict in another"),
    ],
)
def test_a_metric_that_changes_between_batches_is_refused_by_name(first, then, said):
    totals = Totals("hook `metrics`, split `val`")
    totals.add({"m": first})
    with pytest.raises(MetricError, match=f"`m` changes between batches: .*{said}"):
        totals.add({"m": then})


def test_a_refused_batch_adds_nothing():
    totals = Totals()
    totals.add({"a": (1, 1), "b": (1, 1)})
    with pytest.raises(MetricError):
        totals.add({"a": (5, 1), "b": (1, None)})
    assert totals.compute() == {"a": 1.0, "b": 1.0}


# ---- Max, Min, Concat


def test_max_and_min_are_elementwise_over_all_batches():
    values = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    parts = [values[:8], values[8:9], values[9:]]
    result = totals_of(
        *({"max": Max(p.max(0)), "min": Min({"x": p.min()})} for p in parts)
    )
    np.testing.assert_array_equal(result["max"], values.max(0))
    assert result["min"] == {"x": values.min()}


def test_the_largest_of_nan_is_nan():
    assert np.isnan(totals_of({"m": Max(1.0)}, {"m": Max(np.nan)}, {"m": Max(2)})["m"])


def test_a_concat_keeps_all_samples_in_order_with_their_dtypes():
    batches = [
        {"c": Concat({"label": np.arange(a, b), "score": jnp.arange(a, b) / 2})}
        for a, b in ((0, 4), (4, 5), (5, 9))
    ]
    found = totals_of(*batches)["c"]
    np.testing.assert_array_equal(found["label"], np.arange(9))
    assert found["label"].dtype == np.int64
    np.testing.assert_array_equal(found["score"], np.arange(9) / 2)
    assert found["score"].dtype == np.float32


def test_a_concat_of_bfloat16_comes_out_in_a_dtype_that_numpy_knows():
    found = totals_of({"c": Concat(jnp.ones(2, jnp.bfloat16))})["c"]
    assert found.dtype == np.float32


def test_a_concat_copies_what_a_hook_may_write_again():
    buffer = np.ones(2)
    totals = Totals()
    for number in (1, 2, 3):
        buffer[:] = number
        totals.add({"c": Concat(buffer)})
    assert totals.compute()["c"].tolist() == [1, 1, 2, 2, 3, 3]
    totals.add({"c": Concat(buffer[:1])})
    assert totals.compute()["c"].tolist() == [1, 1, 2, 2, 3, 3, 3]


@pytest.mark.parametrize(
    "value", [Concat(1.0), Concat(()), Concat(np.ones(3)), Concat((np.ones(2), 1.0))]
)
def test_a_concat_that_is_not_one_row_for_each_sample_is_refused_by_name(value):
    with pytest.raises(MetricError, match=r"`deep/c` is a Concat.*each of the 2") as e:
        Totals("metrics").add({"deep": {"c": value}}, rows=[2])
    assert "nitro.Concat(" in str(e.value)


def test_rows_of_another_shape_are_refused_by_name():
    totals = Totals("metrics")
    totals.add({"c": Concat(np.ones((4, 3)))})
    with pytest.raises(MetricError, match=r"`c` changes.*\(3,\).*\(2,\)"):
        totals.add({"c": Concat(np.ones((4, 2)))})


@pytest.mark.parametrize("left", [lambda c: c, lambda c: [c], lambda c: c[:2]])
def test_a_concat_left_unreduced_is_refused_by_name(left):
    totals = Totals()
    totals.add({"a": {"c": Concat(np.ones(3))}, "s": Sum(np.ones(3))})
    computed = totals.compute()
    with pytest.raises(MetricError, match="`a/c` is a Concat"):
        totals.finished({"a": {"c": left(computed["a"]["c"])}}, "here")
    final = {"c": computed["a"]["c"].mean(), "s": computed["s"]}
    assert totals.finished(final, "here") == final
