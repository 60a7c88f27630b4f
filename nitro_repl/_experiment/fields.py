"""Fields of an experiment and the marker that says where each value lives.

The marker alone decides: `GraphConst` is baked into programs, `Device` is an input
of programs, an unmarked (Host) field never reaches compiled code.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from ..errors import FieldError

T = TypeVar("T")


class Residency(enum.Enum):
    """Where the value of a field lives."""

    GRAPH_CONST = "GraphConst"
    DEVICE = "Device"
    HOST = "Host"


GraphConst = Annotated[T, Residency.GRAPH_CONST]
"""A literal in compiled code: a new value is a new program, once per distinct value."""

Device = Annotated[T, Residency.DEVICE]
"""A traced input of compiled code: a new value never compiles."""


class _Missing(enum.Enum):
    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing.MISSING


@dataclasses.dataclass(frozen=True)
class Field:
    """One declared field of an experiment class."""

    name: str
    residency: Residency
    type: Any
    default: Any = MISSING
    default_factory: Callable[[], Any] | None = None
    bounds: tuple[float, float] | None = None
    log: bool = False
    doc: str = ""

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is MISSING and self.default_factory is None

    @property
    def copies(self) -> bool:
        """Whether each experiment gets a default of its own, which it may change."""
        return own_copy(self.default) is not self.default

    def own_default(self) -> Any:
        """The default for one experiment; changing it changes no other."""
        return own_copy(self.default)

    @property
    def marker(self) -> str:
        """The annotation as the user would write it."""
        inner = getattr(self.type, "__name__", str(self.type))
        if self.residency is Residency.HOST:
            return inner
        return f"{self.residency.value}[{inner}]"


def own_copy(value: Any) -> Any:
    """A copy of lists, dicts and sets, and of those in them; all else as it is."""
    if type(value) is dict:
        return {key: own_copy(item) for key, item in value.items()}
    if type(value) is list:
        return [own_copy(item) for item in value]
    if type(value) is set:
        return set(value)
    if type(value) is tuple:
        items = tuple(map(own_copy, value))
        changed = any(a is not b for a, b in zip(items, value, strict=True))
        return items if changed else value
    return value


def field(
    default: Any = MISSING,
    *,
    default_factory: Callable[[], Any] | None = None,
    bounds: tuple[float, float] | None = None,
    log: bool = False,
    doc: str = "",
) -> Any:
    """Declare a field with more than a default.

    Args:
        default: Value when none is given.
        default_factory: Makes the default; runs once per experiment, at set-up.
        bounds: Lowest and highest sensible value, for sliders and sweeps.
        log: Whether the field is best varied on a logarithmic scale.
        doc: One line for people.

    Raises:
        FieldError: Both a default and a factory are given, or the bounds are reversed.

    Example:
        >>> smoothing: Device[float] = field(0.05, bounds=(0.0, 0.3))
    """
    if default is not MISSING and default_factory is not None:
        raise FieldError(
            "a field has both a default and a default_factory",
            where="nitro.field",
            fix="keep one of the two",
        )
    if bounds is not None and not bounds[0] < bounds[1]:
        low, high = bounds
        raise FieldError(
            f"bounds={bounds!r} is not (low, high)",
            where="nitro.field",
            fix=f"bounds=({high!r}, {low!r})"
            if high < low
            else "give a number and a higher one, as bounds=(0.0, 1.0)",
        )
    return Field("", Residency.HOST, Any, default, default_factory, bounds, log, doc)


def collect_fields(
    cls: type, global_names: Mapping[str, Any], local_names: Mapping[str, Any]
) -> dict[str, Field]:
    """The fields declared in the body of one class, in order.

    Args:
        cls: The class, with its annotations as written (texts or objects).
        global_names: Globals of the class body, to resolve annotations that are texts.
        local_names: Locals around the class statement, for the same.
    """
    declared: dict[str, Field] = {}
    scope = {**vars(typing), **global_names, **local_names}
    for name, annotation in inspect.get_annotations(cls).items():
        resolved = _resolve(annotation, scope, f"{cls.__name__}.{name}")
        if _is_class_variable(resolved) or name.startswith("_"):
            continue
        residency, inner = _marker(resolved)
        written = cls.__dict__.get(name, MISSING)
        base = (
            written
            if isinstance(written, Field)
            else Field("", residency, inner, written)
        )
        declared[name] = dataclasses.replace(
            base, name=name, residency=residency, type=inner
        )
    return declared


def _resolve(annotation: Any, scope: dict[str, Any], where: str) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, scope)
    except Exception as error:
        if "GraphConst" in annotation or "Device" in annotation:
            raise FieldError(
                f"the annotation `{annotation}` cannot be evaluated: {error}",
                where=where,
                fix="import the names it uses before the class, at run time too",
            ) from None
        return Any  # a Host field's type is for people and type checkers only


def _is_class_variable(annotation: Any) -> bool:
    return (
        annotation is typing.ClassVar
        or typing.get_origin(annotation) is typing.ClassVar
    )


def _marker(annotation: Any) -> tuple[Residency, Any]:
    if typing.get_origin(annotation) is Annotated:
        inner, *extras = typing.get_args(annotation)
        for extra in extras:
            if isinstance(extra, Residency):
                return extra, inner
    return Residency.HOST, annotation
