"""What is clicked in a panel: put in line at the run, never waited for.

Called on any thread, it only hands commands over and keeps what is to be said of them;
of the values that a slider passes through the last one counts.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from .._run.asking import queued
from .._run.run import Run
from .._run.words import BLOCK, words
from .._text import said

_NOTICES = 8
_KNOWN = 256  # of the last messages it is known that they came

_VERBS: Mapping[str, Callable[[Run, Mapping[str, Any]], Any]] = {
    "pause": lambda run, given: run.pause(),
    "resume": lambda run, given: run.resume(),
    "advance": lambda run, given: run.advance(given.get("n", 1)),
    "stop": lambda run, given: run.stop(),
    "swap": lambda run, given: run.swap(wait=False),
    "undo": lambda run, given: run.swap(undo=True, wait=False),
    "unset": lambda run, given: run.unset(str(given["name"])),
    "override": lambda run, given: run.set(
        {str(given["name"]): given["value"]}, override=True
    ),
}
"""All that a panel can ask for, beside `set`."""


class Clicks:
    """The commands of one panel on their way.

    Args:
        run: The run that they are for.
    """

    def __init__(self, run: Run):
        self._run = run
        self._lock = threading.Lock()
        self._heard: list[str] = []
        self._known: deque[str] = deque(maxlen=_KNOWN)
        self._wishes: dict[str, Any] = {}
        self._flying: dict[str, Future[Any]] = {}
        self._waiting: dict[int, tuple[str, float, Future[Any]]] = {}
        self._notices: list[dict[str, Any]] = []
        self._count = 0
        self._swap = 0  # the newest one that was asked for

    def take(self, message: Mapping[str, Any]) -> None:
        """Do what a message of a front end asks, once however often it comes.

        A front end sends it again while it has no word of it. Never raises.
        """
        verb = str(message.get("verb"))
        given = message.get("given") or {}
        name = words(message.get("id"), 40)
        with self._lock:
            again = message.get("id") is not None and name in self._known
            (self._heard if again else self._known).append(name)
        if again:
            return
        try:
            if verb == "set":
                with self._lock:
                    self._wishes[str(given["name"])] = given["value"]
            else:
                self._ask(verb, lambda: _VERBS[verb](self._run, given))
        except Exception as error:
            self.notice(words(verb, 40), error)
        finally:  # it waits, or it is done, before it counts as heard
            with self._lock:
                self._heard.append(name)

    def flush(self) -> None:
        """Put the values in line that were chosen since, each once at a time."""
        with self._lock:
            free = [n for n in self._wishes if n not in self._flying]
            chosen = {name: self._wishes.pop(name) for name in free}
        for name, value in chosen.items():
            try:
                reply = self._ask(
                    f"set {name}", lambda n=name, v=value: self._set(n, v)
                )
            except Exception as error:
                self.notice(f"set {words(name, 60)}", error)
                continue
            with self._lock:
                self._flying[name] = reply
            reply.add_done_callback(lambda _, name=name: self._landed(name))

    def heard(self) -> list[str]:
        """The messages that came since the last time, by their ids."""
        with self._lock:
            heard, self._heard = self._heard, []
        return heard

    def known(self) -> list[str]:
        """All messages that came lately: for who may have missed a word of some."""
        with self._lock:
            self._heard = []
            return list(self._known)

    def waiting(self) -> list[dict[str, Any]]:
        """What is in line and not done yet: the verb, and since when."""
        with self._lock:
            left = {k: w for k, w in self._waiting.items() if not w[2].done()}
            self._waiting = left
            chosen = [(words(f"set {name}", 60), time.time()) for name in self._wishes]
            asked = [(verb, at) for verb, at, _ in left.values()]
        return [{"verb": verb, "at": at} for verb, at in [*asked, *chosen]]

    def notices(self) -> list[dict[str, Any]]:
        """The last commands that were refused, and why."""
        with self._lock:
            return list(self._notices)

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        with self._lock:
            return not (self._heard or self._wishes or self._flying or self._waiting)

    def notice(self, verb: str, error: BaseException) -> None:
        """Say that a command was refused."""
        text = words(f"{verb}: {said(error)}", BLOCK)
        with self._lock:
            self._count += 1
            one = {"id": self._count, "at": time.time(), "text": text}
            self._notices = [*self._notices, one][-_NOTICES:]

    def _set(self, name: str, value: Any) -> None:
        self._run.set({name: value})

    def _ask(self, verb: str, ask: Callable[[], Any]) -> Future[Any]:
        with self._lock:
            self._count += 1
            place = self._count
            if verb == "swap":
                self._swap = place
        with queued("panel") as replies:
            ask()
        reply: Future[Any] = replies[-1] if replies else Future()
        if not replies:  # it had nothing to put in line
            reply.set_result(None)
        with self._lock:
            self._waiting[place] = (words(verb, 60), time.time(), reply)
        reply.add_done_callback(lambda done: self._answered(verb, place, done))
        return reply

    def _answered(self, verb: str, place: int, done: Future[Any]) -> None:
        error = done.exception()
        # Of several clicks on Swap the last one counts, and says how it ended.
        if error is not None and not (verb == "swap" and place < self._swap):
            self.notice(verb, error)

    def _landed(self, name: str) -> None:
        with self._lock:
            self._flying.pop(name, None)
