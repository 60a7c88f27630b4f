"""The journal: every change to a run, with its step and who asked for it.

An entry is with the operating system when `record` returns: a kill does not lose it.
"""

from __future__ import annotations

import datetime
import os
import threading
from typing import Any

from .lines import LineFile, read_lines as read_lines
from .plain import Json, plain as plain


class Journal:
    """Entries of a run, in memory and, given a path, as JSON lines.

    Args:
        path: The file, appended to if it exists; None keeps them in memory only.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None):
        self._file = None if path is None else LineFile(path)
        self._entries: list[dict[str, Json]] = [] if path is None else read_lines(path)
        self._lock = threading.Lock()

    @property
    def entries(self) -> tuple[dict[str, Json], ...]:
        """All entries, oldest first, those of a file that was there included."""
        with self._lock:
            return tuple(self._entries)

    def since(self, count: int) -> tuple[list[dict[str, Json]], int]:
        """The entries after the first `count`, and how many there are."""
        with self._lock:
            return self._entries[count:], len(self._entries)

    def record(
        self,
        command: str,
        *,
        step: int,
        by: str = "user",
        before: Any = None,
        after: Any = None,
        **extras: Any,
    ) -> dict[str, Json]:
        """Add an entry.

        Args:
            command: The verb, or what happened.
            step: Optimizer steps done when it was applied.
            by: Who asked.
            before: What it replaced.
            after: What holds from here on.
            extras: Anything else worth keeping.

        Returns:
            The entry as it was written: plain JSON, with the time in UTC.
        """
        now = datetime.datetime.now(datetime.UTC)
        entry = {
            "time": now.isoformat(timespec="milliseconds"),
            "step": plain(step),
            "command": command,
            "by": by,
            "before": plain(before),
            "after": plain(after),
            **{name: plain(value) for name, value in extras.items()},
        }
        with self._lock:
            self._entries.append(entry)
            if self._file is not None:
                self._file.write(entry)
        return entry

    def close(self) -> None:
        """Close the file; later entries are kept in memory."""
        if self._file is not None:
            self._file.close()
