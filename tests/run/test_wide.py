"""Tables on a page of 100 columns: ids and numbers are whole or not there."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from nitro_repl._run.compare import compared
from nitro_repl._run.status import HistoryView, Progress, RunRow, RunsTable
from nitro_repl._run.wide import Column, Wide
from nitro_repl._text import WIDTH, View
from tests.run.test_compare import side

IDS = [f"000{i}-20261130-231012-ab{i}" for i in range(3)]
NUMBER = 0.0087123456


class Shown(View):
    def __init__(self, table):
        self.table = table

    def __rich__(self):
        return self.table


def column(name, cell):
    return Column(Text(name), [Text(cell)])


def fits(text):
    return max(map(len, text.splitlines())) <= WIDTH


def test_what_does_not_fit_goes_on_below_and_the_rest_is_named():
    key = column("run", "r-1")
    rest = [column(f"name_{i}", str(i) * 30) for i in range(12)]
    text = repr(Shown(Wide([key], rest, [key])))
    assert fits(text)
    assert text.count("r-1") == 3
    assert [str(i) * 30 in text for i in range(12)] == [True] * 6 + [False] * 6
    named = ", ".join(f"name_{i}" for i in range(6, 12))
    assert " ".join(text.split()).endswith(f"and 6 more columns: {named}")


def test_a_table_that_fits_is_one():
    key = column("run", "r-1")
    text = repr(Shown(Wide([key], [column("loss", "0.5")], [key])))
    assert text.count("r-1") == 1
    assert "more column" not in text


def test_a_comparison_cuts_no_id_and_no_number_and_shows_every_metric():
    late = [{}, {}, {"late": 3.0, "late_other_metric": 4.0}]
    last = {"loss": NUMBER, "val_loss": NUMBER, "grad_norm": 1.0, "val acc": 0.98765}
    sides = [
        side(
            name,
            fields={f"a_field_{k}": NUMBER * (i + k) for k in range(9)},
            last=last | late[i],
            curves={"val_loss": (np.arange(9.0), np.arange(9.0))},
        )
        for i, name in enumerate(IDS)
    ]
    text = repr(compared(sides))
    assert fits(text)
    assert "…" not in text
    assert all(name in text for name in (*IDS, "late", "late_other_metric", "val acc"))
    assert text.count("0.008712") >= 6
    assert all(f"a_field_{k}" in text for k in range(9))


def test_a_wide_history_has_whole_names_and_numbers():
    groups = ("encoder_first", "head")
    names = [f"{what}[{g}]" for what in ("learning_rate", "decay") for g in groups]
    names += ["loss", "grad_norm", "accuracy", "step_seconds"]
    columns = {name: np.full(30, NUMBER) for name in names}
    text = repr(HistoryView({"step": np.arange(30), "epoch": np.arange(30)} | columns))
    assert fits(text)
    assert all(name in text for name in names)
    assert text.count("0.00871235") == 10 * len(names)


def test_long_names_of_metrics_leave_the_list_of_runs_short():
    metrics = {"a_very_long_metric_name_of_mine": 0.125, "another_long_one" * 2: 0.5}
    now = Progress(12345, 100_000, 3, 10, loss=0.1234, phase="stepping")
    rows = [RunRow(name, "ClassifierOfDigits", now, metrics=metrics) for name in IDS]
    text = repr(RunsTable(rows))
    assert fits(text)
    assert len(text.splitlines()) < 20
    assert text.count("a_very_long_metric_name_of_mine=0.125") == 3
    assert all(text.count(name) == 2 for name in IDS)
