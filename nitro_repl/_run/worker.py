"""The one thread that steps a loop, and the only way to ask it for something.

What is asked is done at a step boundary and answered once, even if the loop ends first.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import jax

from .._text import message, tell
from ..errors import RunError
from . import asking, threads
from .commands import Command, Mailbox
from .loop import Loop
from .surroundings import Surroundings

_JOIN_S = 3.0
_JOIN_BESIDE_S = 10.0  # a trace, or a compile of a common size


class Worker:
    """A thread over a loop; it may be started again after it ended.

    Attributes:
        surroundings: Those of the thread that started it last, which it works in.

    Args:
        name: Of the thread, and in messages.
        loop: What it steps.
        mailbox: Where commands wait.
        on_end: Called on the thread when the loop is over, with what ended it.
    """

    def __init__(
        self,
        name: str,
        loop: Loop,
        mailbox: Mailbox,
        on_end: Callable[[BaseException | None], None],
    ):
        self.name = name
        self._loop = loop
        self._mailbox = mailbox
        self._on_end = on_end
        self._halted = False
        self.surroundings = Surroundings()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._ended.set()
        self._standing = threading.Lock()  # held while the loop must not begin to move

    @property
    def live(self) -> bool:
        """Whether the thread steps, or waits between steps."""
        return not self._ended.is_set()

    @property
    def is_here(self) -> bool:
        """Whether the caller is the worker itself, as a hook is."""
        return threading.current_thread() is self._thread

    @property
    def waits(self) -> bool:
        """Whether the caller waits for what it asks: it can, and wants to."""
        return not self.is_here and asking.waits()

    def start(self) -> None:
        """Begin, or go on, in the caller's surroundings."""
        with self._standing:
            self._ended.clear()
            self._failure = None
            self._mailbox.open()
            self.surroundings = Surroundings()
            self._thread = threading.Thread(
                target=self.surroundings.run,
                args=(self._work,),
                name=f"nitro-run-{self.name}",
                daemon=True,
            )
            _live.add(self)
            self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the loop is over; false if the time was up first.

        Raises:
            RunError: The worker itself asks, as a hook does: it would wait for ever.
        """
        if self.is_here and self.live:
            raise RunError(
                f"run {self.name} cannot wait for its own end",
                where="wait, in a hook of the run",
                fix="return from the hook; run.stop() there ends the run after it",
            )
        return self._ended.wait(timeout)

    def halt(self) -> None:
        """Have it stop, and wait a little; for the end of the process."""
        self._halted = self._loop.stopping = True
        self._mailbox.put(Command("stop", lambda loop, command: None, urgent=True))
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def ask(
        self, name: str, apply: Callable[[Loop, Command], Any], *, urgent: bool = False
    ) -> Any:
        """Have something done at a boundary and wait for the answer.

        From the worker itself, and inside `asking.queued`, it is queued, and nothing
        is waited for.

        Raises:
            RunError: The loop is over.
        """
        reply = self.post(name, apply, urgent=urgent)
        return self.answer(reply) if self.waits else None

    def post(
        self, name: str, apply: Callable[[Loop, Command], Any], *, urgent: bool = False
    ) -> Future[Any]:
        """Have something done at a boundary, without waiting.

        Raises:
            RunError: The loop is over.
        """
        command = Command(name, apply, asking.asker(), urgent)
        if not self._mailbox.put(command):
            raise self._over(name)
        asking.note(command.reply)
        return command.reply

    def hand_over(self, command: Command) -> None:
        """Have a command applied: at a boundary, or here while nothing steps."""
        while not self._mailbox.put(command):
            self._ended.wait()
            with self._standing:
                if not self.live:  # and does not begin again before it is applied
                    self._loop.obey(command)
                    return

    def answer(self, reply: Future[Any]) -> Any:
        """Wait for an answer; an interrupt ends the waiting, not what was asked."""
        try:
            return reply.result()
        except KeyboardInterrupt:
            tell(
                f"stopped waiting; run {self.name} goes on, at step {self._loop.step}, "
                "and does what was asked. run.stop() ends it."
            )
            return None

    def look(self, read: Callable[[Loop], Any]) -> Any:
        """Device copies of what `read` gives at a boundary, or after the end."""

        def apply(loop: Loop, command: Command) -> Any:
            return jax.tree.map(_copy, read(loop))

        while True:
            command = Command("look", apply, urgent=True)
            if self.is_here:
                return apply(self._loop, command)
            if self._mailbox.put(command):
                try:
                    return command.reply.result()
                except RunError:
                    pass  # it ended before it came to this
            self._ended.wait()
            with self._standing:
                if not self.live:  # and does not begin again before the copies are made
                    return apply(self._loop, command)

    def _over(self, name: str) -> RunError:
        """The error for what is asked of a loop that is over."""
        what = f"run {self.name} is over, at step {self._loop.step}"
        if self._failure is not None:
            first = (message(self._failure).splitlines() or [""])[0]
            what += f", after {type(self._failure).__name__}: {first[:200]}"
        fix = "run.handle.train() goes on from its last state; run.swap() takes an edit"
        return RunError(what, where=name, fix=fix)

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            self._loop.run()
        except BaseException as raised:
            if not self._halted:  # else JAX has been taken down under it
                error = raised
        try:
            self._on_end(error)
        finally:
            self._failure = error
            self._mailbox.close(self._over)
            _live.discard(self)
            self._ended.set()


_live: set[Worker] = set()


@atexit.register
def _halt_all() -> None:
    """A thread inside XLA while the interpreter ends would abort the process."""
    for worker in list(_live):
        worker.halt()
    threads.join_all(_JOIN_BESIDE_S)  # told by the end of their run that they are over


def _copy(leaf: Any) -> Any:
    """A copy in a buffer of its own; `leaf.copy()` would compile, once per shape."""
    if not isinstance(leaf, jax.Array):
        return leaf
    return jax.device_put(leaf, may_alias=False)
