"""The hook table as data, and one class's hooks as they were at one moment.

A `Hooks` never changes after it is made: a handle keeps what it was built with.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

from .._text import show
from .._where import is_ours
from ..errors import HookError, suggest
from .renewal import newest_class, renewed


@dataclass(frozen=True)
class Hook:
    """What the table knows of one hook.

    Attributes:
        positional: Names of the parameters after `self`, before the batch fields.
        batch: Whether keyword-only parameters are batch fields.
        traced: Whether it runs in compiled code.
        needs: What calling it without a definition should say, empty if optional.
    """

    name: str
    positional: tuple[str, ...] = ()
    batch: bool = False
    traced: bool = False
    required: bool = False
    example: str = ""


HOOKS: Mapping[str, Hook] = {
    hook.name: hook
    for hook in (
        Hook(
            "build_data",
            required=True,
            example="def build_data(self): return {'train': ..., 'val': ...}",
        ),
        Hook("derive", ("data",)),
        Hook(
            "build_model",
            ("rngs",),
            required=True,
            example="def build_model(self, rngs): return nnx.Linear(64, 10, rngs=rngs)",
        ),
        Hook(
            "forward",
            ("model",),
            batch=True,
            traced=True,
            required=True,
            example="def forward(self, model, *, image): return model(image)",
        ),
        Hook(
            "loss",
            ("outputs",),
            batch=True,
            traced=True,
            required=True,
            example="def loss(self, out, *, label): return abs(out - label).mean()",
        ),
        Hook("train_metrics", ("outputs",), batch=True, traced=True),
        Hook("metrics", ("outputs",), batch=True),
        Hook("finalize_metrics", ("totals", "split")),
        Hook("visualize", ("outputs",), batch=True),
        Hook("save_figure", ("figure", "stem")),
        Hook("optimizer", ("hp",), traced=True),
        Hook("learning_rate"),
        Hook("train_step", ("model", "optimizers"), batch=True, traced=True),
        Hook("setup_optimizers", ("model",), traced=True),
        Hook("schedules"),
        Hook("weight_decay"),
        Hook("param_group", ("path", "leaf")),
        Hook("no_decay", ("path", "leaf")),
        Hook("frozen", ("path", "leaf")),
        Hook("decay_anchor"),
        Hook("clip_norm"),
        Hook("ema"),
    )
}


PLAIN = ("learning_rate", "weight_decay", "clip_norm", "ema")
"""Hooks that may be a plain value instead of a method."""
HOST_SETTINGS = ("accum", "accum_mode")
"""Settings that the hook table lists: a method of the class may give them."""
PROGRAM_MARK = "__nitro_program__"


def entry(name: str) -> Hook:
    """What the table knows of a hook, or of a program method."""
    return HOOKS.get(name) or Hook(name, ("model",), batch=True, traced=True)


def is_program(member: Any) -> bool:
    """Whether a member is a `@nitro.program` method."""
    return isinstance(member, FunctionType) and hasattr(member, PROGRAM_MARK)


class Hooks(Mapping[str, Any]):
    """The members of a class at one moment, plus what a run binds over them.

    Example:
        >>> hooks = Hooks.of(Digits).bind(loss=focal)
        >>> hooks["loss"] is focal
        True
    """

    def __init__(self, cls: type, members: Mapping[str, Any]):
        self.cls = cls
        self._members = dict(members)

    @classmethod
    def of(cls, experiment_class: type) -> Hooks:
        """Take the present members of a class, its bases included."""
        members: dict[str, Any] = {}
        programs: set[str] = set()
        for base in reversed(experiment_class.__mro__[:-1]):
            members.update(
                {
                    name: value
                    for name, value in vars(base).items()
                    if not name.startswith("__")
                }
            )
            made = {name for name in vars(base) if name in programs}
            for name in made & members.keys():
                if isinstance(members[name], FunctionType):
                    setattr(members[name], PROGRAM_MARK, True)  # as in the base class
            programs |= {name for name in members if is_program(members[name])}
        return cls(experiment_class, members)

    def bind(self, **functions: Callable[..., Any]) -> Hooks:
        """The same hooks with some replaced.

        Raises:
            HookError: A name is no hook and no member of the class.
        """
        for name, function in functions.items():
            if name not in self._members and name not in HOOKS:
                raise HookError(
                    f"`{name}` is neither a hook nor a method of `{self.cls.__name__}`",
                    where="swap",
                    fix=suggest(name, HOOKS),
                )
            if is_program(self._members.get(name)):
                setattr(function, PROGRAM_MARK, True)
        return Hooks(self.cls, {**self._members, **functions})

    def programs(self) -> tuple[str, ...]:
        """Names of the `@nitro.program` methods, in the order of their definition."""
        return tuple(n for n, member in self._members.items() if is_program(member))

    def take(self, other: Hooks, names: tuple[str, ...]) -> Hooks:
        """The same hooks, with `names` as another table has them."""
        members = {
            name: value for name, value in self._members.items() if name not in names
        }
        members.update({name: other[name] for name in names if name in other})
        return Hooks(self.cls, members)

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def call(
        self, experiment: Any, name: str, /, *arguments: Any, **keywords: Any
    ) -> Any:
        """Call a hook on the host, as pinned here.

        Raises:
            HookError: A required hook is not defined.
        """
        return self.bound(experiment, name)(*arguments, **keywords)

    def bound(self, experiment: Any, name: str) -> Any:
        """A hook bound to an experiment."""
        try:
            raw = self._members[name]
        except KeyError:
            raise missing(name, self.cls.__name__) from None
        get = getattr(type(raw), "__get__", None)
        return raw if get is None else get(raw, experiment, type(experiment))

    def renewed(self, value: Any) -> Any:
        """A value as the newest classes that these hooks can name would have it."""
        return renewed(value, self._spaces)

    def newest(self, kind: type) -> type:
        """The class that now has the name of this one, as these hooks look it up."""
        return newest_class(kind, self._spaces)

    @functools.cached_property
    def _spaces(self) -> tuple[Mapping[str, Any], ...]:
        """The namespaces in which the functions among the members look names up."""
        spaces = (function.__globals__ for function in self.functions.values())
        return tuple({id(space): space for space in spaces}.values())

    @functools.cached_property
    def functions(self) -> Mapping[str, FunctionType]:
        """The user's own functions among the members, by name."""
        found: dict[str, FunctionType] = {}
        for name, member in self._members.items():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(function, FunctionType) and not is_ours(
                function.__code__.co_filename
            ):
                found[name] = function
        return found

    @property
    def manual(self) -> bool:
        """Whether the user's own `train_step` is the step."""
        return self.defines("train_step")

    def check_methods(self) -> None:
        """Refuse a plain value where a method belongs.

        Raises:
            HookError: `frozen = True` in the class body, for example.
        """
        for name, hook in HOOKS.items():
            member = self._members.get(name)
            if name not in self or name in PLAIN or callable(member):
                continue
            if hasattr(type(member), "__get__"):  # a property, a class method
                continue
            arguments = ", ".join(("self", *hook.positional))
            batch = ", *, ..." if hook.batch else ""
            raise HookError(
                f"`{name}` is {show(member)}, and a hook is a method",
                where=f"{self.cls.__name__}.{name}",
                fix=f"def {name}({arguments}{batch}): return ...",
            )

    def requires(self, name: str) -> bool:
        """Whether a hook of the table must be defined."""
        return HOOKS[name].required and not (self.manual and name == "loss")

    def defines(self, name: str) -> bool:
        """Whether the class has this hook."""
        return name in self._members


def reached(name: str, *tables: Hooks) -> dict[str, None]:
    """The hook and the members that it may call on `self`, and so on."""
    found, left = {name: None}, [name]
    while left:
        at = left.pop()
        for hooks in tables:
            function = inspect.unwrap(hooks[at]) if at in hooks else None
            code = getattr(function, "__code__", None)
            for other in getattr(code, "co_names", ()):
                if other in hooks and other not in found and other not in HOOKS:
                    found[other] = None
                    left.append(other)
    return found


def missing(name: str, experiment: str) -> HookError:
    """The error for a required hook that is not there."""
    hook = HOOKS[name]
    return HookError(
        f"the hook `{name}` is not defined",
        where=experiment,
        fix=f"write it in the class, for example\n{hook.example}",
    )


def uses_bare_super(function: Callable[..., Any]) -> bool:
    """Whether a function outside a class body calls `super()` with no arguments."""
    if not isinstance(function, FunctionType):
        return False
    if "__class__" in function.__code__.co_freevars:
        return False
    return any(map(_calls_bare_super, _codes(function.__code__)))


def _calls_bare_super(code: CodeType) -> bool:
    skipped = {"CACHE", "PRECALL", "PUSH_NULL", "RESUME", "NOP"}
    steps = [step for step in dis.get_instructions(code) if step.opname not in skipped]
    return any(
        step.opname == "LOAD_GLOBAL"
        and step.argval == "super"
        and after.opname == "CALL"
        and after.arg == 0
        for step, after in pairwise(steps)
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
