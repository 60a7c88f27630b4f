"""Edits that only a trace shows: followed by tracing anew what reads them.

Done after a cell and beside the steps, for programs that content cannot vouch for;
leaves no event, and asks for a swap only if one of them computes something new.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING

from .._text import said
from ..errors import NitroError
from . import threads
from .turns import short_turns

if TYPE_CHECKING:
    from .loop import Loop
    from .run import Run
    from .swap import Swapper

_FAILED = "failed"


class UnseenEdits:
    """The looks at what the doubtful programs of one run compute.

    Args:
        run: The run.
        loop: What it steps with.
        swapper: Takes what is found.
    """

    def __init__(self, run: Run, loop: Loop, swapper: Swapper):
        self._run, self._loop, self._swapper = run, loop, swapper
        self._numbers = itertools.count(1)
        self._newest = 0
        self._one = threading.Lock()
        self._seen: dict[Hashable, Hashable] = {}
        self._restless: set[int] = set()  # they read a clock, or chance

    def follow(self) -> None:
        """Look in a thread of its own, in the caller's context; swap what is found."""
        if self._doubted():
            self._newest = next(self._numbers)
            threads.start(f"nitro-look-{self._run.id}", self._work, self._newest)

    def _doubted(self) -> frozenset[int]:
        if self._loop.begins:
            return frozenset()
        programs = self._loop.programs.programs
        return frozenset(p.key for p in programs if p.unseen) - self._restless

    def _work(self, number: int) -> None:
        with self._one:
            self._swapper.settle()  # it takes what it finds itself
            if number != self._newest or not self._run.live:
                return  # a later look sees it all
            with self._run.surroundings.config(), short_turns():
                news = self._look()
            if news:
                with contextlib.suppress(NitroError):  # it has just ended
                    self._run.follow()

    def _look(self) -> bool:
        """Whether a program computes what it did not at the last look."""
        try:
            made = self._swapper.retraced(self._doubted())
        except Exception as error:  # of the user's code: the swap will say it
            found: dict[Hashable, Hashable] = {_FAILED: said(error)}
            differ = {*found}
        else:
            self._restless |= made.restless
            found, differ = made.found, made.differ
            self._seen.pop(_FAILED, None)
        news = any(self._seen.get(place) != found[place] for place in differ)
        self._seen |= found
        return news
