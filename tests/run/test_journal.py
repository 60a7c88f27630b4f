from __future__ import annotations

import datetime
import json

import numpy as np
import pytest

from nitro_repl._run.journal import Journal, read_lines


def test_an_entry_is_on_the_disk_at_once_with_time_step_and_who(tmp_path):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    entry = journal.record(
        "set", step=7, by="agent", before=0.05, after=np.float32(0.5), field="smoothing"
    )
    assert json.loads(path.read_text()) == entry == journal.entries[0]
    time = datetime.datetime.fromisoformat(entry.pop("time"))
    assert time.utcoffset() == datetime.timedelta(0)
    assert entry == {
        "step": 7,
        "command": "set",
        "by": "agent",
        "before": 0.05,
        "after": 0.5,
        "field": "smoothing",
    }


def test_without_a_path_entries_are_kept_in_memory():
    journal = Journal(None)
    journal.record("pause", step=1)
    journal.record("resume", step=1)
    journal.close()
    assert [entry["command"] for entry in journal.entries] == ["pause", "resume"]


def test_any_value_can_be_journaled(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.record("swap", step=0, before=float("nan"), after=np.zeros(1000), fn=len)
    (entry,) = read_lines(tmp_path / "journal.jsonl")
    assert entry["before"] == "NaN"
    assert entry["after"].startswith("float64[1000] sha256:")
    assert entry["fn"] == "len"


def test_a_journal_that_is_opened_again_goes_on(tmp_path):
    path = tmp_path / "journal.jsonl"
    Journal(path).record("pause", step=1)
    again = Journal(path)
    again.record("resume", step=1)
    assert [entry["command"] for entry in again.entries] == ["pause", "resume"]
    assert list(again.entries) == read_lines(path)


def test_a_disk_that_fails_is_warned_about_once_and_the_entries_are_kept(tmp_path):
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file" / "journal.jsonl")
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        journal.record("set", step=0)
    journal.record("set", step=1)
    journal.record("set", step=2)
    assert [entry["step"] for entry in journal.entries] == [0, 1, 2]


def test_what_was_handed_out_does_not_grow():
    journal = Journal()
    before = journal.entries
    journal.record("pause", step=1)
    assert before == ()
