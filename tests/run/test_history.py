from __future__ import annotations

import threading

import numpy as np
import pytest

from nitro_repl._run.history import History


def table(columns):
    return {name: column.tolist() for name, column in columns.items()}


def filled(n):
    history = History()
    for step in range(n):
        history.append("train", {"step": step, "loss": step / 2})
    return history


@pytest.mark.parametrize("n", [1, 255, 256, 257, 2000])
def test_rows_come_out_as_columns_of_float64(n):
    history = filled(n)
    columns = history.columns("train")
    assert list(columns) == ["step", "loss"]
    assert columns["loss"].dtype == np.float64
    np.testing.assert_array_equal(columns["step"], np.arange(n))
    np.testing.assert_array_equal(columns["loss"], np.arange(n) / 2)
    assert history.count("train") == n


@pytest.mark.parametrize("n", [1, 300])
def test_a_column_that_appears_late_or_is_missing_is_filled_with_nan(n):
    history = filled(n)
    history.append("train", {"step": n, "lr": 0.5})
    columns = history.columns("train")
    assert list(columns) == ["step", "loss", "lr"]
    assert np.isnan(columns["lr"][:n]).all()
    assert columns["lr"][n] == 0.5
    assert np.isnan(columns["loss"][n])
    history.append("train", {"step": n + 1})
    assert np.isnan(history.columns("train")["lr"][n + 1])


def test_splits_are_tables_of_their_own():
    history = filled(3)
    history.append("val", {"step": 2, "val_loss": 1.0})
    assert history.splits() == ("train", "val")
    assert table(history.columns("val")) == {"step": [2], "val_loss": [1]}


def test_a_split_without_rows_is_empty():
    history = History()
    assert history.columns("val") == {}
    assert history.rows("val") == []
    assert history.last("val") == {}
    assert history.count("val") == 0
    assert history.splits() == ()


def test_columns_are_copies():
    history = filled(3)
    history.columns("train")["loss"][:] = 9
    assert history.columns("train")["loss"].tolist() == [0, 0.5, 1]


def test_a_row_may_be_reused_by_the_caller():
    history, row = History(), {"step": 0.0}
    history.append("train", row)
    row["step"] = 5.0
    assert history.last("train") == {"step": 0.0}


def test_rows_and_the_last_row_have_every_column():
    history = filled(2)
    history.append("train", {"step": 2, "lr": 1.0})
    assert history.rows("train", since=1)[0]["loss"] == 0.5
    assert [row["step"] for row in history.rows("train")] == [0, 1, 2]
    last = history.last("train")
    assert (last["step"], last["lr"]) == (2, 1)
    assert np.isnan(last["loss"])


def test_only_new_rows_can_be_asked_for():
    history = filled(300)
    assert history.columns("train", since=298)["step"].tolist() == [298, 299]
    assert history.columns("train", since=300)["step"].tolist() == []


def test_numpy_and_jax_scalars_are_values_too():
    history = History()
    history.append("train", {"step": np.int64(3), "loss": np.float32(0.5)})
    assert history.last("train") == {"step": 3.0, "loss": 0.5}


def test_infinite_and_nan_losses_are_kept():
    history = History()
    history.append("train", {"step": 0, "loss": float("inf")})
    assert history.last("train")["loss"] == np.inf


def test_threads_may_append_and_read_together():
    history = History()
    seen = []

    def write(split):
        for step in range(2000):
            history.append(split, {"step": step, "loss": step})

    def read():
        for _ in range(50):
            for split in history.splits():
                columns = history.columns(split)
                seen.append(np.array_equal(columns["step"], columns["loss"]))

    threads = [threading.Thread(target=write, args=(s,)) for s in ("a", "b")]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(seen)
    for split in ("a", "b"):
        assert history.columns(split)["step"].tolist() == list(range(2000))
