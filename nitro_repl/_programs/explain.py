"""Say what went wrong in a trace in our terms: which hook, which line, what to write.

Errors of our own pass through unchanged.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import jax

from .._text import message
from .._where import place_of, user_place
from ..errors import HookError, NitroError
from .frames import LIBRARY, is_users, user_frames

_FRAME = re.compile(r'^ *File "(.+)", line (\d+)', re.MULTILINE)
_KNOWN: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str, str], ...] = (
    (
        jax.errors.UnexpectedTracerError,
        "an array of a trace was kept on a global, a list or an object",
        "return the value from the hook instead of storing it",
    ),
    (
        jax.errors.TracerBoolConversionError,
        "a Python `if`, `while`, `and` or `or` depends on the value of an array",
        "use jnp.where or jax.lax.cond; mark a field that steers Python GraphConst",
    ),
    (
        (
            jax.errors.TracerArrayConversionError,
            jax.errors.TracerIntegerConversionError,
        ),
        "an array of compiled code was given to numpy or used as an index or size",
        "use jax.numpy; or mark the field GraphConst if it is a size",
    ),
    (
        jax.errors.ConcretizationTypeError,
        "Python needs the value of an array, which is not known while compiling",
        "use jax.numpy, not float(), int() or .item(); or mark the field GraphConst",
    ),
)


_KEPT, _RETURN = _KNOWN[0][1:]


@contextmanager
def explained(program: str) -> Iterator[None]:
    """Raise a HookError with the user's place for whatever fails in a trace."""
    with hooks_explained(f"program `{program}`"):
        yield


def hooks_explained(what: str) -> AbstractContextManager[None]:
    """Raise a HookError with the user's place for whatever user code raises."""
    return _HooksExplained(what)


class _HooksExplained(AbstractContextManager[None]):  # a generator costs each step 1 us
    def __init__(self, what: str):
        self._what = what

    def __exit__(self, _kind: Any, error: BaseException | None, _frames: Any) -> None:
        if isinstance(error, NitroError):
            error.frames = error.frames or user_frames(error.__traceback__)
        elif isinstance(error, Exception | SystemExit):  # not the end of a script
            raise hook_error(self._what, error) from error


def kept_array(program: str, jaxpr: Any, kept: Sequence[Any]) -> HookError:
    """The error for arrays of an earlier trace that a program took in unasked."""
    uses = (
        eqn
        for eqn in jaxpr.eqns
        if any(var is old for var in eqn.invars for old in kept)
    )
    return kept_error(program, place_in(getattr(next(uses, None), "source_info", None)))


def kept_error(program: str, where: str) -> HookError:
    """The error for code that keeps arrays of a trace."""
    fix = f"{_RETURN};\nthen empty what it was stored in"
    return HookError(_KEPT, where=f"program `{program}`, {where}", fix=fix)


def gone_error(reason: str, user: str) -> HookError:
    """The error for code that uses what its file defines no longer."""
    what, _, reader = reason.partition(": ")[2].partition(" in ")
    where = f"{user}, {reader}"
    return HookError(
        f"`{what}` is gone from its file, and is still used",
        where=where,
        fix="use what took its place, and run the cells that held it again;\n"
        "or define it again",
    )


def place_in(source: Any) -> str:
    """The user's place in what JAX knows of an equation's source, or ''."""
    return _first_of_the_user((f.file_name, f.line_num) for f in _frames(source))


def function_in(source: Any) -> str:
    """The name of the user's function in what JAX knows of a source, or ''."""
    of_user = (f.function_name for f in _frames(source) if is_users(f.file_name))
    return next(of_user, "")


def _frames(source: Any) -> Sequence[Any]:
    return getattr(getattr(source, "traceback", None), "frames", ())


def hook_error(what: str, error: BaseException) -> HookError:
    """The HookError for an exception that user code raised."""
    made = _hook_error(what, error)
    made.frames = user_frames(error.__traceback__)
    return made


def _hook_error(what: str, error: BaseException) -> HookError:
    if isinstance(error, jax.errors.JaxRuntimeError):
        return _runtime_error(what, str(error))
    where = user_place(error.__traceback__, LIBRARY)
    for kinds, meaning, fix in _KNOWN:
        if isinstance(error, kinds):
            return HookError(meaning, where=f"{what}, {where}", fix=fix)
    if isinstance(error, AttributeError) and isinstance(error.obj, threading.local):
        return HookError(
            f"the threading.local has no `{error.name}` in the thread that calls this",
            where=f"{what}, {where}",
            fix="use a global or a ContextVar, which threads of a run see as you do;\n"
            "or set it in the hook",
        )
    text = message(error)
    if "different trace level" in text:
        return HookError(
            "the model changes state (Dropout, BatchNorm) in jax.lax.scan, in jax.vmap "
            "or in a gradient, which does not carry it out",
            where=f"{what}, {where}",
            fix="use nnx.scan or nnx.vmap there, or draw from the hook's own `key`;\n"
            "in nnx.grad, call that part of the model outside or give it as argument",
        )
    first = (text.strip().splitlines() or [""])[0][:300]
    return HookError(
        f"{type(error).__name__}: {first}",
        where=f"{what}, {where}" if where else what,
        fix="correct the hook; nothing of the run is lost",
    )


def _runtime_error(what: str, text: str) -> HookError:
    """What XLA says while a program runs: a callback raised, or memory ran out."""
    lines = [line.strip() for line in text.strip().splitlines()] or [""]
    frames = _FRAME.findall(text)
    where = _first_of_the_user((name, int(line)) for name, line in reversed(frames))
    if frames:  # the traceback of a callback, its error last
        said, fix = lines[-1], "correct the callback; nothing of the run is lost"
    elif "RESOURCE_EXHAUSTED" in text:
        said, fix = lines[0], "make the batch or the model smaller"
    else:
        said, fix = lines[0], "this comes from XLA; its message says more"
    return HookError(said[:300], where=f"{what}, {where}" if where else what, fix=fix)


def _first_of_the_user(places: Iterable[tuple[str, int]]) -> str:
    return next((place_of(*place) for place in places if is_users(place[0])), "")
