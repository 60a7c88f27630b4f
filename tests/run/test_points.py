from __future__ import annotations

import numpy as np
import pytest

from nitro_repl._run.points import Points


def rows(start, stop, rng=None):
    steps = np.arange(start, stop, dtype=float)
    loss = np.sin(steps) if rng is None else rng.normal(size=len(steps))
    return {"step": steps, "epoch": steps // 10, "loss": loss}


def test_below_the_limit_every_point_is_there():
    points = Points(limit=40)
    for start, stop in ((1, 2), (2, 9), (9, 10), (10, 40)):
        points.append(rows(start, stop))
    x, y = points.curves()["loss"]
    assert x.tolist() == list(range(1, 40))
    assert y.tolist() == np.sin(np.arange(1, 40.0)).tolist()
    assert list(points.curves()) == ["loss"]


@pytest.mark.parametrize("chunk", [1, 7, 64, 5000])
def test_above_it_lows_and_highs_stay_whatever_came_at_a_time(chunk):
    rng = np.random.default_rng(0)
    points, whole = Points(limit=40), rows(0, 5000, rng)
    for start in range(0, 5000, chunk):
        points.append({n: c[start : start + chunk] for n, c in whole.items()})
    x, y = points.curves()["loss"]
    assert len(x) == len(y) <= 40 + points.rows
    assert (np.diff(x) > 0).all()
    assert y.min() == whole["loss"].min()
    assert y.max() == whole["loss"].max()
    assert np.array_equal(whole["loss"][x.astype(int)], y), "only true points"
    assert x[-1] == 4999
    for begin in range(0, 5000 - points.rows, points.rows):  # of every group
        group = whole["loss"][begin : begin + points.rows]
        inside = (x >= begin) & (x < begin + points.rows)
        assert {group.min(), group.max()} <= set(y[inside])


def test_thinning_is_even_not_finer_at_the_end():
    points = Points(limit=400)
    for start in range(0, 100_000, 100):
        points.append(rows(start, start + 100))
    x, _ = points.curves()["loss"]
    first, last = (x < 50_000).sum(), (x >= 50_000).sum()
    assert 0.5 < first / last < 2


def test_columns_may_come_later_and_rows_may_lack_them():
    points = Points(limit=8)
    points.append(rows(0, 3))
    points.append({"step": np.array([3.0]), "acc": np.array([0.5])})
    points.append(rows(4, 20))
    curves = points.curves()
    assert np.nanmax(curves["acc"][1]) == 0.5
    assert np.isfinite(curves["acc"][1]).sum() == 1
    assert curves["acc"][0][np.isfinite(curves["acc"][1])].tolist() == [3.0]


def test_groups_of_nan_and_of_equal_values_stay_in_order():
    points = Points(limit=4)
    points.append({"step": np.arange(64.0), "loss": np.full(64, np.nan)})
    points.append({"step": np.arange(64.0, 128), "loss": np.ones(64)})
    x, y = points.curves()["loss"]
    assert (np.diff(x) > 0).all()
    assert np.nanmin(y) == np.nanmax(y) == 1
