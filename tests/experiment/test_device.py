from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import check_error

from nitro_repl import FieldError
from nitro_repl._experiment.device import place, plain, signature
from nitro_repl._experiment.fields import Field, Residency


def declared(kind, name="rate"):
    return Field(name, Residency.DEVICE, kind)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize(
    ("kind", "values", "dtype"),
    [
        (
            float,
            (1, 1.0, True, np.float64(1), np.int8(1), np.array(1), jnp.ones(())),
            "float32",
        ),
        (int, (1, 1.0, True, np.int64(1), np.float32(1), jnp.int8(1)), "int32"),
        (bool, (True, 1, np.bool_(True)), "bool"),
    ],
)  # fmt: skip
def test_a_number_is_weak_and_of_one_dtype_however_it_is_spelled(
    kind, values, dtype, x64
):
    with jax.enable_x64(x64):
        made = [place(value, declared(kind)) for value in values]
        half = jnp.ones((), jnp.bfloat16) * made[0]
    assert {value.dtype.name for value in made} == {dtype}
    assert {value.weak_type for value in made} == {kind is not bool}
    assert {value.item() for value in made} == {1}
    assert len({signature(value) for value in made}) == 1
    assert half.dtype == jnp.bfloat16


def test_in_compiled_code_a_number_acts_as_a_python_number():
    rate, count = place(0.5, declared(float)), place(3, declared(int))

    @jax.jit
    def dtypes(rate, count):
        half = jnp.ones(2, jnp.bfloat16)
        byte = jnp.ones(2, jnp.int8)
        return half * rate, half + count, byte * count, byte * rate

    found = [array.dtype.name for array in dtypes(rate, count)]
    half, byte = jnp.ones(2, jnp.bfloat16), jnp.ones(2, jnp.int8)
    python = (half * 0.5, half + 3, byte * 3, byte * 0.5)
    assert found == [array.dtype.name for array in python]
    strong = dtypes(jnp.float32(0.5), count)
    assert strong[0].dtype == jnp.float32, "a control: a strong scalar would widen"


def test_arrays_keep_their_dtype():
    for dtype in ("float32", "bfloat16", "int8", "bool", "float16"):
        value = np.ones(3, jnp.dtype(dtype))
        assert place(value, declared(jax.Array)).dtype.name == dtype
    assert place(np.ones(3), declared(jax.Array)).dtype == jnp.float32
    current = place(np.ones(3, jnp.bfloat16), declared(jax.Array))
    made = place(np.zeros(3), declared(jax.Array), current)
    assert (made.dtype, made.weak_type) == (jnp.bfloat16, False)
    assert place([1, 2, 3], declared(jax.Array), current).dtype == jnp.bfloat16


def test_a_tree_keeps_its_structure():
    current = place({"a": np.ones(2), "b": (1.0, 2)}, declared(dict))
    made = place({"a": [5, 6], "b": (3, 4)}, declared(dict), current)
    assert signature(made) == signature(current)
    with pytest.raises(FieldError) as error:
        place({"a": np.ones(2)}, declared(dict), current)
    check_error(error.value, "`rate`", "structure", "{'a': *, 'b': (*, *)}")


@pytest.mark.parametrize("value", ["1", None, [1.0], 1j, object(), np.ones(1), b"1"])
@pytest.mark.parametrize("kind", [float, int, bool])
def test_what_is_no_number_is_refused(kind, value):
    with pytest.raises(FieldError) as error:
        place(value, declared(kind))
    check_error(error.value, "`rate`", f"Device[{kind.__name__}]", "field rate")


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), 2**31, -(2**40)])
def test_what_is_no_whole_number_of_32_bits_is_refused(value):
    with pytest.raises(FieldError) as error:
        place(value, declared(int))
    check_error(error.value, "`rate`", str(value), "whole")


@pytest.mark.parametrize(
    "value", ["text", None, object(), [[1], [2, 3]], np.array(["a"]), {"a": "b"}]
)
def test_what_is_no_array_is_refused(value):
    current = place(np.ones(2), declared(jax.Array))
    with pytest.raises(FieldError) as error:
        place(value, declared(jax.Array), current)
    check_error(error.value, "`rate`", "field rate")


def test_the_array_of_the_user_is_not_shared():
    mine = np.ones(3, np.float32)
    placed = place(mine, declared(jax.Array))
    mine[...] = 7
    assert placed.tolist() == [1, 1, 1]


def test_plain_gives_what_people_wrote():
    assert plain(place(0.1, declared(float))) == 0.1
    assert plain(place(3, declared(int))) == 3
    assert plain(place(True, declared(bool))) is True
    found = plain(place({"a": np.ones(2)}, declared(dict)))
    assert found["a"].tolist() == [1, 1]
    found["a"][...] = 5


def test_it_goes_where_jax_is_told_to():
    device = jax.devices()[-1]
    with jax.default_device(device):
        assert place(1.0, declared(float)).devices() == {device}
    assert place(1.0, declared(float)).devices() == {jax.devices()[0]}
