from __future__ import annotations

import html.parser

import numpy as np
import pytest
from rich.table import Table

from nitro_repl._text import View, duration, one_line, plain, show

NASTY = "[red]<script>alert(1)</script>[/red] :smile: \x1b[31m {x} & 'q'"


class Shown(View):
    def __init__(self, value):
        self.value = value

    def __rich__(self):
        table = Table()
        table.add_column(plain("value"))
        table.add_row(plain(self.value, 200))
        table.add_row(show(self.value, 200))
        return table


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = set(), ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.tags |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text += data


def test_user_text_is_shown_literally_in_plain_text():
    text = repr(Shown(NASTY))
    assert "[red]<script>alert(1)</script>[/red] :smile: \\x1b[31m {x}" in text
    assert "\x1b" not in text


def test_html_is_a_fragment_without_live_markup():
    page = Shown(NASTY)._repr_html_()
    read = Tags()
    read.feed(page)
    assert read.tags <= {"pre", "span", "style"}
    assert "[red]<script>alert(1)</script>[/red]" in read.text


def test_a_view_offers_text_and_html_and_text_fits_the_width():
    bundle = Shown("x" * 500)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert max(map(len, bundle["text/plain"].splitlines())) <= 100


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1 / 3, "0.333333"),
        (np.float32(0.1), "0.1"),
        (np.zeros((3, 4), "float32"), "float32[3, 4]"),
        (np.array(2), "2"),
        ("it's", '"it\'s"'),
        ([1, 2], "[1, 2]"),
        (None, "None"),
    ],
)
def test_values_are_shown_as_the_user_writes_them(value, text):
    assert show(value) == text


def test_long_values_are_cut():
    assert len(show("x" * 10_000)) <= 60
    assert len(show(list(range(10_000)))) <= 60
    assert one_line("a\nb" * 500, 20).endswith("…")


def test_a_value_whose_repr_fails_is_still_shown():
    class Broken:
        def __repr__(self):
            raise ValueError("no")

    assert "Broken" in show(Broken())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2e-4, "200 us"),
        (0.012, "12 ms"),
        (3.21, "3.2 s"),
        (245, "4:05"),
        (3725, "1:02:05"),
    ],
)
def test_durations_have_the_unit_that_suits_them(seconds, text):
    assert duration(seconds) == text
