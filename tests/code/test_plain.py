"""Containers of constants are read as one text; others value by value."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from nitro_repl._code import fingerprint, walk

MANY = walk.LIMIT + 1000


def digest(value):
    return fingerprint(value).digest


DISTINCT = [
    [1], [1.0], [True], ["1"], [b"1"], [None], [0.0], [-0.0], [[1]], [(1,)], (1,),
    {1: 2}, {1: 2, 2: 1}, {2: 1, 1: 2}, [{1: 2}], {}, [], (), [[]], [()], [1, 2],
    [2, 1], ["1, 2"], ["1", "2"], ["a"], [{"a"}], {"a"}, [1j],
]  # fmt: skip


@pytest.mark.parametrize("times", [1, 300])
def test_containers_that_differ_have_other_digests(times):
    values = [[value] * times for value in DISTINCT]
    assert len({digest(value) for value in values}) == len(DISTINCT)


def test_it_does_not_count_which_objects_are_shared():
    inner = [1, 2]
    assert digest([inner, inner]) == digest([[1, 2], [1, 2]])


def test_a_container_that_holds_itself_is_read():
    loop: list[Any] = [1]
    loop.append(loop)
    other: list[Any] = [2]
    other.append(other)
    assert digest(loop) != digest(other)


@pytest.mark.parametrize(
    "make", [lambda i: i, lambda i: (i, str(i)), lambda i: {"a": [i]}]
)
def test_a_long_list_of_constants_is_content(make):
    values = [make(i) for i in range(MANY)]
    found = fingerprint(values)
    assert found.unsound == ()
    assert digest(list(values)) == found.digest
    values[-2] = make(-1)
    assert digest(values) != found.digest


def test_very_many_instances_are_no_content():
    values = [object() for _ in range(MANY)]
    (reason,) = fingerprint(values).unsound
    assert str(walk.LIMIT) in reason
    assert fingerprint(values[:1000]).unsound == ()


def test_no_code_of_the_user_runs():
    class Loud(list):
        def __repr__(self):
            raise AssertionError("it was asked")

    assert digest([Loud([1])]) != digest([Loud([2])])


def test_a_list_that_is_inside_very_often_ends():
    wide = list(range(3000))
    assert digest([wide] * 3000) == digest([wide] * 3000)
    assert digest([wide] * 3000) != digest([wide] * 3001)


@pytest.mark.parametrize("kind", [str, bytes])
def test_a_long_string_counts_to_its_end(kind):
    texts = ["a" * 5000, "a" * 4999 + "b", "a" * 4999]
    values = texts if kind is str else [text.encode() for text in texts]
    assert len({digest(value) for value in values}) == 3
    for one, two in itertools.combinations(values, 2):
        assert digest([one]) != digest([two])


def test_a_number_too_long_to_write_counts():
    assert digest([10**5000]) != digest([10**5000 + 1])
