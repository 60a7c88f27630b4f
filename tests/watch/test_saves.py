from __future__ import annotations

import os
import threading

import pytest

from nitro_repl._watch import saves as saves_module
from nitro_repl._watch.saves import Saves
from tests.cells import until


class Reactions:
    """Counts reactions; `next` waits for one more."""

    def __init__(self):
        self.count = 0
        self.threads = set()
        self._came = threading.Condition()

    def __call__(self):
        with self._came:
            self.count += 1
            self.threads.add(threading.current_thread().name)
            self._came.notify_all()

    def reaches(self, count, seconds=60):
        with self._came:
            return self._came.wait_for(lambda: self.count >= count, seconds)


@pytest.fixture
def reactions():
    return Reactions()


@pytest.fixture
def saves(reactions, monkeypatch):
    monkeypatch.setattr(saves_module, "_EMPTY_S", 3600.0)  # one reaction to a burst
    before = set(threading.enumerate())
    made = Saves(reactions)
    yield made
    made.close()
    until(lambda: set(threading.enumerate()) <= before)


def write(file, text):
    file.write_text(text)


def rename(file, text):
    temporary = file.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(file)


def recreate(file, text):
    file.unlink()
    file.write_text(text)


def move_in(file, text):
    elsewhere = file.parent.parent / "elsewhere"
    elsewhere.write_text(text)
    elsewhere.replace(file)


@pytest.mark.parametrize("save", [write, rename, recreate, move_in])
def test_a_save_is_one_reaction_every_time(saves, reactions, tmp_path, save):
    folder = tmp_path / "source"
    folder.mkdir()
    file = folder / "m.py"
    file.write_text("K = 0\n")
    saves.follow([str(file)])
    for k in range(1, 4):
        save(file, f"K = {k}\n")
        assert reactions.reaches(k)
        assert reactions.count == k
    assert reactions.threads == {"nitro-watch"}


def test_writes_in_one_burst_are_one_reaction(saves, reactions, tmp_path):
    file = tmp_path / "m.py"
    file.write_text("")
    saves.follow([str(file)])
    with file.open("w") as opened:  # nobody reacts while it is open
        for k in range(5):
            opened.write(f"K{k} = {k}\n")
            opened.flush()
    assert reactions.reaches(1)
    assert reactions.count == 1


def test_other_files_of_the_folder_are_none_of_ours(saves, reactions, tmp_path):
    file = tmp_path / "m.py"
    file.write_text("")
    saves.follow([str(file)])
    (tmp_path / "data.bin").write_text("x")
    file.read_text()
    write(file, "K = 1\n")  # control; it comes after the others
    assert reactions.reaches(1)
    assert reactions.count == 1


def test_an_emptied_file_is_looked_at_again(saves, reactions, tmp_path, monkeypatch):
    monkeypatch.setattr(saves_module, "_EMPTY_S", 0.2)
    file = tmp_path / "m.py"
    file.write_text("K = 1\n")
    saves.follow([str(file)])
    write(file, "")
    assert reactions.reaches(2)


def test_a_link_is_followed_to_where_it_leads(saves, reactions, tmp_path):
    real, folder = tmp_path / "real", tmp_path / "source"
    real.mkdir()
    folder.mkdir()
    (real / "theirs.py").write_text("K = 1\n")
    (folder / "m.py").symlink_to(real / "theirs.py")
    saves.follow([str(folder / "m.py")])
    write(real / "theirs.py", "K = 2\n")
    assert reactions.reaches(1)


def test_a_folder_that_was_made_anew_is_watched_again(saves, reactions, tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    file = folder / "m.py"
    file.write_text("K = 1\n")
    saves.follow([str(file)])
    os.rename(folder, tmp_path / "old")
    folder.mkdir()
    file.write_text("K = 2\n")
    saves.follow([str(file)])
    before = reactions.count
    write(file, "K = 3\n")
    assert reactions.reaches(before + 1)


def test_what_is_followed_no_more_is_not_watched(saves, reactions, tmp_path):
    first, second = tmp_path / "one" / "a.py", tmp_path / "two" / "b.py"
    for file in (first, second):
        file.parent.mkdir()
        file.write_text("")
    saves.follow([str(first), str(second)])
    saves.follow([str(second)])
    write(first, "K = 1\n")
    write(second, "K = 1\n")
    assert reactions.reaches(1)
    assert reactions.count == 1


def test_folders_that_cannot_be_watched_are_told_once(
    saves, reactions, tmp_path, monkeypatch, capsys
):
    from watchdog.observers import Observer

    def schedule(self, handler, path):
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(Observer, "schedule", schedule)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("")
        saves.follow([str(tmp_path / name)])
    said = capsys.readouterr().err
    assert said.count("cannot be watched") == 1
    assert "inotify watch limit reached" in said
    assert "after each cell" in said
    assert not [t for t in threading.enumerate() if t.name == "nitro-observer"]
    saves.ask(0.0)  # what does not need the folders goes on
    assert reactions.reaches(1)


def test_a_network_folder_is_told_once(saves, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(saves_module, "network_type", lambda folder: "nfs4")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        file = tmp_path / name / "m.py"
        file.write_text("")
        saves.follow([str(file)])
    assert capsys.readouterr().out.count("is on nfs4") == 1


def test_after_close_nothing_reacts(saves, reactions, tmp_path):
    file = tmp_path / "m.py"
    file.write_text("")
    saves.follow([str(file)])
    saves.close()
    write(file, "K = 1\n")
    saves.ask(0.0)
    assert reactions.count == 0
    assert not [t for t in threading.enumerate() if t.name.startswith("nitro")]
