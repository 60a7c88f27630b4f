"""Programs that outlive the kernel: JAX's persistent cache, in a folder of ours.

A user's own setting of that cache wins, whenever it is made: JAX's settings change only
inside a `compiling` block and only for its thread. No fault of the folder fails a
compile.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import platformdirs
from jax.experimental.compilation_cache import compilation_cache

from .._text import one_line, tell
from . import cache_folder

SETTING = "NITRO_CACHE_DIR"
LIMIT = 2 * 1024**3  # bytes; JAX then drops what was used least recently

_OFF = ("", "0", "off")
_REQUESTED = "/jax/compilation_cache/compile_requests_use_cache"
_FOUND = "/jax/compilation_cache/cache_hits"
_FAULT = "Error (reading|writing) persistent compilation cache entry"


@dataclass
class Found:
    """What a `compiling` block came to.

    Attributes:
        loaded: Whether all that it compiled came from disk; known after the block.
    """

    loaded: bool = False


# ---- where programs are kept


@dataclass
class _Choice:
    """The folder asked for in code, if any was."""

    made: bool = False
    path: str | None = None


_choice = _Choice()
_usable: dict[str, bool] = {}
_lock = threading.Lock()


def folder() -> str | None:
    """Where compiled programs are kept for the next kernel, or None if nowhere.

    JAX's own setting comes first, then `enable`, then the environment variable
    `NITRO_CACHE_DIR` (a path, or `off`), then the user's cache folder.
    """
    if not _setting("jax_enable_compilation_cache"):
        return None
    return _theirs() or _ours()


def enable(path: str | os.PathLike[str] | None) -> None:
    """Keep programs in a folder from the next compile on; None: do not keep them."""
    _choice.path = _absolute(path or "")
    _choice.made = True


@contextlib.contextmanager
def switched_off() -> Iterator[None]:
    """Keep nothing and find nothing meanwhile, in all threads."""
    made, path = _choice.made, _choice.path
    enable(None)
    try:
        yield
    finally:
        _choice.made, _choice.path = made, path


def _setting(name: str) -> Any:
    """JAX's setting of this name, which `jax.config` has but does not declare."""
    return getattr(jax.config, name)


def _theirs() -> str | None:
    return _setting("jax_compilation_cache_dir")


def _ours() -> str | None:
    if _limit() == 0:
        return None
    path = _choice.path if _choice.made else _from_environment()
    return path if path is not None and _is_usable(path) else None


def _from_environment() -> str | None:
    asked = os.environ.get(SETTING)
    if asked is not None:
        return _absolute(asked)
    home = platformdirs.user_cache_path("nitro_repl", appauthor=False)
    return _absolute(home / "programs") if home.is_absolute() else None


def _absolute(path: str | os.PathLike[str]) -> str | None:
    text = os.fspath(path)
    if text.strip().lower() in _OFF:
        return None
    return os.path.abspath(os.path.expanduser(text))


def _limit() -> int:
    theirs = _setting("jax_compilation_cache_max_size")
    return LIMIT if theirs == -1 else theirs


def _is_usable(path: str) -> bool:
    """Whether we can write there, found out and complained about once."""
    with _lock:
        if path not in _usable:
            try:
                cache_folder.prepare(path)
                _usable[path] = True
            except OSError as error:
                _usable[path] = False
                _complain(path, error)
        return _usable[path]


def _complain(path: str, error: OSError) -> None:
    why = one_line(error.strerror or str(error), 80)
    tell(
        f"Compiled programs are not kept for the next kernel: {why}\n"
        f"  where: {one_line(path, 200)}\n"
        f"  fix:   set {SETTING} to a folder that you can write, or to `off`",
        bad=True,
    )


# ---- compiling with it


@contextlib.contextmanager
def compiling() -> Iterator[Found]:
    """Let JAX find what this thread compiles on disk, or leave it there.

    Example:
        >>> with compiling() as found:
        ...     executable = lowered.compile()
        >>> found.loaded
        True
    """
    _listen()
    found = Found()
    requested, hits = _counts.requested, _counts.hits
    with _in_our_folder() as path:
        started = time.time_ns()
        yield found
    requested, hits = _counts.requested - requested, _counts.hits - hits
    found.loaded = 0 < requested == hits
    if path is not None and hits < requested:
        cache_folder.drop_unreadable(path, started)


class _Counts(threading.local):
    """What JAX asked its cache for on this thread, and what it got."""

    requested: int = 0
    hits: int = 0
    inside: bool = False


_counts = _Counts()


def _on_event(event: str, **details: object) -> None:
    _counts.requested += event == _REQUESTED
    _counts.hits += event == _FOUND


def _listen() -> None:
    """One listener for the process, put back if someone cleared JAX's list."""
    from jax._src import monitoring

    with _lock:
        if _on_event not in monitoring.get_event_listeners():
            monitoring.register_event_listener(_on_event)


@contextlib.contextmanager
def _in_our_folder() -> Iterator[str | None]:
    """Point JAX's cache at our folder for this thread, unless the user has a say."""
    path = None if _counts.inside or _theirs() else folder()
    if path is None:
        yield None
        return
    _faults_stay_warnings()
    _count_blocks(+1)
    _counts.inside = True
    try:
        with _settings(path):
            yield path
    finally:
        _counts.inside = False
        _count_blocks(-1)


_blocks = 0


def _count_blocks(change: int) -> None:
    """Make JAX look at its settings anew when the first block begins or the last ends.

    It keeps one cache object for all threads and never looks again by itself: it would
    ignore our folder in a block, or what the user sets after one.
    """
    global _blocks  # noqa: PLW0603 (of the process, as JAX's cache object is)
    with _lock:
        outside = _blocks == 0
        _blocks += change
        if outside or _blocks == 0:
            compilation_cache.reset_cache()


def _settings(path: str) -> contextlib.ExitStack:
    """JAX's settings for this thread: keep every program, however small."""
    from jax._src import config  # these settings have no public context managers

    stack = contextlib.ExitStack()
    stack.enter_context(config.compilation_cache_dir(path))
    stack.enter_context(config.compilation_cache_max_size(_limit()))
    stack.enter_context(config.persistent_cache_min_compile_time_secs(0.0))
    stack.enter_context(config.persistent_cache_min_entry_size_bytes(-1))
    stack.enter_context(config.raise_persistent_cache_errors(False))
    return stack


def _faults_stay_warnings() -> None:
    """Where warnings are errors, a fault of the folder would fail the compile."""
    with _lock:
        if _faults_are_errors():
            warnings.filterwarnings("default", _FAULT, UserWarning)


def _faults_are_errors() -> bool:
    for action, message, category, *_ in warnings.filters:
        if getattr(message, "pattern", None) == _FAULT:
            return False
        if action == "error" and issubclass(UserWarning, category):
            return True
    return False
