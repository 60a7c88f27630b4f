"""The fields that a class statement declares, with those of its bases."""

from __future__ import annotations

from ..errors import ExperimentError
from .fields import Field, Residency
from .hooks import HOOKS

_RESERVED = {"hook", "replace", "from_preset", "presets", "training", "key"}


def check_declaration(cls: type, declared: Field) -> None:
    """Refuse a field that cannot be one.

    Raises:
        ExperimentError: Its name or its marker is taken for something else.
    """
    required = {hook.name for hook in HOOKS.values() if hook.required}
    if declared.name in required | _RESERVED:
        raise ExperimentError(
            f"`{declared.name}` is reserved and cannot be a field",
            where=cls.__name__,
            fix="choose another name",
        )
    if declared.name == "seed" and declared.residency is Residency.GRAPH_CONST:
        raise ExperimentError(
            "the seed may not be a GraphConst: each seed would be a new program",
            where=f"{cls.__name__}.seed",
            fix="write `seed: int = 0`",
        )


def with_inherited(cls: type, own: dict[str, Field]) -> dict[str, Field]:
    """All fields of a class by name, those of its bases first."""
    inherited: dict[str, Field] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited.update(vars(base).get("__fields__", {}))
    return {
        name: _plain_override(cls, declared, own)
        for name, declared in {**inherited, **own}.items()
    }


def _plain_override(cls: type, declared: Field, own: dict[str, Field]) -> Field:
    """Let `width = 64` in a subclass body override an inherited field's default."""
    if declared.name in own or declared.name not in cls.__dict__:
        return declared
    value = cls.__dict__[declared.name]
    if callable(value) or isinstance(value, property | classmethod | staticmethod):
        return declared
    return Field(
        declared.name,
        declared.residency,
        declared.type,
        value,
        None,
        declared.bounds,
        declared.log,
        declared.doc,
    )
