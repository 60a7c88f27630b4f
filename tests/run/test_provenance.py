from __future__ import annotations

import subprocess

import pytest

from nitro_repl._run import provenance
from nitro_repl._run.provenance import git_state, versions


def git(folder, *arguments):
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True)


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("1\n")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "-q", "-m", "a")
    return tmp_path


def test_versions_name_what_decides_the_numbers():
    assert {"python", "jax", "jaxlib", "flax", "optax", "numpy"} <= versions().keys()


def test_the_commit_and_its_cleanness_are_told(repository):
    state = git_state(repository)
    assert len(state["commit"]) == 40
    assert state["dirty"] is False
    (repository / "new.txt").write_text("untracked")
    assert git_state(repository)["dirty"] is False
    (repository / "a.py").write_text("2\n")
    assert git_state(repository) == {"commit": state["commit"], "dirty": True}


def test_without_a_repository_or_a_commit_there_is_no_state(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert git_state(tmp_path) is None


def test_without_git_there_is_no_state(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert git_state(repository) is None


def test_a_git_that_hangs_is_not_waited_for(repository, monkeypatch):
    def hang(command, **settings):
        assert settings["timeout"] <= provenance._PATIENCE
        raise subprocess.TimeoutExpired(command, settings["timeout"])

    monkeypatch.setattr(provenance.subprocess, "run", hang)
    assert git_state(repository) is None


def test_a_folder_that_is_gone_has_no_state(tmp_path):
    assert git_state(tmp_path / "gone") is None
