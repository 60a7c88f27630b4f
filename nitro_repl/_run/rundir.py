"""The directory of a run: its id, its place, and `run.json`.

An id is given out once, also to two processes that start together, and `run.json`
is at every moment one whole JSON object. Opening a directory executes nothing.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
import re
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from .._text import warn
from ..errors import RunError, SettingError
from .plain import Json, plain
from .provenance import git_state, versions

_ID = re.compile(r"(\d+)-")
# Runs without files are numbered by the process, and no two runs of a process share
# an id, whatever their experiments are called.
_issued: set[str] = set()
_issuing = threading.Lock()


class RunDir:
    """Where the files of one run are, and the record of what it was.

    Args:
        root: Folder of all runs, made if need be; None means that nothing is ever
            written.
        experiment: Name of the experiment's class.

    Raises:
        SettingError: The folder cannot be written.
    """

    id: str
    path: Path | None

    def __init__(self, root: str | os.PathLike[str] | None, experiment: str):
        self._lock = threading.Lock()
        self._warned = False
        if root is None:
            numbers = itertools.count(1)
            self.id, self.path = next(filter(None, map(_issue, numbers))), None
        else:
            self.path = _create(folder_of(root, experiment))
            self.id = self.path.name
        self._record: dict[str, Json] = {"id": self.id, "experiment": experiment}

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open the directory of an earlier run, to read it or to go on with it.

        Raises:
            RunError: It holds no readable `run.json`.
        """
        path = Path(path).absolute()
        try:
            record = json.loads((path / "run.json").read_bytes())
            identity = record["id"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{path} is not the directory of a run: {type(error).__name__}: "
                f"{error}",
                where="run.json",
                fix="name a folder like runs/<Experiment>/<run id>",
            ) from None
        opened = cls.__new__(cls)
        opened._lock, opened._warned = threading.Lock(), False
        opened.id, opened.path, opened._record = identity, path, record
        return opened

    @property
    def record(self) -> dict[str, Json]:
        """What `run.json` holds, or would hold."""
        with self._lock:
            return dict(self._record)

    def file(self, name: str) -> Path | None:
        """The path of a file of the run; None for a run without files."""
        return None if self.path is None else self.path / name

    def begin(
        self,
        *,
        fields: Mapping[str, Any],
        settings: Mapping[str, Any],
        seed: int,
        **extras: Any,
    ) -> None:
        """Write the record of a run that starts.

        Args:
            fields: Fields of the experiment by name.
            settings: Settings by name.
            seed: The seed in use.
            extras: Anything else, such as the program variants.
        """
        self.update(
            fields=fields,
            settings=settings,
            seed=seed,
            versions=versions(),
            git=git_state() if self.path else None,
            started=_now(),
            ended=None,
            outcome=None,
            **extras,
        )

    def update(self, **changes: Any) -> None:
        """Change entries of the record and write it anew; never raises."""
        made = {name: plain(value) for name, value in changes.items()}
        with self._lock:
            if made.items() <= self._record.items():
                return  # a swap seldom changes which programs there are
            self._record |= made
            if self.path is None:
                return
            try:
                _replace(self.path / "run.json", self._record)
            except OSError as error:
                if not self._warned:
                    self._warned = True
                    warn(
                        f"{self.path / 'run.json'} cannot be written ({error}); the "
                        "run goes on."
                    )

    def finish(self, outcome: str, **extras: Any) -> None:
        """Record how and when the run ended."""
        self.update(outcome=outcome, ended=_now(), **extras)


def folder_of(root: str | os.PathLike[str], experiment: str) -> Path:
    """Where the files of an experiment are, of all its runs."""
    return Path(root).absolute() / re.sub(r"[^\w.-]+", "_", experiment)


def _create(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = max(_numbers(folder), default=0) + 1
        while True:
            path = _claim(folder, number)
            if path is not None:
                return path
            number += 1
    except OSError as error:
        raise SettingError(
            f"The run directory cannot be made in {folder}: {error.strerror or error}.",
            where="setting `run_dir`",
            fix="pass `run_dir=` a folder that you can write, or None for no files",
        ) from error


def _claim(folder: Path, number: int) -> Path | None:
    """Make the directory of this number, or None if the number is taken.

    Ids end in the time, so two processes could both make their own directory of one
    number; the claim, an exclusive `mkdir`, lets one of them look and make.
    """
    claim = folder / f".{number:04d}"
    try:
        claim.mkdir()
    except FileExistsError:
        return None
    try:
        if number in _numbers(folder):
            return None
        identity = _issue(number)
        if identity is None:
            return None
        path = folder / identity
        path.mkdir()
        return path
    finally:
        claim.rmdir()


def _numbers(folder: Path) -> set[int]:
    matches = (_ID.match(name) for name in os.listdir(folder))
    return {int(match[1]) for match in matches if match}


def _issue(number: int) -> str | None:
    """The id of this number and second; None if this process has used it."""
    identity = f"{number:04d}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    with _issuing:
        if identity in _issued:
            return None
        _issued.add(identity)
    return identity


def _replace(path: Path, record: Mapping[str, Json]) -> None:
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    descriptor, temporary = tempfile.mkstemp(prefix=".run.json.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "backslashreplace") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
