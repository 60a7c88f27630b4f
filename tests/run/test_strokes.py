from __future__ import annotations

import numpy as np
import pytest

from nitro_repl._run.strokes import chart, is_log, limits, sparkline

X = np.arange(8.0)


@pytest.mark.parametrize(
    ("x", "y", "drawn"),
    [
        (X, X, "▁▂▃▄▅▆▇█"),
        (X, -X, "█▇▆▅▄▃▂▁"),
        (X, np.full(8, 3.0), "▁▁▁▁▁▁▁▁"),
        (X, 10.0**X, "▁▂▃▄▅▆▇█"),  # far apart: a log axis
        (X[[0, 7]], X[[0, 7]], "▁▂▃▄▅▆▇█"),  # a straight line between
        (X, np.where(X < 4, X, np.nan), "▁▂▃▄▅▆▇█"),
        (X, np.where(X == 3, np.inf, X), "▁▂▃▄▅▆▇█"),
        (X[:1], X[:1], "▁       "),
        (X, np.full(8, np.nan), "        "),
        (X[:0], X[:0], "        "),
    ],
)
def test_a_sparkline_goes_from_low_to_high(x, y, drawn):
    assert sparkline((x, y), 8) == drawn


def test_sparklines_of_one_span_stand_below_each_other():
    assert sparkline((X[4:], X[4:]), 8, span=(0, 7)) == "    ▁▃▆█"
    assert sparkline((X[:4], X[:4]), 8, span=(0, 7)) == "▁▃▆█    "


def test_noise_does_not_hide_the_trend():
    noise = np.where(np.arange(800) % 2, 1.0, -1.0)
    curve = np.arange(800.0), np.linspace(0, 0.1, 800) + noise
    assert sparkline(curve, 8) == "▁▂▃▄▅▆▇█"


def test_limits_leave_out_what_is_not_finite():
    wild = X, np.array([np.nan, 1, 2, np.inf, 3, 4, 5, -np.inf])
    assert limits([wild, (X[:0], X[:0])]) == (1, 6, 1, 5)
    assert limits([(X, np.full(8, np.nan))]) is None
    assert is_log(0.1, 10)
    assert not is_log(-0.1, 10)
    assert not is_log(1, 10)


def test_a_chart_is_as_large_as_asked_and_touches_its_corners():
    lines = chart([(X, X)], ["red"], 6, 3)
    assert [len(line) for line in lines] == [6, 6, 6]
    assert lines[2].plain[0] != " "
    assert lines[0].plain[5] != " "
    assert lines[0].plain[0] == " "
    assert lines[2].plain[5] == " "


def test_the_line_of_a_chart_has_no_gap():
    y = np.array([0.0, 100.0, 0.0, 50.0])
    lines = chart([(np.arange(4.0), y)], ["red"], 40, 5)
    columns = zip(*(line.plain for line in lines), strict=True)
    assert all(any(dot != " " for dot in column) for column in columns)


def test_each_curve_of_a_chart_has_its_style():
    lines = chart([(X, X), (X, -X)], ["red", "blue"], 10, 4)
    assert {str(span.style) for line in lines for span in line.spans} == {"red", "blue"}


def test_a_chart_of_nothing_is_blank():
    assert [t.plain for t in chart([(X, np.full(8, np.nan))], ["red"], 4, 2)] == [
        "    ",
        "    ",
    ]
