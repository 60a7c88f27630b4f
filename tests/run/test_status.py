from __future__ import annotations

import numpy as np
import pytest

from nitro_repl._run.status import (
    HistoryView,
    ProgramState,
    Progress,
    RunRow,
    RunsTable,
    Status,
    ValueRow,
)


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (Progress(), "step 0  epoch 0  starting"),
        (
            Progress(1200, 4800, 3, 10, 0.21342, 412.3, 8.7, "stepping"),
            "step 1,200/4,800  epoch 3/10  loss 0.2134  412 steps/s  eta 8.7 s  "
            "stepping",
        ),
        (
            Progress(4800, 4800, 10, 10, 0.1, 3.14159, 0.0, "done"),
            "step 4,800/4,800  epoch 10/10  loss 0.1  3.1 steps/s  done",
        ),
        (
            Progress(phase="paused", note="swap:\ncompiling loss"),
            "step 0  epoch 0  paused  swap: compiling loss",
        ),
    ],
)
def test_progress_reads_as_one_line(progress, line):
    assert str(progress) == line


def test_status_shows_values_programs_metrics_and_the_error():
    status = Status(
        run="digits-1",
        experiment="Digits",
        progress=Progress(phase="failed"),
        values=[ValueRow("smoothing", 0.1, 0.05, changed=True)],
        programs=[ProgramState("loss", "compiled", stale=True)],
        metrics={"step": 20.0, "epoch": 1.0, "acc": 0.95123},
        error="HookError: it broke\n  where: Digits.loss",
    )
    text = repr(status)
    for part in (
        "Digits digits-1",
        "smoothing=0.1 (default 0.05)",
        "loss compiled stale",
        "acc=0.9512",
        "HookError: it broke",
        "  where: Digits.loss",
    ):
        assert part in text
    assert "step=" not in text


def test_status_survives_names_and_values_that_look_like_markup():
    status = Status(
        run="[bold]r[/bold]",
        experiment="</pre><script>",
        progress=Progress(phase="[red]"),
        values=[ValueRow("[blink]", "[/]")],
        metrics={"[b]": 1.0},
        error="[/red]",
    )
    for text in ("[bold]r[/bold]", "[blink]='[/]'", "[b]=1", "[/red]"):
        assert text in repr(status)
    assert "<script" not in status._repr_html_()
    assert status._repr_html_().count("</pre>") == 1


def test_the_current_run_is_marked():
    table = repr(
        RunsTable([RunRow("a", "A", Progress()), RunRow("b", "B", Progress(), True)])
    )
    [marked] = [line for line in table.splitlines() if "*" in line]
    assert " b " in marked
    assert "no runs yet" in repr(RunsTable([]))


def test_history_is_a_mapping_of_columns_that_shows_its_ends():
    history = HistoryView({"step": np.arange(1000), "loss": np.linspace(1, 0, 1000)})
    assert list(history) == ["step", "loss"]
    assert history["loss"][0] == 1.0
    lines = repr(history).splitlines()
    assert any("999" in line for line in lines)
    assert any("…" in line for line in lines)
    assert "train: 1,000 rows" in lines[-1]
    assert len(lines) < 20
    assert repr(HistoryView({}, "val")) == "val: 0 rows"
