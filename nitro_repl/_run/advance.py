"""The `advance` that a run is doing: some steps, then a pause and an answer."""

from __future__ import annotations

from .commands import Command


class Advance:
    """At most one `advance`; it is answered once, however it ends."""

    def __init__(self) -> None:
        self._command: Command | None = None
        self._until: int | None = None

    def begin(self, command: Command, until: int) -> None:
        """Answer a command when so many steps are done; one before it ends."""
        self.end()
        self._command, self._until = command, until

    def reached(self, step: int, *, finished: bool) -> bool:
        """Whether its steps are done, or there are no more."""
        return self._until is not None and (step >= self._until or finished)

    def end(self, error: BaseException | None = None) -> None:
        """Answer one that is over: reached, cut short, or failed."""
        command, self._command, self._until = self._command, None, None
        if command is None:
            return
        if error is None:
            command.answer()
        else:
            command.refuse(error)
