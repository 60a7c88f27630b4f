"""Commands: what is asked of a live run, applied by its worker at a step boundary.

A command is answered exactly once, whatever happens to the run.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loop import Loop


@dataclass
class Command:
    """One request.

    Attributes:
        name: The verb.
        apply: Does it, on the worker, and gives the answer. Returning `LATER` leaves
            the answer to whoever holds the command.
        by: Who asked: "cell", "python", "panel".
        urgent: Whether it may be applied between two batches of an evaluation.
    """

    name: str
    apply: Callable[[Loop, Command], Any]
    by: str = "python"
    urgent: bool = False
    reply: Future[Any] = field(default_factory=Future)

    def answer(self, value: Any = None) -> None:
        """Give the answer, if none was given yet."""
        if not self.reply.done():
            self.reply.set_result(value)

    def refuse(self, error: BaseException) -> None:
        """Answer with an error, if no answer was given yet."""
        if not self.reply.done():
            self.reply.set_exception(error)


LATER = object()
"""Returned by a command that is answered later."""


class Mailbox:
    """Commands on their way to a worker, in order; closed when the worker ends."""

    def __init__(self) -> None:
        self._commands: deque[Command] = deque()
        self._ready = threading.Condition()
        self._closed = True

    def open(self) -> None:
        """A worker is there."""
        with self._ready:
            self._closed = False

    def put(self, command: Command) -> bool:
        """Hand over a command; false if no worker will come for it."""
        with self._ready:
            if self._closed:
                return False
            self._commands.append(command)
            self._ready.notify_all()
            return True

    def take(self, *, block: bool = False, urgent: bool = False) -> Command | None:
        """The next command.

        Args:
            block: Wait until there is one.
            urgent: Only one that may interrupt an evaluation.
        """
        with self._ready:
            while block and not self._commands:
                self._ready.wait()
            for command in self._commands:
                if command.urgent or not urgent:
                    self._commands.remove(command)
                    return command
            return None

    def close(self, refusal: Callable[[str], BaseException]) -> None:
        """No worker any more: refuse all that is left.

        Args:
            refusal: Makes the error for a verb.
        """
        with self._ready:
            self._closed = True
            left = list(self._commands)
            self._commands.clear()
        for command in left:
            command.refuse(refusal(command.name))

    def __bool__(self) -> bool:
        return bool(self._commands)
