from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import pytest

from nitro_repl._run.data import ArrayLoader
from nitro_repl.errors import DataError


def labels(loader, epoch=None):
    if epoch is not None:
        loader.set_epoch(epoch)
    return [batch["y"].tolist() for batch in loader]


def noise(batch, rng):
    batch["y"] = batch["y"] + rng.integers(0, 1000, len(batch["y"]))
    return batch


def numbers(n=10, **settings):
    return ArrayLoader({"x": np.zeros((n, 2)), "y": np.arange(n)}, **settings)


def test_batches_come_in_order_and_the_last_is_shorter():
    loader = numbers(batch_size=4)
    assert len(loader) == 3
    assert labels(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert next(iter(loader))["x"].shape == (4, 2)


def test_drop_last_leaves_the_short_batch_out():
    loader = numbers(batch_size=4, drop_last=True)
    assert len(loader) == 2
    assert labels(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_103_samples_in_batches_of_8_are_all_seen_once():
    seen = np.concatenate(labels(numbers(103, batch_size=8, shuffle=True)))
    assert sorted(seen) == list(range(103))


def test_the_order_is_a_function_of_seed_and_epoch():
    one, two = (numbers(batch_size=4, shuffle=True, seed=3) for _ in range(2))
    assert labels(one, 5) == labels(two, 5) == labels(one, 5)
    assert labels(one, 5) != labels(one, 6)
    assert labels(one, 5) != labels(numbers(batch_size=4, shuffle=True, seed=4), 5)


def test_without_set_epoch_each_pass_is_the_same():
    loader = numbers(batch_size=4, shuffle=True)
    assert labels(loader) == labels(loader)


def test_the_transform_draws_from_seed_epoch_and_index_only():
    def loader():
        return numbers(batch_size=4, seed=1, transform=noise)

    whole = labels(loader(), 2)
    iterator = iter(loader())
    iterator.set_state({"epoch": 2, "index": 2})
    assert [batch["y"].tolist() for batch in iterator] == whole[2:]
    assert labels(loader(), 3) != whole
    assert len({tuple(np.array(b)[:2] - [4 * i, 4 * i + 1])
                for i, b in enumerate(whole)}) == 3  # fmt: skip


def test_the_transform_does_not_share_the_stream_of_the_order():
    drawn = []

    def transform(batch, rng):
        drawn.append(rng.permutation(10))
        return batch

    loader = numbers(batch_size=10, shuffle=True, transform=transform)
    order = next(iter(loader))["y"]
    assert drawn[0].tolist() != order.tolist()


def test_a_transform_may_write_into_its_batch():
    arrays = {"y": np.arange(4)}

    def double(batch, rng):
        batch["y"] *= 2
        return batch

    loader = ArrayLoader(arrays, 2, transform=double)
    assert labels(loader) == labels(loader) == [[0, 2], [4, 6]]
    assert arrays["y"].tolist() == [0, 1, 2, 3]


def test_writing_into_a_batch_leaves_the_arrays_alone():
    arrays = {"y": np.arange(4)}
    for batch in ArrayLoader(arrays, 2):
        batch["y"][:] = 9
    assert arrays["y"].tolist() == [0, 1, 2, 3]


def test_two_iterators_do_not_move_each_other():
    loader = numbers(batch_size=4, shuffle=True)
    loader.set_epoch(1)
    first = iter(loader)
    next(first)
    loader.set_epoch(2)
    second = iter(loader)
    assert next(second)["y"].tolist() == labels(loader, 2)[0]
    assert next(first)["y"].tolist() == labels(loader, 1)[1]


def test_the_state_of_an_iterator_is_json_and_continues_exactly():
    loader = numbers(batch_size=4, shuffle=True, transform=noise)
    loader.set_epoch(7)
    iterator = iter(loader)
    next(iterator)
    state = json.loads(json.dumps(iterator.get_state()))
    rest = [batch["y"].tolist() for batch in iterator]
    other = iter(numbers(batch_size=4, shuffle=True, transform=noise))
    other.set_state(state)
    assert state == {"epoch": 7, "index": 1}
    assert [batch["y"].tolist() for batch in other] == rest


def test_a_batch_whose_transform_fails_is_not_lost():
    failures = [RuntimeError("disk")]

    def transform(batch, rng):
        if failures:
            raise failures.pop()
        return batch

    iterator = iter(numbers(batch_size=4, transform=transform))
    with pytest.raises(RuntimeError, match="disk"):
        next(iterator)
    assert next(iterator)["y"].tolist() == [0, 1, 2, 3]


def test_a_finished_iterator_stays_finished():
    iterator = iter(numbers(4, batch_size=4))
    assert len(list(iterator)) == 1
    assert list(iterator) == []


def test_lists_and_jax_arrays_are_taken_to_the_host():
    batch = next(iter(ArrayLoader({"x": [1, 2], "z": jnp.ones((2, 3))}, 2)))
    assert {name: type(array) for name, array in batch.items()} == {
        "x": np.ndarray,
        "z": np.ndarray,
    }


def test_the_repr_tells_fields_and_sizes():
    text = repr(numbers(batch_size=4, shuffle=True))
    assert text == (
        "ArrayLoader(10 samples in 3 batches of 4, shuffled: x float64[2], y int64[])"
    )


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.zeros(3), "y": np.zeros(2)}, "`x` 3, `y` 2"),
        ({}, "no arrays"),
        ({"x": np.zeros(0)}, "empty"),
        ([np.zeros(3)], "not a dict"),
        (np.zeros(3), "not a dict"),
        ({"x": np.array([1, "a"], object)}, "Python objects"),
        ({"x": [[1], [1, 2]]}, "`x` does not become an array"),
        ({"x": np.float32(1)}, "single value"),
        ({3: np.zeros(3)}, "not named by a string"),
    ],
)
def test_arrays_that_cannot_be_batched_are_refused(arrays, said):
    with pytest.raises(DataError, match=said):
        ArrayLoader(arrays, 2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": -1}, "batch_size=-1"),
        ({"batch_size": 2.5}, r"batch_size=2\.5"),
        ({"batch_size": None}, "batch_size=None"),
        ({"batch_size": 2, "seed": -1}, "seed=-1"),
        ({"batch_size": 11, "drop_last": True}, "no full batch"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, said):
    with pytest.raises(DataError, match=said):
        numbers(**settings)


@pytest.mark.parametrize(
    "state",
    [{"epoch": 0}, None, {"epoch": 0, "index": 4}, {"epoch": -1, "index": 0}, "x"],
)
def test_a_state_of_another_loader_is_refused(state):
    with pytest.raises(DataError, match=r"set_state|at least"):
        iter(numbers(batch_size=4)).set_state(state)


def test_a_transform_that_returns_nothing_is_refused():
    loader = numbers(batch_size=4, transform=lambda batch, rng: None)
    with pytest.raises(DataError, match="transform returned a `NoneType`"):
        next(iter(loader))
