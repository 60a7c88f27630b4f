"""The binding report: what a handle was set up with, and where each value comes from.

Plain values of the moment of set-up; drawing it reads nothing else.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from .._experiment.base import Experiment, preset_of
from .._experiment.fields import Field
from .._experiment.hooks import Hooks
from .._text import View, plain, show
from .loader import ArrayLoader
from .settings import SETTINGS

if TYPE_CHECKING:
    from .nitro import Nitro

audience: list[Callable[[Binding], None]] = []
"""Those who show the report of each new handle."""


@dataclasses.dataclass(frozen=True)
class Bound:
    """A field or setting: its value and where that comes from.

    Attributes:
        source: "keyword", "preset", "derive", "field", "method" or "default".
        about: Of a field: marker, bounds, scale and doc.
    """

    name: str
    value: object
    source: str
    about: str = ""


@dataclasses.dataclass(frozen=True, repr=False)
class Binding(View):
    """What a handle was set up with.

    Attributes:
        experiment: Class name.
        preset: The preset that it began with, or "".
        fields: Fields of the experiment; likewise `settings`.
        splits: By name, what is known of a split, in words.
        groups: By group, what is known of its parameters, in words.
        schedules: Names that follow a schedule.
    """

    experiment: str
    preset: str
    fields: Sequence[Bound]
    settings: Sequence[Bound]
    splits: Mapping[str, str]
    groups: Mapping[str, str]
    schedules: Sequence[str]

    def __rich__(self) -> RenderableType:
        title = f"{self.experiment}, preset {self.preset}" if self.preset else ""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
        table.title = plain(title or self.experiment, style="bold")
        for name in ("name", "value", "from", "about"):
            table.add_column(name, overflow="fold")
        for rows in (self.fields, self.settings):
            for row in rows:
                table.add_row(
                    plain(row.name, 30),
                    plain(show(row.value, 40), 40),
                    plain(row.source, 10, "dim" if row.source == "default" else ""),
                    plain(row.about, 50),
                )
            table.add_section()
        for kind, said in (("split", self.splits), ("group", self.groups)):
            for name, words in said.items():
                table.add_row(Text(kind), plain(name, 30), Text(""), plain(words, 60))
        for name in self.schedules:
            table.add_row(Text("schedule"), plain(name, 30), Text(""), Text(""))
        return table


def binding(handle: Nitro) -> Binding:
    """Take down what a handle was set up with."""
    experiment, hooks = handle.experiment, handle.hooks
    cls = type(experiment)
    fields = [
        Bound(name, getattr(experiment, name), handle.origin(name), about(declared))
        for name, declared in cls.__fields__.items()
    ]
    values = {**handle.settings, **handle.values.plain()}
    names = [name for name in {**SETTINGS, **values} if name not in cls.__fields__]
    settings = [
        Bound(name, values[name], setting_source(cls, hooks, name, handle.given))
        for name in names
        if name in values
    ]
    recipe, structure = handle.blueprint.recipe, handle.blueprint.structure
    sizes: Counter[str] = Counter()
    for group, aval in zip(recipe.groups, structure.param_avals, strict=True):
        sizes[group] += aval.size
    leaves = Counter(recipe.groups)
    groups = {
        group: f"{leaves[group]} parameters, {size:,} numbers"
        for group, size in sizes.items()
    }
    if hooks.manual:
        groups = {}
    followed = handle.scheduled_names()
    splits = {name: split_words(loader) for name, loader in handle.data.items()}
    return Binding(
        cls.__name__, preset_of(experiment), fields, settings, splits, groups, followed
    )


def metadata(cls: type[Experiment]) -> dict[str, dict[str, Any]]:
    """By field, what its declaration says beside the value."""
    return {
        name: {
            "marker": declared.marker,
            **({"doc": declared.doc} if declared.doc else {}),
            **({"bounds": list(declared.bounds)} if declared.bounds else {}),
            **({"log": True} if declared.log else {}),
        }
        for name, declared in cls.__fields__.items()
    }


def about(declared: Field) -> str:
    """What a declaration says, in words."""
    parts = [declared.marker]
    if declared.bounds is not None:
        low, high = declared.bounds
        parts.append(f"{low:g} to {high:g}{', log' if declared.log else ''}")
    return ", ".join([*parts, *([declared.doc] if declared.doc else [])])


def setting_source(
    cls: type[Experiment], hooks: Hooks, name: str, given: Mapping[str, Any]
) -> str:
    """Where a setting comes from: keyword, then field or method, then default."""
    if name in given:
        return "keyword"
    if name in cls.__fields__:
        return "field"
    for own in (name, name.rpartition(".")[2]):
        if own in hooks and hooks[own] is not vars(Experiment).get(own):
            return "method"
    if hooks.manual and "." in name:
        return "method"
    return "default"


def split_words(loader: Any) -> str:
    """Batches, and samples where they are known."""
    batches = len(loader)
    said = f"{batches:,} {'batch' if batches == 1 else 'batches'}"
    if not isinstance(loader, ArrayLoader):
        return said
    samples = len(loader.order(0))
    dropped = samples - min(samples, batches * loader.batch_size)
    lost = f", {dropped:,} dropped" if dropped else ""
    return f"{said} of {loader.batch_size}, {samples:,} samples{lost}"
