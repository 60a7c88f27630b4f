from __future__ import annotations

import json
import os
import shutil
import threading

import pytest

from nitro_repl._run.lines import LineFile, read_lines


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "lines.jsonl"


def test_each_line_is_on_the_disk_at_once(path):
    lines = LineFile(path)
    lines.write({"a": 1})
    assert path.read_text() == '{"a": 1}\n'
    lines.write({"b": "ü"})
    assert read_lines(path) == [{"a": 1}, {"b": "ü"}]


def test_nothing_is_made_before_the_first_line(path):
    LineFile(path).close()
    assert not path.parent.exists()


def test_lines_wait_for_the_clock_for_a_flush_or_for_the_end(path):
    clock = Clock()
    lines = LineFile(path, every=1.0, clock=clock)
    lines.write({"n": 1})
    assert read_lines(path) == []
    clock.now = 1.0
    lines.write({"n": 2})
    assert len(read_lines(path)) == 2
    lines.write({"n": 3})
    assert len(read_lines(path)) == 2
    lines.flush()
    assert len(read_lines(path)) == 3
    lines.write({"n": 4})
    lines.close()
    assert [line["n"] for line in read_lines(path)] == [1, 2, 3, 4]


def test_an_existing_file_is_appended_to(path):
    for n in range(2):
        lines = LineFile(path)
        lines.write({"n": n})
        lines.close()
    assert read_lines(path) == [{"n": 0}, {"n": 1}]


def test_a_line_cut_short_by_a_kill_spoils_no_other(path):
    path.parent.mkdir()
    path.write_text('{"n": 0}\n{"n": 1')
    LineFile(path).write({"n": 2})
    assert read_lines(path) == [{"n": 0}, {"n": 2}]


def test_a_missing_file_has_no_lines(path):
    assert read_lines(path) == []


def test_lone_surrogates_are_written_as_escapes(path):
    LineFile(path).write({"name": "\udc80"})
    assert read_lines(path) == [{"name": "\udc80"}]


def test_writing_after_the_end_does_nothing(path):
    lines = LineFile(path)
    lines.write({"n": 0})
    lines.close()
    lines.write({"n": 1})
    lines.flush()
    lines.close()
    assert read_lines(path) == [{"n": 0}]


def test_a_full_disk_is_warned_about_once_and_never_raises(path):
    lines = LineFile(path)
    lines.write({"n": 0})
    path.rename(path.parent / "kept")
    path.symlink_to("/dev/full")
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        lines.write({"n": 1})
    lines.write({"n": 2})
    lines.close()
    assert read_lines(path.parent / "kept") == [{"n": 0}]


def test_a_folder_deleted_by_the_user_is_not_made_again(path):
    lines = LineFile(path)
    lines.write({"n": 0})
    shutil.rmtree(path.parent)
    with pytest.warns(RuntimeWarning, match="No such file"):
        lines.write({"n": 1})
    assert not path.parent.exists()


def test_a_place_that_cannot_be_made_is_warned_about(tmp_path):
    (tmp_path / "file").write_text("")
    lines = LineFile(tmp_path / "file" / "lines.jsonl")
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        lines.write({"n": 0})
    lines.write({"n": 1})


def test_threads_and_processes_may_write_together(path):
    def write(name):
        lines = LineFile(path)
        for n in range(100):
            lines.write({"name": name, "n": n})
        lines.close()

    path.parent.mkdir()
    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_lines(path)) == 400
    for line in path.read_bytes().splitlines():
        json.loads(line)
    assert path.read_bytes().endswith(os.linesep.encode())
