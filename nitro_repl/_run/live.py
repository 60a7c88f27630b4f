"""The live values of a run: Device fields and hyperparameters, as programs take them.

A change is checked whole before any of it holds, and never changes an aval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from .._experiment.base import Experiment
from .._experiment.device import default_device, place, plain, signature
from .._experiment.fields import Field, Residency
from .._experiment.hyper import ANCHORS, NAMES, injection
from .._programs.key import struct
from ..errors import FieldError, suggest
from .rates import DECAY, Rates
from .scalar import Scalar


class Values:
    """Values on the device, by name.

    Args:
        experiment: Gives the Device fields their first values.
        hyper: First values of the hyperparameters, as numbers.
        like: Live values, which go on wherever they fit.
        anchors: Arrays that weight decay pulls toward, by parameter.
    """

    def __init__(
        self,
        experiment: Experiment,
        hyper: Mapping[str, float],
        like: Values | None = None,
        anchors: Mapping[str, Any] = MappingProxyType({}),
    ):
        self.experiment = experiment
        self.device = default_device()
        declared = type(experiment).__fields__.values()
        self._declared = {
            f.name: f for f in declared if f.residency is Residency.DEVICE
        }
        self._declared |= {
            name: Field(name, Residency.DEVICE, float)
            for name in hyper
            if name not in self._declared
        }
        first = {
            name: getattr(experiment, name)
            for name in self._declared
            if name not in hyper
        }
        self.initial = {**first, **hyper}
        self._values = {
            name: like._values[name] if like is not None and self._begins_as(like, name)
            else place(value, self._declared[name])
            for name, value in self.initial.items()
        }  # fmt: skip
        self._hyper = tuple(sorted(hyper))
        self._known: dict[str, tuple[Any, Any]] = {}  # as read from the device
        self._shown = self._hyper
        self._rates = Rates(hyper)
        self._sources = anchors
        self._anchors = {
            name: like._anchors[name]
            if like is not None and like._sources.get(name) is array
            else jax.device_put(array, self.device)
            for name, array in anchors.items()
        }
        if like is None:
            self._refresh()
        else:
            self.keep(like)

    @property
    def fields(self) -> dict[str, Any]:
        """Values of the Device fields, on the device."""
        return {name: self._values[name] for name in self._names}

    @property
    def hyper(self) -> dict[str, Any]:
        """Values of the hyperparameters, on the device, and the anchors of decay."""
        values = {name: self._values[name] for name in self._hyper}
        return {**values, ANCHORS: self._anchors} if self._anchors else values

    @property
    def avals(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Avals of the fields and of the hyperparameters."""
        return jax.tree.map(struct, self.fields), jax.tree.map(struct, self.hyper)

    @property
    def device_names(self) -> tuple[str, ...]:
        """Names of the Device fields."""
        return self._names

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all values."""
        return tuple(self._values)

    def declared(self, name: str) -> Field:
        """How a value was declared."""
        return self._declared[name]

    @property
    def hyper_names(self) -> tuple[str, ...]:
        """Names of the hyperparameters."""
        return self._hyper

    def tied(self, base: str) -> dict[str, float]:
        """The values of groups that go with a base value, with their ratios to it."""
        return self._rates.tied(base)

    def follows(self, name: str) -> bool:
        """Whether the value of a group goes with the base as at set-up."""
        return self._rates.follows(name)

    def scalar(self, name: str) -> Scalar | None:
        """What a value is cast to that is a single number, else None."""
        current, kind = self._values[name], self._declared[name].type
        if kind in (float, int, bool):
            return Scalar(kind, self.device)
        if not isinstance(current, jax.Array) or current.shape or not (
            np.issubdtype(current.dtype, np.number) or current.dtype == np.bool_
        ):  # fmt: skip
            return None
        if current.weak_type:
            kind = float if np.issubdtype(current.dtype, np.floating) else int
            return Scalar(kind, self.device)
        return Scalar(current.dtype, self.device)

    def show(self, names: Iterable[str]) -> None:
        """Have `numbers` hold these too from now on, beside the hyperparameters."""
        shown = sorted({*names, *self._shown})
        self._shown = tuple(dict.fromkeys((*self._hyper, *shown)))
        self._refresh()

    def follow(self, changes: Mapping[str, tuple[Any, Any]]) -> None:
        """Take scheduled values, as numbers and as arrays of the avals there are."""
        leaves = list(self.leaves)
        for name, (_, leaf) in changes.items():
            self._values[name] = leaf
            for index in self._places[name]:
                leaves[index] = leaf
        self.leaves = tuple(leaves)
        self.field_leaves = self.leaves[: len(self.field_leaves)]
        self.numbers = self.numbers | {n: number for n, (number, _) in changes.items()}

    def plain(self) -> dict[str, Any]:
        """All values as Python numbers or numpy arrays."""
        return {name: plain(value) for name, value in self._values.items()}

    def number(self, name: str) -> Any:
        """A value that is a single number; read from the device when it is new."""
        value, known = self._values[name], self._known.get(name)
        if known is None or known[0] is not value:
            known = self._known[name] = (value, plain(value))
        return known[1]

    def struct(self, name: str) -> Any:
        """Avals of a value; nothing is read from the device."""
        return jax.tree.map(struct, self._values[name])

    def set(
        self,
        changes: Mapping[str, Any],
        check: Callable[[Mapping[str, float]], None] = lambda numbers: None,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Change values.

        Args:
            changes: New values by name.
            check: Refuses hyperparameters, which it gets before they hold.

        Returns:
            The values before and after, of the names that were changed.

        Raises:
            FieldError: A name or value is refused; then nothing has changed.
        """
        made = {
            name: place(value, self._field(name), self._values[name])
            for name, value in changes.items()
        }
        numbers = {name: plain(made[name]) for name in self._hyper if name in made}
        followed, rates = self._rates.after(numbers, self.numbers)
        made |= {
            name: place(value, self._declared[name]) for name, value in followed.items()
        }
        return self._take(made, {**numbers, **followed}, rates, check)

    def unset(
        self,
        name: str,
        check: Callable[[Mapping[str, float]], None] = lambda numbers: None,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Give a value back to what the experiment says, and a group to the base.

        Args and returns are those of `set`.

        Raises:
            FieldError: There is no such value, or `check` refuses; nothing changed.
        """
        self._field(name, "unset")
        changes, rates = self._rates.without(name, self.numbers, self.initial)
        made = {
            name: place(value, self._declared[name], self._values[name])
            for name, value in changes.items()
        }
        numbers = {name: plain(made[name]) for name in made if name in self._hyper}
        return self._take(made, numbers, rates, check)

    def free(self, name: str) -> None:
        """Forget what a scheduled value of a group was set to by hand."""
        self._rates = self._rates.freed(name)

    def _take(
        self,
        made: Mapping[str, Any],
        numbers: Mapping[str, float],
        rates: Rates,
        check: Callable[[Mapping[str, float]], None],
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if any(name.endswith(DECAY) for name in numbers):
            check(numbers)
        self._rates = rates
        before = {name: plain(self._values[name]) for name in made}
        self._values |= made
        self._refresh()
        return before, {name: plain(value) for name, value in made.items()}

    def keep(self, other: Values) -> None:
        """Take over another's present values, where a name holds the same avals."""
        for name, value in other._values.items():
            mine = self._values.get(name)
            if mine is not None and signature(mine) == signature(value):
                self._values[name] = value
        self._shown += tuple(name for name in other._shown if name in self._values)
        self._rates = self._rates.keeping(other._rates)
        for base in NAMES:  # a group that is new goes with the live base
            for name, ratio in self.tied(base).items():
                if name not in other._values:
                    number = ratio * plain(self._values[base])
                    self._values[name] = place(number, self._declared[name])
        self._refresh()

    def _begins_as(self, other: Values, name: str) -> bool:
        """Whether a value began as it does there, so that its avals are the same."""
        if name not in other._values or other.device != self.device:
            return False
        mine, its = self.initial[name], other.initial[name]
        numbers = isinstance(mine, (bool, int, float)) and type(mine) is type(its)
        return self._declared[name].type is other._declared[name].type and (
            mine is its or (numbers and mine == its)
        )

    def _field(self, name: str, verb: str = "set") -> Field:
        if name in self._declared and name in self._values:
            return self._declared[name]
        cls = type(self.experiment)
        declared = cls.__fields__.get(name)
        if declared is None:
            raise FieldError(
                f"`{cls.__name__}` has no value `{name}` to {verb}",
                where=f"{verb} {name}",
                fix=injection(name, self._values) or suggest(name, self._values),
            )
        meaning = (
            "a GraphConst, baked into the programs"
            if declared.residency is Residency.GRAPH_CONST
            else "a Host field, which programs never read"
        )
        raise FieldError(
            f"`{name}` is {meaning}; it cannot be set on a live run",
            where=f"{verb} {name}, {cls.__name__}",
            fix=f"mark it Device[...] to change it live,\n"
            f"or build a new Nitro({cls.__name__}({name}=...))",
        )

    def _refresh(self) -> None:
        self._names = tuple(sorted(set(self._declared) & self._own_fields()))
        self.leaves = tuple(jax.tree.leaves((self.fields, self.hyper)))
        self.field_leaves = tuple(jax.tree.leaves(self.fields))
        self.numbers = {name: plain(self._values[name]) for name in self._shown}
        self._places = self._found()

    def _found(self) -> dict[str, list[int]]:
        """Where each value that is one array stands among the leaves."""
        places: dict[str, list[int]] = {}
        paths = jax.tree_util.tree_flatten_with_path((self.fields, self.hyper))[0]
        for index, (path, _) in enumerate(paths):
            places.setdefault(path[1].key, []).append(index)
        return places

    def _own_fields(self) -> set[str]:
        return {
            f.name
            for f in type(self.experiment).__fields__.values()
            if f.residency is Residency.DEVICE
        }
