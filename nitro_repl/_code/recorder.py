"""Which user functions really ran on this thread.

Only a record: it never raises into the code it watches, and other threads leave no
mark in it.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from .origin import is_stdlib, is_user_code, is_user_file, place
from .references import code_info

# Two at once would restart each other's events.
_one_at_a_time = threading.RLock()
_WALK = __name__.rpartition(".")[0]  # it runs in a trace, and gives nothing to it
_LONGEST = 100  # characters of a text that may be a name, or a path of names
TOOL_IDS = (3, 4, 2, 5, 1, 0)  # last the ids that coverage and debuggers use


class Recorder:
    """A context manager around a trace; one at a time, others wait.

    Attributes:
        codes: After the exit, digests of the user code objects that ran.
        names: Digest -> `helper(), In [3]`.
        modules: After the exit, installed modules whose code ran, but Python's own.
        said: After the exit, the names and texts in all code that ran.
    """

    def __init__(self) -> None:
        self.codes: frozenset[str] = frozenset()
        self.names: Mapping[str, str] = {}
        self.modules: frozenset[str] = frozenset()
        self.said: frozenset[str] = frozenset()
        self._ran = _Ran()
        self._stop: Callable[[], None] = _nothing

    def __enter__(self) -> Recorder:
        _one_at_a_time.acquire()
        try:
            self._ran = _Ran()
            self._stop = _monitor(self._ran) or _profile(self._ran)
        except BaseException:
            _one_at_a_time.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stop()
        finally:
            _one_at_a_time.release()
        names: dict[str, str] = {}
        for code in self._ran.codes.values():
            digest = code_info(code).digest
            spot = place(code)
            name = f"{code.co_name}()"
            names[digest] = f"{name}, {spot}" if spot else name
        self.modules = frozenset(filter(_is_installed, self._ran.modules))
        self.said = _said((*self._ran.codes.values(), *self._ran.others))
        self._ran = _Ran()
        self.codes, self.names = frozenset(names), types.MappingProxyType(names)


class _Ran:
    """What ran: code of the user by its id, and all other code with its modules."""

    def __init__(self) -> None:
        self.codes: dict[int, types.CodeType] = {}
        self.others: list[types.CodeType] = []
        self.modules: set[str] = set()


def _nothing() -> None:
    return None


def _note(ran: _Ran, frame: types.FrameType) -> None:
    code = frame.f_code
    if is_user_file(code.co_filename) and is_user_code(code, frame.f_globals):
        ran.codes[id(code)] = code
    else:
        ran.others.append(code)
        ran.modules.add(frame.f_globals.get("__name__") or "")


def _is_installed(module: str) -> bool:
    apart = (_WALK, "namedtuple_")  # the latter have no module
    return module != "" and not module.startswith(apart) and not is_stdlib(module)


def _said(codes: Iterable[types.CodeType]) -> frozenset[str]:
    """What code may look up: its names, and those in its texts, for `getattr`."""
    said: set[str] = set()
    for code in codes:
        said.update(code.co_names)
        for text in code.co_consts:
            if type(text) is str and len(text) <= _LONGEST:
                said.update(filter(str.isidentifier, text.split(".")))
    return frozenset(said)


def _monitor(ran: _Ran) -> Callable[[], None] | None:
    """Record with `sys.monitoring`; None if there is none, or no free tool id."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return None
    tool = _free_tool(monitoring)
    if tool is None:
        return None
    here, disable = threading.get_ident(), monitoring.DISABLE
    start = monitoring.events.PY_START

    def started(code: types.CodeType, offset: int) -> Any:
        # Events are global: DISABLE on another thread would hide the code here.
        if threading.get_ident() != here:
            return None
        try:
            _note(ran, sys._getframe(1))
        except Exception:
            return None
        return disable

    def stop() -> None:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, start, None)
        monitoring.free_tool_id(tool)

    monitoring.register_callback(tool, start, started)
    monitoring.set_events(tool, start)
    monitoring.restart_events()  # what an earlier recording disabled is still off
    return stop


def _free_tool(monitoring: Any) -> int | None:
    for tool in TOOL_IDS:
        try:
            monitoring.use_tool_id(tool, "nitro_repl")
        except ValueError:
            continue
        return tool
    return None


def _profile(ran: _Ran) -> Callable[[], None]:
    """Record with `sys.setprofile`, passing events on to the profiler before us."""
    before = cast(Any, sys.getprofile())
    forward: Any = before if callable(before) else None
    seen: dict[int, types.CodeType] = {}

    def profile(frame: types.FrameType, event: str, arg: object) -> None:
        if event == "call":
            code = frame.f_code
            if id(code) not in seen:
                seen[id(code)] = code  # kept, so that no other code gets its id
                try:
                    _note(ran, frame)
                except Exception:
                    return
        if forward is not None:
            forward(frame, event, arg)

    def stop() -> None:
        if sys.getprofile() is not profile:
            return  # somebody set another one meanwhile: leave it
        sys.setprofile(forward)
        enable = getattr(before, "enable", None)
        if forward is None and enable is not None:
            enable()  # cProfile is an object, not a function

    sys.setprofile(profile)
    return stop
