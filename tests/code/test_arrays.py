"""What arrays say in a digest, and which looks read them."""

from __future__ import annotations

import gc

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from code_sources import run

from nitro_repl._code import arrays, fingerprint, light_look
from nitro_repl._programs import jax_values

FLOATS = arrays.LARGE // 4 + 1000
UNSAMPLED = 1  # a light look reads the first element, and none near it


@pytest.fixture
def reads(monkeypatch):
    """The shapes of the arrays whose bytes were read, in order."""
    seen = []
    read = arrays._read

    def counted(array):
        seen.append(array.shape)
        return read(array)

    monkeypatch.setattr(arrays, "_read", counted)
    return seen


def large():
    return np.ones(FLOATS, np.float32)


def reader_of(**names):
    """A function that reads these globals."""
    body = ", ".join(names)
    function = run(f"def root(): return {body}")["root"]
    function.__globals__.update(names)
    return function


def digest(value):
    return fingerprint(value).digest


# ---- content


PAIRS = {
    "a number": (np.zeros((2, 3)), np.eye(2, 3)),
    "a dtype": (np.zeros(4, np.int32), np.zeros(4, np.float32)),
    "a shape": (np.zeros((2, 3)), np.zeros((3, 2))),
    "a small float type": (np.ones(9, ml_dtypes.bfloat16), np.zeros(9, "u2") + 0x3F80),
    "a text": (np.array(["a", "b"]), np.array(["a", "c"])),
    "an object": (np.array([1, None]), np.array([1, 2.0])),
    "a scalar": (np.float32(1), np.float32(2)),
    "no elements": (np.zeros((0, 3)), np.zeros((3, 0))),
    "a transposition": (np.arange(9.0).reshape(3, 3), np.arange(9.0).reshape(3, 3).T),
    "a mask": (
        np.ma.masked_array([1.0, 2.0], [False, True]),
        np.ma.masked_array([1.0, 2.0], [False, False]),
    ),
    "the end of a long one": (np.zeros(100_000), np.r_[np.zeros(99_999), 1.0]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_arrays_that_differ_have_other_digests(name):
    first, second = PAIRS[name]
    assert digest(first) == digest(first.copy())
    assert digest(first) != digest(second)


def test_the_order_in_memory_does_not_count():
    rows = np.arange(2e5).reshape(400, 500)
    assert digest(rows) == digest(np.asfortranarray(rows))
    assert digest(rows[::2, 1:]) == digest(rows[::2, 1:].copy())


def test_a_large_array_is_not_copied_to_be_read(monkeypatch):
    pieces = []
    given = arrays._pieces

    def noted(array):
        for piece in given(array):
            pieces.append(piece)
            yield piece

    monkeypatch.setattr(arrays, "_pieces", noted)
    rows = np.ones((1200, 10_000), np.float32)
    digest(rows)
    assert len(pieces) == 1
    assert np.shares_memory(pieces[0], rows)
    pieces.clear()
    digest(rows.T)
    assert len(pieces) > 1  # copied, but never the whole of it


# ---- full and light looks


def test_a_full_look_sees_one_element_change_in_place():
    table = large()
    root = reader_of(TABLE=table)
    before = digest(root)
    assert digest(root) == before
    table[UNSAMPLED] = 2
    assert digest(root) != before


def test_a_light_look_does_not_read_a_large_array(reads):
    small = np.zeros(3)
    root = reader_of(TABLE=large(), SMALL=small)
    full = digest(root)
    assert sorted(reads) == [(3,), (FLOATS,)]
    reads.clear()
    with light_look():
        assert digest(root) == full
    assert reads == [(3,)]
    digest(root)
    assert (FLOATS,) in reads


def test_a_light_look_reads_what_it_does_not_know(reads):
    root = reader_of(TABLE=large())
    with light_look():
        first = digest(root)
        assert digest(root) == first
        assert reads == [(FLOATS,)]
        root.__globals__["TABLE"] = large() * 2
        assert digest(root) != first
    assert reads == [(FLOATS,)] * 2


def test_a_light_look_sees_an_array_rewritten_in_place():
    table = large()
    root = reader_of(TABLE=table)
    before = digest(root)
    table *= 2
    with light_look():
        assert digest(root) != before


def test_a_light_look_sees_an_array_reshaped_in_place():
    table = large()
    root = reader_of(TABLE=table)
    before = digest(root)
    table.resize((FLOATS, 1), refcheck=False)
    with light_look():
        assert digest(root) != before


def test_a_full_look_corrects_what_a_light_look_takes(reads):
    table = large()
    root = reader_of(TABLE=table)
    before = digest(root)
    table[UNSAMPLED] = 2
    with light_look():
        assert digest(root) == before  # the limit that `light_look` tells of
    after = digest(root)
    assert after != before
    reads.clear()
    with light_look():
        assert digest(root) == after
    assert reads == []


def test_another_thread_goes_on_looking_fully(reads):
    from concurrent.futures import ThreadPoolExecutor

    root = reader_of(TABLE=large())
    digest(root)
    with ThreadPoolExecutor(1) as pool, light_look():
        pool.submit(digest, root).result()
    assert reads == [(FLOATS,)] * 2


def test_what_is_held_but_not_reached_is_not_read(reads):
    root = reader_of(SMALL=np.zeros(3))
    root.__globals__["TABLE"] = large()
    digest(root)
    assert reads == [(3,)]


def test_nothing_is_remembered_of_an_array_that_is_gone():
    root = reader_of(TABLE=large())
    known = set(arrays._memory)
    digest(root)
    mine = set(arrays._memory) - known
    assert len(mine) == 1
    del root.__globals__["TABLE"]
    gc.collect()
    assert not mine & set(arrays._memory)


# ---- jax arrays


def test_an_array_that_nothing_can_write_is_read_once(reads, monkeypatch):
    monkeypatch.setattr(
        jax_values, "_may_be_written", lambda value: False
    )  # as on a GPU
    root = reader_of(W=jnp.arange(5.0))
    known = set(arrays._memory)
    digests = {digest(root) for _ in range(5)}
    assert len(digests) == 1
    assert reads == [(5,)]
    root.__globals__["W"] = jnp.arange(5.0) + 1
    assert digest(root) not in digests
    del root.__globals__["W"]
    gc.collect()
    assert set(arrays._memory) <= known


def aligned(count):
    """Zeros that `jax.device_put` takes as they lie."""
    raw = np.zeros(4 * count + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + 4 * count].view(np.float32)


@pytest.mark.parametrize("count", [64, FLOATS])
def test_a_jax_array_on_memory_of_numpy_is_read_each_time(count):
    table = aligned(count)
    on_device = jax.device_put(table)
    root = reader_of(W=on_device)
    before = digest(root)
    table[UNSAMPLED] = 1
    shared = bool(on_device[UNSAMPLED] == 1)
    assert (digest(root) != before) == shared


def test_a_light_look_does_not_read_a_large_jax_array(reads):
    root = reader_of(W=jnp.ones(FLOATS))
    full = digest(root)
    with light_look():
        assert digest(root) == full
    assert reads == [(FLOATS,)]


# ---- what is told of them


def test_large_arrays_are_named_with_their_readers():
    source = """
def lookup(x): return x + TABLE[0] + SMALL[0] + NETS["a"][0][0]
def root(x): return lookup(x)
"""
    names = run(source, "<cell 3>")
    half = np.ones(FLOATS // 2 + 1000, np.float32)
    names.update(TABLE=large(), SMALL=np.ones(3), NETS={"a": [half], "b": half + 1})
    found = {array.name: array for array in fingerprint(names["root"]).arrays}
    assert set(found) == {"TABLE", "NETS"}
    table, nets = found["TABLE"], found["NETS"]
    assert table.nbytes == 4 * FLOATS
    assert table.text == f"float32[{FLOATS}]"
    assert table.reader == "lookup(), In [3]"
    assert table.via == ("root()",)
    assert (nets.count, nets.nbytes) == (2, 2 * half.nbytes)


def test_a_large_jax_array_is_named():
    (found,) = fingerprint(reader_of(W=jnp.ones((1000, 3000)))).arrays
    assert (found.name, found.text) == ("W", "float32[1000, 3000]")
