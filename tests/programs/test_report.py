from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from nitro_repl._programs.report import ProgramRow, ProgramsTable, Reasons
from nitro_repl._programs.spec import Event


def test_a_program_shows_what_its_last_lookup_gave_and_what_it_cost():
    row = ProgramRow("loss", "compiled", 0.03, 0.01, 1.2, 3, "Digits")
    text = repr(ProgramsTable([row, ProgramRow("forward", "hit")], "2 programs"))
    [shown] = [line for line in text.splitlines() if "loss" in line]
    cost = ["30", "ms", "10", "ms", "1,200", "ms", "3"]
    assert shown.split() == ["loss", "Digits", "compiled", *cost]
    assert "2 programs" in text
    assert "no programs" in repr(ProgramsTable([]))


def test_lookups_add_up_per_experiment_and_program():
    events = [
        Event("loss", "compiled", trace_s=1.0, compile_s=2.0, experiment="A"),
        Event("loss", "compiled", trace_s=1.0, experiment="B"),
        Event("loss", "retraced", trace_s=0.5, experiment="A"),
    ]
    assert ProgramsTable.of(events).rows == (
        ProgramRow("loss", "retraced", 1.5, 0.0, 2.0, 2, "A"),
        ProgramRow("loss", "compiled", 1.0, 0.0, 0.0, 1, "B"),
    )


def test_what_was_only_evicted_has_no_row_and_an_eviction_is_no_lookup():
    events = [
        Event("loss", "compiled", experiment="A"),
        Event("loss", "evicted", experiment="A"),
        Event("step", "evicted", experiment="B"),
    ]
    [row] = ProgramsTable.of(events).rows
    assert (row.program, row.outcome, row.uses) == ("loss", "compiled", 1)


def drawn(rows, width):
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(ProgramsTable(rows))
    return console.file.getvalue().splitlines()


def busy(experiment):
    """The rows of an experiment with large numbers everywhere."""
    return [
        ProgramRow(name, "compiled", 1.234, 0.345, 12.456, 1234, experiment, 123 << 20,
                   time.time() - 600, ("digits-1129-194503-ab", "b"))
        for name in ("forward", "loss", "backward", "optimizer", "eval")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (80, "program experiment last trace compile memory uses in runs"),
        (100, "program experiment last trace compile memory age uses in runs"),
        (120, "program experiment last trace lower compile memory age uses in runs"),
    ],
)
def test_a_narrow_console_gets_fewer_columns_and_only_names_are_cut(width, titles):
    lines = drawn([*busy("Digits"), *busy("TransformerOnShakespeare")], width)
    assert " ".join(lines[1].split()) == titles
    assert max(map(len, lines)) <= width
    [shown] = {line.split("  compiled")[1].strip() for line in lines if "loss" in line}
    assert "1,234  digits-1" in shown
    assert "123.0 MB" in shown
    assert ("1,234 ms" in shown) == ("lower" in titles)
    assert ("tracing and lowering" in "".join(lines)) != ("lower" in titles)
    assert sum("Transformer…" in line for line in lines) == (5 if width <= 100 else 0)


def test_names_are_whole_where_there_is_room():
    lines = drawn([*busy("Digits"), *busy("TransformerOnShakespeare")], 140)
    assert sum("TransformerOnShakespeare" in line for line in lines) == 5
    assert "lower" in lines[1]
    assert "lower" in drawn(busy("Digits"), 100)[1]


def test_each_program_has_its_own_line_of_constants_and_sums_are_told_once():
    constants = tuple(f"{k}.5 (a_rather_long_name.py:{k})" for k in range(8))
    rows = [
        ProgramRow("loss", "hit", uses=2, constants=constants[:1]),
        ProgramRow("forward", "hit", uses=2),
        ProgramRow("eval", "hit", uses=2, constants=constants),
    ]
    lines = drawn(rows, 80)
    assert sum("sums over all versions" in line for line in lines) == 1
    assert "loss: 1 constant is an input: 0.5 (a_rather_long_name.py:0)" in lines
    [k] = [k for k, line in enumerate(lines) if line.startswith("eval: 8 constants")]
    rest = " ".join(" ".join(lines[k:]).split())
    assert rest.endswith("5.5 (a_rather_long_name.py:5) and 2 more")
    others = [ProgramRow("eval", "hit", experiment="B", constants=constants[:1])]
    assert any(line.startswith("B eval: 1 ") for line in drawn([*rows, *others], 80))


def test_reasons_are_a_sequence_of_sentences_shown_as_they_are():
    lines = ["loss: constant 0.1 -> 0.2 in focal(), In [7]", "forward: [red]<b>"]
    reasons = Reasons(lines)
    assert list(reasons) == lines
    assert reasons[-1] == lines[-1]
    assert len(reasons) == 2
    assert repr(reasons).splitlines() == lines
    assert "&lt;b&gt;" in reasons._repr_html_()
