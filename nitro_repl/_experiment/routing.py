"""Which fields of a batch a hook gets: the names of its keyword-only parameters.

A hook never receives a field that it did not name, and never runs without one it needs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .._where import place
from ..errors import DataError, HookError
from .hooks import entry

KEY = "key"


@dataclass(frozen=True)
class Route:
    """The batch fields of one hook.

    Attributes:
        required: Fields it cannot do without.
        optional: Fields with a default.
        takes_all: Whether it has `**batch`.
        wants_key: Whether it asks for a random key.
    """

    hook: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    takes_all: bool = False
    wants_key: bool = False
    place: str = ""

    def names(self, available: Iterable[str]) -> tuple[str, ...]:
        """The fields to hand over out of those available, sorted."""
        available = set(available)
        if self.takes_all:
            return tuple(sorted(available))
        return tuple(sorted(available & {*self.required, *self.optional}))

    def pick(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a batch that the hook gets."""
        return {name: batch[name] for name in self.names(batch)}

    def takes(self, given: Iterable[str]) -> bool:
        """Whether it can be called with exactly these."""
        given = set(given)
        known = {*self.required, *self.optional}
        return given >= {*self.required} and (self.takes_all or given <= known)

    def check(self, available: Iterable[str], split: str) -> None:
        """Refuse a batch that lacks a field.

        Raises:
            DataError: A required field is missing; both sides are named.
        """
        have = sorted(available)
        lacking = [name for name in self.required if name not in have]
        if lacking:
            names = ", ".join(f"`{name}`" for name in lacking)
            raise DataError(
                f"`{self.hook}` needs {names}, but a batch of `{split}` has "
                + (", ".join(f"`{name}`" for name in have) or "no fields"),
                where=f"{self.hook}, {self.place}" if self.place else self.hook,
                fix=f"yield {names} in build_data, rename the parameter,\n"
                "or give it a default",
            )


def route(function: Callable[..., Any], hook: str) -> Route:
    """Read the signature of a hook (its function, `self` included).

    Raises:
        HookError: The parameters before the batch fields are not those of the hook.

    Example:
        >>> route(Digits.loss, "loss").required
        ('label',)
    """
    expected = entry(hook).positional
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return Route(hook, takes_all=True)
    kinds = inspect.Parameter
    positional = [
        p
        for p in parameters
        if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    keyword = [p for p in parameters if p.kind is kinds.KEYWORD_ONLY]
    variadic = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    if not variadic and len(positional) != 1 + len(expected):
        raise _wrong_signature(hook, expected, positional, function)
    named = [p for p in keyword if p.name != KEY]
    return Route(
        hook,
        tuple(p.name for p in named if p.default is kinds.empty),
        tuple(p.name for p in named if p.default is not kinds.empty),
        any(p.kind is kinds.VAR_KEYWORD for p in parameters),
        any(p.name == KEY for p in keyword),
        place(function),
    )


def _wrong_signature(
    hook: str,
    expected: tuple[str, ...],
    positional: list[inspect.Parameter],
    function: Any,
) -> HookError:
    got = [p.name for p in positional]
    surplus = got[1 + len(expected) :]
    lead = ", ".join(("self", *expected))
    batch = entry(hook).batch
    star = f", *, {', '.join(surplus)}" if surplus and batch else ""
    return HookError(
        f"`{hook}` takes ({lead}"
        + (", *, batch fields" if batch else "")
        + f"), not ({', '.join(got)})",
        where=place(function),
        fix=f"def {hook}({lead}{star})",
    )
