"""Tells of saved files: watches the folders of the user's modules, and nothing else.

A burst of events is one reaction, on one thread; where folders cannot be watched this
is said once, and files are looked at after each cell only.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from .._text import tell
from .mounts import network_type

_WHOLE_S = 0.05  # after a file was closed or moved to its place
_OPEN_S = 0.4  # after a write, if nothing says that the file was closed
_BURST_S = 2.0  # the longest that events keep a reaction waiting
_EMPTY_S = 1.2  # an emptied file counts as half written for a while
_WHOLE = ("closed", "moved", "deleted")
_NO_SAVE = ("opened", "closed_no_write")
_JOIN_S = 10.0


class Saves:
    """A thread that reacts to saved files.

    Args:
        react: Called on that thread, never twice at a time; must not raise.
    """

    def __init__(self, react: Callable[[], None]):
        self._react = react
        self._changed = threading.Condition()
        self._due: dict[str, float] = {}
        self._burst = 0.0
        self._closed = False
        self._thread: threading.Thread | None = None
        self._observer: Any = None
        self._folders: dict[str, tuple[Any, int]] = {}
        self._names: frozenset[str] = frozenset()
        self._blind = False
        self._told: set[str] = set()

    def ask(self, delay: float) -> None:
        """React after so many seconds, whatever is saved."""
        with self._changed:
            self._set("asked", time.monotonic() + delay)

    def follow(self, paths: Iterable[str]) -> None:
        """Watch the folders of these files, and of those only."""
        wanted = {path for given in paths for path in (given, os.path.realpath(given))}
        self._names = frozenset(map(os.path.basename, wanted))
        folders = {os.path.dirname(path): _inode(path) for path in wanted}
        try:
            for folder in list(self._folders):
                if folders.get(folder) != self._folders[folder][1]:
                    self._unwatch(folder)
            for folder, inode in folders.items():
                if folder not in self._folders and inode and not self._blind:
                    self._watch(folder, inode)
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Stop watching, and wait until no thread of it is left."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)
        self._stop_observer()

    # ---- folders

    def _watch(self, folder: str, inode: int) -> None:
        if self._observer is None:
            from watchdog.observers import Observer

            self._observer = Observer()
            self._observer.name = "nitro-observer"
            self._observer.start()
        watch = self._observer.schedule(_handler(self._event), folder)
        self._folders[folder] = (watch, inode)
        kind = network_type(folder)
        if kind and kind not in self._told:
            self._told.add(kind)
            tell(
                f"nitro: {folder} is on {kind}: a file saved on another machine is "
                "seen after the next cell, not at once"
            )

    def _unwatch(self, folder: str) -> None:
        watch, _ = self._folders.pop(folder)
        self._observer.unschedule(watch)

    def _give_up(self, error: OSError) -> None:
        self._blind = True
        self._stop_observer()
        tell(
            f"nitro: saved files cannot be watched ({error}); they are looked at after "
            "each cell",
            bad=True,
        )

    def _stop_observer(self) -> None:
        self._folders.clear()
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(_JOIN_S)
            self._observer = None

    # ---- events

    def _event(self, event: Any) -> None:
        """Note an event of a file that is followed; on a thread of the observer."""
        touched = {os.path.basename(os.fsdecode(p)) for p in _paths(event) if p}
        if event.event_type in _NO_SAVE or touched.isdisjoint(self._names):
            return
        now = time.monotonic()
        delay = _WHOLE_S if event.event_type in _WHOLE else _OPEN_S
        with self._changed:
            if "event" not in self._due:
                self._burst = now
            self._due["empty"] = now + _EMPTY_S
            self._set("event", min(now + delay, self._burst + _BURST_S))

    def _set(self, name: str, when: float) -> None:
        if self._closed:
            return
        self._due[name] = when
        if self._thread is None:
            # In no cell's context, so that what it tells goes to the cell run last.
            self._thread = threading.Thread(
                target=contextvars.Context().run,
                args=(self._work,),
                name="nitro-watch",
                daemon=True,
            )
            self._thread.start()
        self._changed.notify_all()

    def _work(self) -> None:
        while self._wait():
            self._react()

    def _wait(self) -> bool:
        """Wait until something is due; False at the end."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                due = [name for name, when in self._due.items() if when <= now]
                if due:
                    for name in due:
                        del self._due[name]
                    return True
                soonest = min(self._due.values(), default=None)
                self._changed.wait(None if soonest is None else soonest - now)
            return False


def _handler(react: Callable[[Any], None]) -> Any:
    from watchdog.events import FileSystemEventHandler

    handler = FileSystemEventHandler()
    handler.on_any_event = react  # type: ignore[method-assign]
    return handler


def _paths(event: Any) -> tuple[str | bytes, ...]:
    return event.src_path, event.dest_path


def _inode(path: str) -> int:
    try:
        return os.stat(os.path.dirname(path)).st_ino
    except OSError:
        return 0
