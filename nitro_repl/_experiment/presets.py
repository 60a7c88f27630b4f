"""Presets: named values of fields that a class offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import FieldError, suggest

if TYPE_CHECKING:
    from .base import Experiment


def preset_values(cls: type[Experiment], name: str) -> Mapping[str, Any]:
    """The field values of one of a class's presets.

    Raises:
        FieldError: There is no such preset, or it names something that is no field.
    """
    known = getattr(cls, "presets", {})
    known = known() if callable(known) else known
    where = f"{cls.__name__}.presets"
    if not isinstance(known, Mapping) or name not in known:
        names = known if isinstance(known, Mapping) else ()
        raise FieldError(
            f"`{cls.__name__}` has no preset `{name}`",
            where=where,
            fix=suggest(str(name), names)
            if names
            else f'presets = {{"{name}": {{"field": value}}}}',
        )
    values = known[name]
    for key in values:
        if key not in cls.__fields__:
            raise FieldError(
                f"the preset `{name}` gives `{key}`, which is no field",
                where=where,
                fix=suggest(str(key), cls.__fields__),
            )
    return values
