"""Every error this package raises on purpose, each with what, where and fix.

A message is at most six lines and uses the user's own names.

    NitroError
    ├── ExperimentError      a class that cannot be an experiment
    │   ├── FieldError       a field: unknown, wrong value, wrong marker
    │   │   └── HostFieldError   a Host field read in compiled code
    │   └── HookError        a hook: missing, wrong name or signature, or it raised
    ├── DataError            a split, a loader or a batch
    ├── ModelError           a model that cannot be trained
    ├── SettingError         a keyword of `Nitro`
    ├── ScheduleError        a schedule, or the name of what it schedules
    ├── ProgramError         a program that cannot be traced or compiled
    ├── MetricError          a metric value
    ├── RunError             a verb that the run cannot obey now
    │   ├── SwapError        a swap that was refused; the old program goes on
    │   ├── StaleError       newer code where the older is needed
    │   └── NonFiniteError   a loss or gradient that is not finite
    ├── EditError            an edit in a test that cannot be made
    └── MagicError           a `%nitro` line that cannot be read
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class NitroError(Exception):
    """An error with three parts: what happened, where, and how to fix it.

    Args:
        what: What is wrong, in the user's own names.
        where: Hook, field, batch key, cell or file:line.
        fix: What to write instead, the best remedy first.

    Attributes:
        frames: The user's own frames, outermost first, if their code raised.
    """

    frames: tuple[str, ...] = ()

    def __init__(self, what: str, *, where: str = "", fix: str = ""):
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __reduce__(self):
        parts = (self.what, self.where, self.fix, self.frames)
        return (_rebuild, (type(self), *parts))

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.fix:
            first, *rest = self.fix.splitlines()
            lines.append(f"  fix:   {first}")
            lines += [f"         {line.strip()}" for line in rest]
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """Show the user's frames and the message in IPython; ours help nobody."""
        return [*self.frames, f"{type(self).__name__}: {self}"]


class ExperimentError(NitroError):
    """A class that cannot be an experiment."""


class FieldError(ExperimentError):
    """A field that is unknown, or a value it cannot take."""


class HostFieldError(FieldError):
    """A Host field was read in compiled code."""


class HookError(ExperimentError):
    """A hook is missing, has a wrong name or signature, or raised."""


class DataError(NitroError):
    """A split, a loader or a batch is not what the hooks need."""


class ModelError(NitroError):
    """A model that cannot be trained."""


class SettingError(NitroError):
    """A setting of `Nitro` that is unknown or out of range."""


class ScheduleError(NitroError):
    """A schedule that cannot be followed, or a name that cannot be scheduled."""


class ProgramError(NitroError):
    """A program that cannot be traced or compiled."""


class MetricError(NitroError):
    """A metric value that cannot be accumulated."""


class RunError(NitroError):
    """A verb that the run cannot obey now."""


class SwapError(RunError):
    """A swap that was refused; the old programs go on."""


class StaleError(RunError):
    """A program is needed whose code has changed since the others were made."""


class NonFiniteError(RunError):
    """A loss or gradient is not finite; the state before it is kept."""


class EditError(NitroError):
    """An edit in a test that cannot be made, or not undone."""


class MagicError(NitroError):
    """A `%nitro` line that cannot be read."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant, or list them all."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"one of: {', '.join(known)}" if known else "there are none"


def _rebuild(
    cls: type[NitroError], what: str, where: str, fix: str, frames: tuple[str, ...]
) -> NitroError:
    made = cls(what, where=where, fix=fix)
    made.frames = frames
    return made
