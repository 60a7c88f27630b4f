"""The binding report: what is in force, and where each value comes from.

Plain values of one moment, of set-up or of a run; drawing it reads nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .._experiment.base import Experiment, preset_of
from .._experiment.fields import Field, Residency
from .._text import View, plain, show
from ..errors import NitroError
from .group_rows import GroupRow, group_rows, group_table
from .loader import ArrayLoader
from .origins import SWAPPED, Moment, field_source, setting_source
from .schedule_rows import ScheduleRow, schedule_rows, schedule_table
from .schedules import Schedules, schedules
from .settings import FIXED, SETTINGS

if TYPE_CHECKING:
    from .nitro import Nitro

audience: list[Callable[[Binding], None]] = []
"""Those who show the report of each new handle."""


@dataclasses.dataclass(frozen=True)
class Bound:
    """A field or setting: its value and where that comes from.

    Attributes:
        source: "keyword", "preset", "derive", "field", "method" or "default"; in a run
            also "set at step 12", "schedule", "swapped hook", or "earlier code" for a
            value that a swap left as it was.
        about: Of a field: marker, bounds, scale and doc; of a value that is kept, what
            `unset` would give.
    """

    name: str
    value: object
    source: str
    about: str = ""


@dataclasses.dataclass(frozen=True, repr=False)
class Binding(View):
    """What is in force for a handle.

    Attributes:
        experiment: Class name.
        preset: The preset that it began with, or "".
        fields: Fields of the experiment; likewise `settings`.
        splits: By name, what is known of a split, in words.
        groups: How each group of parameters is updated.
        schedules: What each scheduled value follows.
        swapped: By hook that a swap took, what is new in it, in words.
        moment: The run and its step, or "" for set-up.
    """

    experiment: str
    preset: str
    fields: Sequence[Bound]
    settings: Sequence[Bound]
    splits: Mapping[str, str]
    groups: Sequence[GroupRow]
    schedules: Sequence[ScheduleRow]
    swapped: Mapping[str, str] = dataclasses.field(default_factory=dict)
    moment: str = ""

    def __rich__(self) -> RenderableType:
        preset = f"preset {self.preset}" if self.preset else ""
        title = ", ".join(filter(None, (self.experiment, preset, self.moment)))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
        table.title = plain(title, style="bold")
        for name in ("name", "value", "from", "about"):
            table.add_column(name, overflow="fold")
        for rows in (self.fields, self.settings):
            for row in rows:
                table.add_row(
                    plain(row.name, 30),
                    plain(show(row.value, 40), 40),
                    plain(row.source, 20, "dim" if row.source == "default" else ""),
                    plain(row.about, 50),
                )
            table.add_section()
        for name, words in self.splits.items():
            table.add_row(Text("split"), plain(name, 30), Text(""), plain(words, 60))
        for name, words in self.swapped.items():
            table.add_row(
                Text("hook"), plain(name, 30), Text(SWAPPED), plain(words, 60)
            )
        groups = [group_table(self.groups)] if self.groups else []
        schedules = [schedule_table(self.schedules)] if self.schedules else []
        return Group(table, *groups, *schedules)


def set_up(handle: Nitro) -> Binding:
    """Take down what a handle was set up with."""
    try:  # the hook may need a horizon that only `train` gives
        followed = schedules(
            handle.experiment, handle.hooks, handle.plan.values, handle.budget()
        )
    except (NitroError, KeyError):
        followed = Schedules({})
    guard = handle.settings["on_nonfinite"]
    return binding(Moment(handle, handle.plan, followed, guard))


def binding(moment: Moment) -> Binding:
    """Take down what is in force at a moment."""
    handle, now = moment.handle, moment.now
    cls = type(now.experiment)
    return Binding(
        cls.__name__,
        preset_of(handle.experiment),
        [_field(moment, name, cls.__fields__[name]) for name in _fields(moment)],
        _settings(moment),
        {name: split_words(loader) for name, loader in handle.data.items()},
        group_rows(now, moment.followed),
        schedule_rows(moment.followed, now.values),
        {name: ", ".join(causes) for name, causes in moment.moved.items()},
        moment.said,
    )


def _fields(moment: Moment) -> list[str]:
    """The fields, without settings that a swap made fields of: the handle keeps its."""
    mine, now = type(moment.handle.experiment).__fields__, type(moment.now.experiment)
    return [name for name in now.__fields__ if name in mine or name not in FIXED]


def _field(moment: Moment, name: str, declared: Field) -> Bound:
    if declared.residency is Residency.DEVICE:
        value = moment.value(name)
        source, kept = moment.origin(name, value)
        said = f"{about(declared)}, {kept}" if kept else about(declared)
        return Bound(name, value, source, said)
    value = getattr(moment.now.experiment, name)
    return Bound(name, value, field_source(moment.handle, name), about(declared))


def _settings(moment: Moment) -> list[Bound]:
    """Settings that are no field, or that a keyword gives another value than that."""
    handle, now = moment.handle, moment.now
    fields, live = _fields(moment), now.values.hyper_names
    values = {**handle.settings, "on_nonfinite": moment.on_nonfinite}
    if not now.hooks.manual:
        recipe = now.settled.recipe
        values |= {"clip_norm": recipe.clip_norm, "ema": recipe.ema}
    rows = []
    for name in {**SETTINGS, **values, **dict.fromkeys(live)}:
        if name in fields and (name in live or name not in handle.given):
            continue
        if name in live:
            value = moment.value(name)
            rows.append(Bound(name, value, *moment.origin(name, value)))
        elif name in values:
            rows.append(Bound(name, values[name], _setting(moment, name)))
    return rows


def _setting(moment: Moment, name: str) -> str:
    if name in moment.by_hand:
        return f"set at step {moment.by_hand[name][0]}"
    if name in FIXED:
        return _kept(moment.handle, name)
    taken = name in ("clip_norm", "ema")  # asked again by a swap
    return moment.setting(name, moment.now.hooks if taken else moment.handle.hooks)


def _kept(handle: Nitro, name: str) -> str:
    """Where a setting comes from that no swap changes."""
    cls = type(handle.experiment)
    if name in cls.__fields__ and name not in handle.given:
        return field_source(handle, name)
    return setting_source(cls, handle.hooks, name, handle.given)


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
