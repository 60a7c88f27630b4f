"""A folder of JAX's persistent cache: made, kept small, rid of what cannot be read.

JAX evicts by size, never replaces an entry, and looks at each whenever it writes: what
is damaged and what is too many would cost every compile to come.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import filelock

ENTRIES = 1000  # a write takes JAX some hundredths of a second with that many

_ENTRY, _USED = "-cache", "-atime"  # JAX's two files for one program
_LOCK = ".lockfile"  # and its lock of the folder
_LOCK_S = 1.0
_CLOCK_SLACK_NS = 10**10  # the clock of a file server is not ours


def prepare(path: str) -> None:
    """Make a folder if need be, and tidy it.

    Raises:
        OSError: It cannot be made or written to.
    """
    # Who can write here can run code in the next kernel: the user alone.
    Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path):
        pass
    with _locked(path) as held:
        if held:
            _tidy(Path(path))


def drop_unreadable(path: str, since: int) -> None:
    """Remove the damaged entries among those that JAX has tried.

    Args:
        path: The folder.
        since: The earliest try, in nanoseconds since the epoch.
    """
    with _locked(path) as held:
        for used in os.scandir(path) if held else ():
            if not used.name.endswith(_USED):
                continue
            if used.stat().st_mtime_ns < since - _CLOCK_SLACK_NS:
                continue
            if not _is_readable(_entry(Path(used.path))):
                _drop(Path(used.path))


def _tidy(folder: Path) -> None:
    """Remove what was used least recently, and entries whose writer died."""
    used = {path: path.stat().st_mtime_ns for path in folder.glob(f"*{_USED}")}
    entries = set(folder.glob(f"*{_ENTRY}"))
    whole = [path for path in used if _entry(path) in entries]
    kept = set(sorted(whole, key=lambda path: used[path])[-ENTRIES:])
    for path in used.keys() - kept:
        _drop(path)
    for entry in entries - {_entry(path) for path in used}:
        entry.unlink(missing_ok=True)  # one without the other stops older JAX writing


def _entry(used: Path) -> Path:
    return used.with_name(used.name.removesuffix(_USED) + _ENTRY)


def _drop(used: Path) -> None:
    _entry(used).unlink(missing_ok=True)
    used.unlink(missing_ok=True)


def _is_readable(entry: Path) -> bool:
    from jax._src.compilation_cache import decompress_executable

    try:
        decompress_executable(entry.read_bytes())
    except Exception:  # which errors: that is up to the compression in use
        return False
    return True


@contextlib.contextmanager
def _locked(path: str) -> Iterator[bool]:
    """JAX's own lock of a folder, False without it; an OSError just ends the block."""
    lock = filelock.FileLock(Path(path, _LOCK))
    try:
        lock.acquire(timeout=_LOCK_S)
    except (OSError, filelock.Timeout):
        yield False
        return
    try:
        with contextlib.suppress(OSError):
            yield True
    finally:
        lock.release()
