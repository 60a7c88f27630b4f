"""Follows edits after each cell and each saved file: names what is stale, or swaps.

Never raises into a cell, never waits in one for a trace, and never looks in the middle
of a trace.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from .._code.files import files
from .._programs import disk
from .._run import registry
from .._run.run import Run
from .._text import said, tell
from ..errors import MagicError, NitroError
from .level import LEVELS, Level
from .news import News
from .notice import Notice, together
from .saves import Saves

_AGAIN_S = 0.5  # while programs are made, not all of them are there to look at


class Auto:
    """The follower of one process; `close` ends it.

    Args:
        looked: Called after each look at what may have been edited.
    """

    def __init__(self, looked: Callable[[], None] = lambda: None) -> None:
        self._looked = looked
        self._level = 1
        self._checking = threading.Lock()
        self._news = News()
        self._saves = Saves(self._saved)
        self._failure = ""

    @property
    def level(self) -> Level:
        """How far edits are followed."""
        return Level(self._level)

    def set(self, number: int) -> Level:
        """Follow edits as far as this.

        Raises:
            MagicError: There is no such level.
        """
        if number not in LEVELS:
            raise MagicError(f"there is no auto level {number}", fix="0, 1 or 2")
        with self._checking:
            if number > max(self._level, 1):
                self._news.forget()  # what was only named is to be swapped
            self._level = number
        return self.level

    def before_cell(self) -> None:
        """Let a cell take from files what they say now."""
        try:
            disk.refresh(wait=False)
        except Exception as error:
            self._fail(error)

    def after_cell(self) -> None:
        """Look at what a cell has changed, or have it looked at after a trace."""
        self._look(wait=False)
        if self._level == 2:
            self._follow_unseen()

    def close(self) -> None:
        """Watch no more."""
        self._saves.close()

    # ---- looking

    def _saved(self) -> None:
        if self._level:
            self._look(wait=True)

    def _look(self, wait: bool) -> None:
        try:
            if not self._checked(wait):
                self._saves.ask(0.0)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if (why := said(error)) != self._failure:
            self._failure = why
            tell(f"nitro: auto could not look for edits: {why}", bad=True)

    def _checked(self, wait: bool) -> bool:
        """Look at files and runs; without waiting, False if someone traces or looks."""
        if not self._checking.acquire(blocking=wait):
            return False
        try:
            with disk.untraced(wait) as free:
                if free:
                    disk.refresh()
                    self._follow_runs()
            if free:
                self._saves.follow(files.paths())
                self._looked()
            return free
        finally:
            self._checking.release()

    # ---- runs

    def _follow_unseen(self) -> None:
        """Follow what no look sees, where the cell's own context is at hand."""
        try:
            for run in _live():
                run.follow_unseen()
        except Exception as error:
            self._fail(error)

    def _follow_runs(self) -> None:
        if not self._level:
            return
        notices: list[Notice] = []
        try:
            for run in _concerned():
                notices += self._news_of(run)
        finally:
            for notice in together(notices):
                tell(notice.text, bad=not notice.fits)

    def _news_of(self, run: Run) -> Iterator[Notice]:
        """What is to be said of a run; at level 2 an edit is swapped in instead."""
        if run.swapping and self._level == 1:
            self._saves.ask(_AGAIN_S)  # it may be taking this very edit
        elif notice := self._news.take(run):
            if self._level == 2 and notice.swaps and run.live:
                with contextlib.suppress(NitroError):  # it has just ended
                    run.follow()
            elif run.live or not _live():
                yield notice
        if run.live and run.phase.startswith(("starting", "compiling")):
            self._saves.ask(_AGAIN_S)


def _live() -> list[Run]:
    return [run for run in list(registry.runs.values()) if run.live]


def _concerned() -> list[Run]:
    """The live runs, and the one that verbs act on.

    That one is looked at even if it has ended and nothing is said of it: once it is
    the only one, an edit made until then is no news.
    """
    runs = list(registry.runs.values())
    return [run for run in runs if run.live or run is registry.current()]
