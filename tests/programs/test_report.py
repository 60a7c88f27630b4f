from __future__ import annotations

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


def test_reasons_are_a_sequence_of_sentences_shown_as_they_are():
    lines = ["loss: constant 0.1 -> 0.2 in focal(), In [7]", "forward: [red]<b>"]
    reasons = Reasons(lines)
    assert list(reasons) == lines
    assert reasons[-1] == lines[-1]
    assert len(reasons) == 2
    assert repr(reasons).splitlines() == lines
    assert "&lt;b&gt;" in reasons._repr_html_()
