"""The durable result of a run: where it stands, metrics, changes, what is in force.

Plain values of one moment; in a notebook with the losses drawn, so that it can be read
without a kernel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .._text import View, one_line, plain
from .binding import Binding
from .curves import is_loss
from .drawing import drawing, legend
from .failure import describe
from .side import side
from .status import PHASE_STYLES, Progress
from .strokes import Curve, sparkline

if TYPE_CHECKING:
    from .readings import Readings


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Report(View):
    """The result of a run so far.

    Attributes:
        run: Its id.
        experiment: Class name.
        progress: Where it stands.
        metrics: Last value of each column of its history, by label.
        curves: Steps and values by label.
        changes: What was changed while it trained, oldest first.
        error: What ended it, with the user's frames.
        in_force: What it steps with now, and where each value comes from.
    """

    run: str
    experiment: str
    progress: Progress
    metrics: Mapping[str, float]
    curves: Mapping[str, Curve]
    changes: Sequence[str]
    error: str
    in_force: Binding

    def __rich__(self) -> RenderableType:
        style = PHASE_STYLES.get(self.progress.phase, "")
        who = Text.assemble(
            plain(self.experiment, 40, "bold"), " ", plain(self.run, 60)
        )
        rows = Table.grid(padding=(0, 2, 0, 0))
        for name, value in self.metrics.items():
            line = sparkline(self.curves[name], 30) if name in self.curves else ""
            rows.add_row(plain(name, 40), Text(f"{value:.6g}"), Text(line))
        changes = [plain(text, 200) for text in self.changes]
        error = [plain(line, 200, "red") for line in self.error.splitlines()]
        stands = Text(one_line(str(self.progress), 200), style)
        return Group(who, stands, *error, rows, *changes, self.in_force.__rich__())

    def _repr_html_(self) -> str:
        losses = {name: one for name, one in self.curves.items() if is_loss(name)}
        drawn = drawing(losses)
        style = "font:13px ui-monospace,Menlo,Consolas,monospace;max-width:640px"
        shown = f'<div style="{style}">{drawn}{legend(losses)}</div>' if drawn else ""
        return super()._repr_html_() + shown


def report(run: Readings) -> Report:
    """Take down a run as it is now."""
    now = side(run)
    return Report(
        run=run.id,
        experiment=now.experiment,
        progress=now.progress,
        metrics=now.last,
        curves=now.curves,
        changes=now.changes,
        error=describe(run.exception) if run.exception else "",
        in_force=run.in_force(),
    )
