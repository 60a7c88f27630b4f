from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest

from nitro_repl._run import rundir
from nitro_repl._run.rundir import RunDir
from nitro_repl.errors import RunError, SettingError


@pytest.fixture(autouse=True)
def new_process(monkeypatch):
    monkeypatch.setattr(rundir, "_issued", set())


def read(run):
    return json.loads((run.path / "run.json").read_text())


def begin(run, **extras):
    run.begin(fields={"width": 128}, settings={"max_epochs": 3}, seed=0, **extras)


def test_a_run_has_a_directory_with_a_readable_id(tmp_path):
    run = RunDir(tmp_path / "runs", "Digits")
    assert re.fullmatch(r"0001-\d{8}-\d{6}", run.id)
    assert run.path == tmp_path / "runs" / "Digits" / run.id
    assert run.path.is_dir()
    assert run.file("metrics.jsonl") == run.path / "metrics.jsonl"


def test_numbers_go_on_and_no_other_file_is_left(tmp_path):
    ids = [RunDir(tmp_path, "Digits").id for _ in range(3)]
    assert [run[:5] for run in ids] == ["0001-", "0002-", "0003-"]
    assert sorted(os.listdir(tmp_path / "Digits")) == ids


def test_a_deleted_run_in_the_middle_is_not_reused(tmp_path):
    runs = [RunDir(tmp_path, "Digits") for _ in range(3)]
    runs[1].path.rmdir()
    assert RunDir(tmp_path, "Digits").id.startswith("0004-")


def test_runs_of_a_process_never_share_an_id(tmp_path):
    names = ["A", "B", None, "A", None, "B"]
    runs = [RunDir(tmp_path if n else None, n or "Memory") for n in names]
    assert len({run.id for run in runs}) == len(runs)


def test_a_claim_left_by_a_killed_process_costs_its_number_only(tmp_path):
    (tmp_path / "Digits" / ".0001").mkdir(parents=True)
    assert RunDir(tmp_path, "Digits").id.startswith("0002-")
    assert RunDir(tmp_path, "Digits").id.startswith("0003-")


def test_threads_that_start_together_get_numbers_of_their_own(tmp_path):
    runs = []
    barrier = threading.Barrier(8)

    def start():
        barrier.wait()
        runs.append(RunDir(tmp_path, "Digits").id)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({run[:5] for run in runs}) == 8


def test_processes_that_start_together_get_numbers_of_their_own(tmp_path):
    code = (
        "import sys; from nitro_repl._run.rundir import RunDir; sys.stdin.read(1)\n"
        "for _ in range(10): RunDir(sys.argv[1], 'Digits')"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(2)]
    for process in started:
        process.communicate(b"x")
    assert [process.returncode for process in started] == [0, 0]
    numbers = [name[:5] for name in os.listdir(tmp_path / "Digits")]
    assert len(numbers) == len(set(numbers)) == 20


def test_a_name_that_is_no_file_name_is_made_one(tmp_path):
    run = RunDir(tmp_path, "f.<locals>.Digits/é")
    assert run.path.parent.parent == tmp_path
    assert run.record["experiment"] == "f.<locals>.Digits/é"


def test_run_json_tells_what_the_run_is(tmp_path):
    run = RunDir(tmp_path, "Digits")
    begin(run, programs={"variant": "split"})
    record = read(run)
    assert record["id"] == run.id
    assert record["experiment"] == "Digits"
    assert record["fields"] == {"width": 128}
    assert record["settings"] == {"max_epochs": 3}
    assert record["seed"] == 0
    assert record["programs"] == {"variant": "split"}
    assert record["versions"]["jax"] == jax.__version__
    assert {"python", "jax", "jaxlib", "flax", "optax"} <= record["versions"].keys()
    assert record["started"].endswith("+00:00")
    assert record["ended"] is record["outcome"] is None
    assert record == run.record


def test_an_update_changes_its_entries_only(tmp_path):
    run = RunDir(tmp_path, "Digits")
    begin(run)
    run.update(programs={"step": "fused"})
    run.finish("done", step=30)
    record = read(run)
    assert record["fields"] == {"width": 128}
    assert record["programs"] == {"step": "fused"}
    assert (record["outcome"], record["step"]) == ("done", 30)
    assert record["ended"] >= record["started"]
    assert os.listdir(run.path) == ["run.json"]


def test_values_without_a_plain_form_are_recorded_by_their_repr(tmp_path):
    run = RunDir(tmp_path, "Digits")
    run.update(fields={"fn": object(), "big": np.zeros(1000), "nan": float("nan")})
    fields = read(run)["fields"]
    assert fields["fn"] == "<object object>"
    assert fields["big"].startswith("float64[1000] sha256:")
    assert fields["nan"] == "NaN"


def test_no_reader_ever_sees_half_a_record(tmp_path):
    run = RunDir(tmp_path, "Digits")
    begin(run)
    over = threading.Event()
    failures = []

    def watch():
        while not over.is_set():
            try:
                read(run)
            except ValueError as error:
                failures.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    for n in range(50):
        run.update(note="x" * 1000 * n)
    over.set()
    thread.join()
    assert not failures


def test_without_a_root_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = RunDir(None, "Digits")
    begin(run)
    run.finish("done")
    assert run.path is None
    assert run.file("metrics.jsonl") is None
    assert re.fullmatch(r"\d{4}-\d{8}-\d{6}", run.id)
    assert run.record["outcome"] == "done"
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_refused_with_the_fix(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="cannot be made") as caught:
        RunDir(tmp_path / "file" / "runs", "Digits")
    assert "`run_dir`" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 6


def test_a_disk_that_fills_up_is_warned_about_once(tmp_path, monkeypatch):
    run = RunDir(tmp_path, "Digits")
    begin(run)

    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rundir.os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        run.update(a=1)
    run.update(b=2)
    assert run.record["b"] == 2
    assert "a" not in read(run)
    assert os.listdir(run.path) == ["run.json"]


def test_a_run_directory_deleted_by_the_user_does_not_stop_the_run(tmp_path):
    run = RunDir(tmp_path, "Digits")
    run.path.rmdir()
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        begin(run)
    run.finish("done")


def test_an_earlier_run_can_be_opened_and_gone_on_with(tmp_path):
    run = RunDir(tmp_path, "Digits")
    begin(run)
    again = RunDir.open(run.path)
    assert (again.id, again.path, again.record) == (run.id, run.path, run.record)
    again.finish("done")
    assert read(run)["fields"] == {"width": 128}
    assert read(run)["outcome"] == "done"


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", "3"])
def test_what_is_not_a_run_directory_is_refused(tmp_path, text):
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunError, match="not the directory of a run"):
        RunDir.open(tmp_path)
