"""What `self` is inside a compiled hook: the traced view.

It is an instance of the user's class, gives literals and tracers, refuses Host fields,
and records every name that is read: the same values of those are the same trace.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._where import is_ours, place_of
from ..errors import FieldError, HookError, HostFieldError
from .base import Experiment
from .fields import Residency
from .hooks import HOOKS, Hooks, missing


@dataclass(frozen=True)
class Read:
    """One name read from the view.

    Attributes:
        kind: "const" (a GraphConst field), "device" (a Device field), "member" (a
            method or class attribute), "absent" (no such name), "recipe" (a part of how
            parameters are updated), or "library" (what stands in installed modules).
    """

    kind: str
    name: str


@dataclass
class Reads:
    """The names that one trace read, in order of first use."""

    names: dict[Read, None] = field(default_factory=dict)

    def add(self, kind: str, name: str) -> None:
        """Note a read."""
        self.names.setdefault(Read(kind, name))

    def __iter__(self):
        return iter(self.names)


@dataclass
class _State:
    experiment: Experiment
    hooks: Hooks
    device: Mapping[str, Any]
    training: bool
    program: str
    reads: Reads
    host: bool


class _View:
    """Mixed in before the user's class."""

    __is_view__ = True

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return _class(object.__getattribute__(self, "__state__"), type(self))
        if name.startswith("__") and name.endswith("__"):
            return object.__getattribute__(self, name)
        state: _State = object.__getattribute__(self, "__state__")
        declared = type(state.experiment).__fields__.get(name)
        if declared is not None:
            return _read_field(state, name, declared.residency)
        if name == "training":
            return state.training
        if name in state.hooks:
            state.reads.add("member", name)
            return _bind(state.hooks.renewed(state.hooks[name]), self)
        state.reads.add("absent", name)
        if name in HOOKS and HOOKS[name].required:
            raise missing(name, type(state.experiment).__name__)
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        state: _State = object.__getattribute__(self, "__state__")
        raise HookError(
            f"`self.{name} = ...` in compiled code would leak out of the trace",
            where=_caller(type(state.experiment).__name__, state.program),
            fix="return the value from the hook instead, for example as a train metric",
        )


def traced_view(
    experiment: Experiment,
    hooks: Hooks,
    reads: Reads,
    *,
    device: Mapping[str, Any],
    training: bool,
    program: str,
) -> Any:
    """Make the `self` of a traced hook.

    Args:
        experiment: Gives the GraphConst values.
        hooks: Gives methods and class attributes, as pinned.
        reads: Filled with the names that are read.
        device: Tracers of the Device fields.
        training: What `self.training` is.
        program: Name of the program being traced, for messages.
    """
    return _make(_State(experiment, hooks, device, training, program, reads, False))


def host_view(
    experiment: Experiment, hooks: Hooks, reads: Reads, hook: str = "build_model"
) -> Any:
    """Make the `self` of a hook whose result is baked in.

    Host fields may be read, Device fields not.
    """
    return _make(_State(experiment, hooks, {}, False, hook, reads, True))


def _make(state: _State) -> Any:
    instance = object.__new__(_view_of(type(state.experiment)))
    object.__setattr__(instance, "__state__", state)
    return instance


def _view_of(cls: type) -> type:
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return type(cls.__name__, (_View, cls), names)


def _class(state: _State, made: type) -> type:
    """What `super(Digits, self)` goes by when the cell of Digits ran again.

    Then the name means another class, of which this is no instance.
    """
    newest = state.hooks.newest(type(state.experiment))
    return made if newest is type(state.experiment) else _view_of(newest)


def _read_field(state: _State, name: str, residency: Residency) -> Any:
    if residency is Residency.GRAPH_CONST or (
        state.host and residency is Residency.HOST
    ):
        state.reads.add("const", name)
        return state.hooks.renewed(getattr(state.experiment, name))
    if residency is Residency.DEVICE:
        if state.host:
            raise _device_on_host(state, name)
        state.reads.add("device", name)
        return state.device[name]
    declared = type(state.experiment).__fields__[name]
    kind = declared.marker
    raise HostFieldError(
        f"`self.{name}` is a Host field, read in the program `{state.program}`",
        where=_caller(type(state.experiment).__name__, state.program),
        fix=f"mark it `{name}: GraphConst[{kind}]` (baked in, a change compiles), or\n"
        f"`{name}: Device[{kind}]` (an input, a change costs nothing), or\n"
        "read it in build_data or another host hook",
    )


def _device_on_host(state: _State, name: str) -> FieldError:
    return FieldError(
        f"`self.{name}` is a Device field; `{state.program}` would freeze its value",
        where=_caller(type(state.experiment).__name__, state.program),
        fix=f"read it in forward, loss or optimizer, where it can change live, or\n"
        f"mark it `{name}: GraphConst[...]` if it shapes the model",
    )


def _bind(raw: Any, instance: Any) -> Any:
    get = getattr(type(raw), "__get__", None)
    return raw if get is None else get(raw, instance, type(instance))


def _caller(experiment: str, program: str) -> str:
    """The user's line that touched the view."""
    frame = sys._getframe(2)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return f"{experiment}, program {program}"
    code = frame.f_code
    return f"{experiment}.{code.co_name}, {place_of(code.co_filename, frame.f_lineno)}"
