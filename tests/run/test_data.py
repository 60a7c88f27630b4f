from __future__ import annotations

import numpy as np
import pytest

from nitro_repl._run.data import ArrayLoader, check_splits, first_batch
from nitro_repl.errors import DataError


def batches(n=3):
    return [{"x": np.full(2, i)} for i in range(n)]


class Stream:
    def __init__(self, n=3):
        self.n = n
        self.closed = 0

    def __len__(self):
        return self.n

    def __iter__(self):
        try:
            yield from batches(self.n)
        finally:
            self.closed += 1


def test_splits_of_any_re_iterable_pass():
    splits = {"train": Stream(), "val": batches(), "more": ArrayLoader({"x": [1]}, 1)}
    checked = check_splits(splits)
    assert checked == splits
    assert checked is not splits


def test_train_is_optional_and_no_split_at_all_is_allowed():
    assert check_splits({"test": batches()})
    assert check_splits({}) == {}


def test_checking_reads_no_batch():
    class Unread(Stream):
        def __iter__(self):
            raise AssertionError("read")

    check_splits({"train": Unread()})


def test_an_indexable_source_passes():
    class Source:
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return batches()[index]

    assert first_batch(check_splits({"train": Source()})["train"], "train")


@pytest.mark.parametrize("splits", [None, batches(), Stream(), (1, 2)])
def test_splits_that_are_not_a_dict_are_refused(splits):
    with pytest.raises(DataError, match="not a dict") as caught:
        check_splits(splits)
    assert "nitro.ArrayLoader" in str(caught.value)


@pytest.mark.parametrize(
    "one_shot", [iter(batches()), (b for b in batches()), map(dict, batches())]
)
def test_a_one_shot_iterator_is_refused_with_the_fix(one_shot):
    with pytest.raises(DataError, match="`train` is a one-shot") as caught:
        check_splits({"train": one_shot})
    assert "`__iter__` starts anew" in str(caught.value)


class WithoutLength:
    def __iter__(self):
        return iter(batches())


class TypeErrorLength(WithoutLength):
    def __len__(self):
        raise TypeError("object of type 'IterableDataset' has no len()")


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        ({"x": np.zeros(3)}, "not batches of them"),
        (np.zeros(3), "not batches of them"),
        ("train.npz", "cannot be iterated"),
        (None, "cannot be iterated"),
        (batches, "cannot be iterated"),
        ([], "is empty"),
        (WithoutLength(), r"no `len\(\)`"),
        (TypeErrorLength(), r"no `len\(\)`"),
    ],
)
def test_a_split_that_gives_no_batches_is_refused_by_name(loader, said):
    with pytest.raises(DataError, match=f"Split `val` .*{said}") as caught:
        check_splits({"train": batches(), "val": loader})
    assert len(str(caught.value).splitlines()) <= 6


def test_a_function_as_a_split_is_told_to_be_called():
    with pytest.raises(DataError, match="call it"):
        check_splits({"train": batches})


def test_a_split_not_named_by_a_string_is_refused():
    with pytest.raises(DataError, match="named by a string"):
        check_splits({0: batches()})


def test_the_first_batch_closes_the_iterator_it_came_from():
    stream = Stream()
    assert first_batch(stream, "train")["x"].tolist() == [0, 0]
    assert stream.closed == 1


def test_a_split_without_a_first_batch_is_refused():
    with pytest.raises(DataError, match="`val` gives no batch"):
        first_batch(Stream(0), "val")


def test_a_first_batch_that_is_not_a_dict_is_refused():
    with pytest.raises(DataError, match="`train` is a `tuple`, not a dict"):
        first_batch([(1, 2)], "train")
