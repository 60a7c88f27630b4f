from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nitro_repl._run.data import (
    batch_arrays,
    batch_rows,
    pad_batch,
    private_arrays,
    slice_outputs,
)
from nitro_repl.errors import DataError


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.zeros(2), "float32"),
        (np.zeros(2, np.int64), "int32"),
        (np.zeros(2, np.uint64), "uint32"),
        (np.zeros(2, np.complex128), "complex64"),
        (np.zeros(2, np.float16), "float16"),
        (np.zeros(2, np.uint8), "uint8"),
        (np.zeros(2, np.bool_), "bool"),
        (np.zeros(2, ">i4"), "int32"),
        (np.zeros(2, ">f8"), "float32"),
        (np.zeros(2, jnp.bfloat16), "bfloat16"),
        ([0.5, 1.5], "float32"),
        ([1, 2], "int32"),
        (3, "int32"),
        (0.5, "float32"),
        (True, "bool"),
    ],
)
def test_a_field_becomes_an_array_of_the_dtype_that_jax_keeps(value, dtype):
    array = batch_arrays({"x": value}, "train")["x"]
    assert isinstance(array, np.ndarray)
    assert array.dtype == np.dtype(dtype)
    assert array.dtype.isnative
    assert (
        jnp.asarray(array).aval == jnp.asarray(np.asarray(value).tolist(), dtype).aval
    )


def test_values_survive_a_change_of_byte_order_and_width():
    given = np.array([1, -2, 3], ">i8")
    assert batch_arrays({"x": given}, "train")["x"].tolist() == [1, -2, 3]


def test_with_x64_the_wide_dtypes_stay():
    with jax.enable_x64(True):
        assert batch_arrays({"x": np.zeros(2)}, "train")["x"].dtype == np.float64


def test_a_jax_array_is_left_as_it_is():
    array, key = jnp.ones(2), jax.random.key(0)
    arrays = batch_arrays({"x": array, "key": key}, "train")
    assert arrays["x"] is array
    assert arrays["key"] is key


def test_anything_with_an_array_form_is_taken():
    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return np.ones(3, np.float32)

    assert batch_arrays({"x": Tensor()}, "train")["x"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "value",
    [
        ["cat", "dog"],
        "cat",
        np.array(["cat"], object),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.zeros(2, [("a", "i4")]),
        None,
        [[1, 2], [3]],
        [jax, jax],
    ],
)
def test_a_field_that_is_not_numbers_is_refused_with_split_and_field(value):
    with pytest.raises(DataError, match="`name`") as caught:
        batch_arrays({"name": value}, "val")
    assert "split `val`, field `name`" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 6


def test_a_nested_dict_is_refused():
    with pytest.raises(DataError, match="`x` is a dict"):
        batch_arrays({"x": {"a": np.zeros(2)}}, "train")


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_an_integer_that_32_bits_cannot_hold_is_refused_not_wrapped(value):
    with pytest.raises(DataError, match=f"{value} does not fit int32"):
        batch_arrays({"id": np.array([0, value])}, "train")


def test_the_largest_integers_of_32_bits_pass():
    given = np.array([2**31 - 1, -(2**31)])
    assert batch_arrays({"id": given}, "train")["id"].tolist() == given.tolist()


def test_a_field_that_nobody_wants_may_hold_anything():
    batch = {"x": [1.0], "path": ["a.png"], "meta": {"id": 3}}
    assert list(batch_arrays(batch, "train", names={"x", "y"})) == ["x"]


def test_an_empty_field_passes():
    assert batch_arrays({"x": np.zeros((0, 3), np.int64)}, "train")["x"].shape == (0, 3)


@pytest.mark.parametrize("batch", [(1, 2), np.zeros(3), None, [np.zeros(3)]])
def test_a_batch_that_is_not_a_dict_is_refused(batch):
    with pytest.raises(DataError, match="not a dict"):
        batch_arrays(batch, "train")


def test_a_field_not_named_by_a_string_is_refused():
    with pytest.raises(DataError, match="named by a string"):
        batch_arrays({0: np.zeros(2)}, "train")


def test_the_rows_of_a_batch_are_its_common_first_axis():
    assert batch_rows({"x": np.zeros((3, 2)), "y": jnp.zeros(3), "t": 0.5}, "s") == 3


def test_fields_of_different_lengths_are_refused_by_name_and_number():
    with pytest.raises(DataError, match="`x` 3, `y` 2"):
        batch_rows({"x": np.zeros(3), "y": np.zeros(2)}, "train")


def test_a_batch_without_a_first_axis_is_refused():
    with pytest.raises(DataError, match="first axis"):
        batch_rows({"x": np.float32(1)}, "train")


@pytest.mark.parametrize("dtype", ["float32", "bool", jnp.bfloat16])
def test_a_large_private_copy_lies_where_a_cpu_program_reads_it_in_place(dtype):
    array = (np.arange(3 * 2**16).reshape(3, -1) % 7).astype(dtype)
    for given in (array, array.T, array[:, ::2]):
        copy = private_arrays({"x": given}, "train", ["x"])["x"]
        assert copy.ctypes.data % 64 == 0
        assert copy.flags.c_contiguous
        assert copy.dtype == given.dtype
        np.testing.assert_array_equal(copy, given)


def test_a_private_copy_does_not_see_the_buffer_refilled():
    buffer, device = np.ones(3), jnp.ones(3)
    copy = private_arrays({"x": buffer, "d": device}, "train", ["x", "d"])
    buffer[:] = 7
    assert copy["x"].tolist() == [1, 1, 1]
    assert copy["d"] is device


def test_padding_repeats_the_last_row():
    arrays = {"x": np.arange(6).reshape(3, 2), "y": jnp.arange(3), "t": np.float32(2)}
    padded, n = pad_batch(arrays, 5)
    assert n == 3
    assert padded["x"].tolist() == [[0, 1], [2, 3], [4, 5], [4, 5], [4, 5]]
    assert padded["y"].tolist() == [0, 1, 2, 2, 2]
    assert padded["y"].dtype == arrays["y"].dtype
    assert padded["t"] == 2


@pytest.mark.parametrize("rows", [2, 3])
def test_a_full_batch_is_not_padded(rows):
    x = np.arange(3)
    padded, n = pad_batch({"x": x}, rows)
    assert n == 3
    assert padded["x"] is x


def test_an_empty_batch_cannot_be_padded():
    with pytest.raises(DataError, match="empty"):
        pad_batch({"x": np.zeros((0, 2))}, 4, "val")


def test_outputs_are_cut_back_to_the_real_rows():
    tree = {"a": np.arange(8).reshape(4, 2), "b": (np.arange(4),)}
    cut = slice_outputs(tree, 3, 4, "`forward`")
    assert cut["a"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert cut["b"][0].tolist() == [0, 1, 2]


def test_unpadded_outputs_pass_whatever_their_shape():
    tree = {"a": np.float32(1)}
    assert slice_outputs(tree, 4, 4, "`forward`") is tree


@pytest.mark.parametrize("leaf", [np.float32(1), np.zeros((2, 4)), np.zeros(0)])
def test_an_output_that_is_not_batch_first_is_refused_with_its_path(leaf):
    tree = {"ok": np.zeros(4), "aux": [leaf]}
    with pytest.raises(DataError, match=r"\['aux'\]\[0\]") as caught:
        slice_outputs(tree, 3, 4, "`forward`, split `val`")
    assert "pad_eval=False" in str(caught.value)
    assert str(np.shape(leaf)) in str(caught.value)


def test_a_single_output_is_refused_without_a_path():
    with pytest.raises(DataError, match=r"Output has shape \(\)"):
        slice_outputs(np.float32(1), 3, 4, "`forward`")
