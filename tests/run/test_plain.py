from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import json
import math
import pathlib

import flax.nnx as nnx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from nitro_repl._run.plain import plain


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: float
    y: np.ndarray


Pair = collections.namedtuple("Pair", ["left", "right"])


def cosine(step):
    return math.cos(step)


class Broken:
    def __repr__(self):
        raise RuntimeError("no repr")


class Opaque:
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (0.5, 0.5),
        ("text", "text"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (-float("inf"), "-Infinity"),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.float64("nan"), "NaN"),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("text"), "text"),
        (jnp.float32(0.5), 0.5),
        (jnp.bfloat16(0.5), 0.5),
        (jnp.arange(3), [0, 1, 2]),
        (np.array([[1.0, np.nan]]), [[1.0, "NaN"]]),
        (np.array([], np.float32), []),
        (np.array(["a"], object), ["a"]),
        (Color.RED, "RED"),
        (Level.HIGH, "HIGH"),
        (np.dtype("float32"), "float32"),
        (jnp.float32, "float32"),
        (jnp.bfloat16, "bfloat16"),
        (np.int32, "int32"),
        (int, "int"),
        (pathlib.Path("a") / "b", "a/b"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        ((1, [2, (3,)]), [1, [2, [3]]]),
        ({1: "a", Color.RED: "b", "c": {0.5}}, {"1": "a", "RED": "b", "c": [0.5]}),
        ({"b", "a"}, ["a", "b"]),
        (Point(1.0, np.zeros(1)), {"class": "Point", "x": 1.0, "y": [0.0]}),
        (Pair(1, 2), {"class": "Pair", "left": 1, "right": 2}),
        (cosine, f"{__name__}.cosine"),
        (Point, f"{__name__}.Point"),
        (1j, "1j"),
        (b"ab", "b'ab'"),
        (Broken(), "<Broken>"),
        (Opaque(), f"<{__name__}.Opaque object>"),
    ],
)
def test_a_value_has_this_plain_form(value, expected):
    assert plain(value) == expected
    assert type(plain(value)) is type(expected)
    json.dumps(plain(value), allow_nan=False)


def test_a_large_array_is_known_by_its_content():
    one, two = np.zeros((20, 20), np.float32), np.zeros((20, 20), np.float32)
    assert plain(one) == plain(two) == plain(jnp.asarray(one))
    assert plain(one).startswith("float32[20, 20] sha256:")
    two[3, 4] = 1
    assert plain(one) != plain(two)
    assert plain(np.zeros((400,), np.float32)) != plain(one)


def test_the_memory_layout_of_an_array_does_not_count():
    array = np.arange(100.0).reshape(10, 10)
    assert plain(np.asfortranarray(array)) == plain(array)


def test_a_key_is_told_by_its_data():
    assert plain(jax.random.key(3)) == [0, 3]


def test_a_model_is_known_by_the_content_of_its_arrays():
    def model(seed):
        return nnx.Sequential(nnx.Linear(3, 3, rngs=nnx.Rngs(seed)))

    assert plain(model(0)) == plain(model(0))
    assert plain(model(0)) != plain(model(1))
    assert plain(model(0)).startswith("Sequential of 2 arrays sha256:")


def test_a_model_with_random_state_has_a_plain_form():
    assert "arrays sha256:" in plain(nnx.Dropout(0.5, rngs=nnx.Rngs(0)))


def test_an_optimizer_state_has_a_plain_form():
    state = optax.adam(1e-3).init({"w": jnp.zeros(3)})
    json.dumps(plain(state), allow_nan=False)


def test_a_deleted_array_does_not_raise():
    array = jnp.ones(3)
    array.delete()
    assert isinstance(plain({"x": array})["x"], str)


def test_a_tracer_does_not_raise():
    seen = []
    jax.jit(lambda x: seen.append(plain(x)))(1.0)
    assert isinstance(seen[0], str)


def test_a_structure_that_holds_itself_does_not_raise():
    loop = []
    loop.append(loop)
    json.dumps(plain(loop))


def test_a_long_list_is_known_by_its_content():
    assert plain(list(range(5000))) == plain(list(range(5000)))
    assert plain(list(range(5000))).startswith("list of 5000 sha256:")
    assert plain(list(range(5000))) != plain(list(range(1, 5001)))


def test_a_data_set_is_named_by_its_size_and_not_read():
    assert plain(np.zeros(2_000_000, "uint8")) == "uint8[2000000] of 2,000,000 bytes"
    assert plain([0] * 200_000) == "list of 200000"


def test_a_long_repr_is_cut():
    class Long:
        def __repr__(self):
            return "x" * 10_000

    assert len(plain(Long())) < 1100


def test_a_broken_value_does_not_spoil_its_neighbours():
    class Lazy(dict):
        def items(self):
            raise RuntimeError("gone")

    assert plain({"a": 1, "b": Lazy()})["a"] == 1
