from __future__ import annotations

from nitro_repl._programs.report import ProgramRow, ProgramsTable, Reasons


def test_a_program_shows_what_its_last_lookup_gave_and_what_it_cost():
    row = ProgramRow("loss", "compiled", 0.03, 0.01, 1.2, 3, 77, "Digits")
    text = repr(ProgramsTable([row, ProgramRow("forward", "hit")], "2 programs"))
    [shown] = [line for line in text.splitlines() if "loss" in line]
    assert shown.split() == [
        *("loss", "Digits", "compiled"),
        *("30", "ms", "10", "ms", "1,200", "ms", "3", "1:17"),
    ]
    assert "2 programs" in text
    assert "no programs" in repr(ProgramsTable([]))


def test_reasons_are_a_sequence_of_sentences_shown_as_they_are():
    lines = ["loss: constant 0.1 -> 0.2 in focal(), In [7]", "forward: [red]<b>"]
    reasons = Reasons(lines)
    assert list(reasons) == lines
    assert reasons[-1] == lines[-1]
    assert len(reasons) == 2
    assert repr(reasons).splitlines() == lines
    assert "&lt;b&gt;" in reasons._repr_html_()
