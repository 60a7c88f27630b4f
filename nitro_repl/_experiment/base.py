"""The Experiment base class: frozen, keyword-only, its hooks plain methods.

An instance never changes; `replace` makes another. Equal ones have equal fields.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import optax

from .._text import tell
from .._where import place
from ..errors import FieldError, HookError, suggest
from . import figures
from .declarations import check_declaration, with_inherited
from .equality import hashed, same
from .fields import MISSING, Field, collect_fields, field, own_copy
from .hooks import HOOKS, HOST_SETTINGS, is_program, uses_bare_super
from .presets import preset_values
from .program import mark

F = TypeVar("F", bound=Callable[..., Any])


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(field,)
)
class Experiment:
    """What to train and how: fields, and the hooks that use them.

    Fields are annotated class attributes: `GraphConst[T]` (baked into programs),
    `Device[T]` (an input of programs, changed without compiling) or unmarked (Host).
    Hooks are methods; `build_data`, `build_model`, `forward` and `loss` are needed.

    Example:
        >>> class Digits(Experiment):
        ...     width: GraphConst[int] = 128
        ...     def build_data(self): ...
        ...     def build_model(self, rngs): ...
        ...     def forward(self, model, *, image): ...
        ...     def loss(self, logits, *, label): ...
        >>> Digits(width=64).replace(width=32).width
        32
    """

    __fields__: ClassVar[Mapping[str, Field]] = {}
    __attached__: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if cls.__dict__.get("__is_view__"):
            return
        body = _class_body_frame()
        own = collect_fields(cls, body.f_globals, body.f_locals)
        for name, declared in own.items():
            check_declaration(cls, declared)
            if declared.default is MISSING:
                if name in cls.__dict__:
                    delattr(cls, name)
            else:
                setattr(cls, name, declared.default)
        cls.__fields__ = with_inherited(cls, own)
        cls.__attached__ = {}
        _say_dropped(cls, body.f_locals.get(cls.__name__))

    def __init__(self, **values: Any) -> None:
        fields = type(self).__fields__
        for name in values:
            if name not in fields:
                raise FieldError(
                    f"`{type(self).__name__}` has no field `{name}`",
                    where=f"{type(self).__name__}({name}=...)",
                    fix=suggest(name, fields),
                )
        for declared in fields.values():
            if declared.name in values:
                self.__dict__[declared.name] = values[declared.name]
            elif declared.default is not MISSING:
                self.__dict__[declared.name] = declared.own_default()
            elif declared.default_factory is None:
                raise FieldError(
                    f"the field `{declared.name}` needs a value",
                    where=f"{type(self).__name__}()",
                    fix=f"{type(self).__name__}({declared.name}=...)",
                )
        self.__dict__["_given"] = frozenset(values)

    def __getattr__(self, name: str) -> Any:
        declared = type(self).__fields__.get(name)
        if declared is not None and declared.default_factory is not None:
            return self.__dict__.setdefault(name, declared.default_factory())
        close = difflib.get_close_matches(name, dir(type(self)), n=1)
        hint = f"; did you mean `{close[0]}`?" if close else ""
        raise AttributeError(f"`{type(self).__name__}` has no attribute `{name}`{hint}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise FieldError(
            f"an experiment is frozen: `{name}` cannot be assigned",
            where=type(self).__name__,
            fix=f"experiment.replace({name}=...) before training, "
            f"run.set({name}=...) for a Device field of a live run",
        )

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __repr__(self) -> str:
        shown = (
            f"{name}={_short(self.__dict__.get(name, '...'))}"
            for name in type(self).__fields__
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        """Whether it is of the same class with the same values of all fields.

        A default that no factory has made yet is the same as another of its class.
        """
        mine, its = self.__dict__, getattr(other, "__dict__", {})
        if type(self) is not type(other) or "_given" not in mine:  # a traced view
            return NotImplemented
        return self is other or all(
            same(mine[name], its[name])
            if name in mine and name in its
            else not {name} & (mine["_given"] | its["_given"])
            for name in type(self).__fields__
        )

    def __hash__(self) -> int:
        fields = type(self).__fields__.values()
        own = (d.name for d in fields if d.default_factory is None)
        return hash((type(self), *(hashed(self.__dict__.get(name)) for name in own)))

    def replace(self, **changes: Any) -> Self:
        """A new experiment of the same class with some fields changed.

        Raises:
            FieldError: A name is not a field.
        """
        given = {name: self.__dict__[name] for name in self.__dict__["_given"]}
        made = type(self)(**{**given, **changes})
        for declared in type(self).__fields__.values():
            if declared.copies and declared.name not in {*given, *changes}:
                # One of its own, with what was changed in it.
                made.__dict__[declared.name] = own_copy(self.__dict__[declared.name])
        for name in {"_preset", "_overridden"} & self.__dict__.keys():
            made.__dict__[name] = self.__dict__[name]
        if "_overridden" in made.__dict__:
            made.__dict__["_overridden"] |= changes.keys()
        return made

    @classmethod
    def from_preset(cls, name: str, /, **overrides: Any) -> Self:
        """An experiment with the field values that the class's `presets` name.

        Args:
            name: A key of `presets`: a dict of dicts of field values, or a class
                method that returns it.
            **overrides: Other values of fields.

        Raises:
            FieldError: There is no such preset, or it names something that is no field.

        Example:
            >>> class Digits(Experiment):
            ...     width: int = 64
            ...     presets = {"big": {"width": 512}}
            >>> Digits.from_preset("big").width
            512
        """
        values = preset_values(cls, name)
        made = cls(**{**values, **overrides})
        made.__dict__["_preset"] = name
        made.__dict__["_overridden"] = frozenset(overrides)
        return made

    @classmethod
    def hook(cls, function: F) -> F:
        """Attach a function as a hook of this class, as if written in its body.

        Handles built before keep what they were built with; a new `Nitro`, or `swap`
        on a live run, takes the new one.

        Raises:
            HookError: The name is no hook and no method of the class, or the function
                uses `super()` without arguments.

        Example:
            >>> @Digits.hook
            ... def loss(self, logits, *, label): ...
        """
        name = getattr(function, "__name__", "")
        methods = {
            key
            for key in dir(cls)
            if callable(getattr(cls, key, None)) and not key.startswith("_")
        }
        known = (methods | {*HOOKS, *HOST_SETTINGS}) - {
            "hook",
            "replace",
            "from_preset",
        }
        if name not in known and not is_program(function):
            raise HookError(
                f"`{name}` is neither a hook nor a method of `{cls.__name__}`",
                where=place(function),
                fix=suggest(name, known),
            )
        if uses_bare_super(function):
            raise HookError(
                f"`{name}` uses super() without arguments outside of a class body",
                where=place(function),
                fix=f"super({cls.__name__}, self).{name}(...)",
            )
        if is_program(getattr(cls, name, None)):
            mark(function)  # an edit of a program method is one, too
        setattr(cls, name, function)
        cls.__attached__[name] = function
        return function

    # ---- defaults of the optional hooks

    def optimizer(self, hp: Any) -> Any:
        """RAdam (Liu et al., 2020, arXiv:1908.03265) at the run's learning rate."""
        return optax.radam(hp.learning_rate)

    def learning_rate(self) -> Any:
        """The learning rate at step 0."""
        return 1e-3

    def weight_decay(self) -> Any:
        """Decoupled weight decay (Loshchilov and Hutter, 2019, arXiv:1711.05101)."""
        return 0.0

    def param_group(self, path: tuple[str, ...], leaf: Any) -> str:
        """The group of a parameter, from its path and its shape and dtype."""
        return "default"

    def no_decay(self, path: tuple[str, ...], leaf: Any) -> bool:
        """Whether weight decay leaves a parameter alone."""
        return leaf.ndim <= 1

    def frozen(self, path: tuple[str, ...], leaf: Any) -> bool:
        """Whether a parameter is not trained at all."""
        return False

    def decay_anchor(self) -> Any:
        """What weight decay pulls toward: "zero", "initial" or a tree of arrays."""
        return "zero"

    def finalize_metrics(self, totals: dict[str, Any], split: str) -> dict[str, Any]:
        """What to report for a split, from its reduced metrics."""
        return totals

    def save_figure(self, figure: Any, stem: Path) -> Any:
        """Save what `visualize` returned under a path without suffix; the path."""
        return figures.save(figure, stem)


def preset_of(experiment: Experiment) -> str:
    """The preset that an experiment began with, or ""."""
    return experiment.__dict__.get("_preset", "")


def _class_body_frame() -> FrameType:
    """The frame that executes the class statement, for its names."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    assert frame is not None
    return frame


def _say_dropped(cls: type[Experiment], before: Any) -> None:
    """Name the hooks that were attached to the class that this one replaces."""
    attached = getattr(before, "__attached__", None)
    if attached and getattr(before, "__qualname__", "") == cls.__qualname__:
        hooks = ", ".join(f"{name} ({place(f)})" for name, f in attached.items())
        tell(
            f"nitro: this {cls.__name__} is a new class, without the hooks attached to "
            f"the one before: {hooks}; run those cells again to attach them"
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
