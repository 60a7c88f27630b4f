"""Pictures as objects: what `render` gives back, and how they show in a notebook."""

from __future__ import annotations

import dataclasses
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from rich import box
from rich.console import RenderableType
from rich.table import Table

from .._experiment.figures import whole
from .._text import View, show


@dataclasses.dataclass(frozen=True)
class Picture:
    """One sample, drawn.

    Attributes:
        index: Position of the sample in its split, from 0.
        figure: What `visualize` returned.
        loss: Its loss, where the worst were asked for.
        path: Its file, None for a run without files.
    """

    index: int
    figure: Any
    loss: float | None = None
    path: Path | None = None


class Pictures(View, Sequence[Picture]):
    """The pictures of one `render`, in the order they were asked for."""

    def __init__(self, split: str, pictures: Sequence[Picture]):
        self.split = split
        self._pictures = tuple(pictures)

    @overload
    def __getitem__(self, index: int) -> Picture: ...
    @overload
    def __getitem__(self, index: slice) -> Pictures: ...
    def __getitem__(self, index: int | slice) -> Picture | Pictures:
        if isinstance(index, slice):
            return Pictures(self.split, self._pictures[index])
        return self._pictures[index]

    def __len__(self) -> int:
        return len(self._pictures)

    def __iter__(self) -> Iterator[Picture]:
        return iter(self._pictures)

    def __rich__(self) -> RenderableType:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(f"{self.split} sample", justify="right")
        worst = any(picture.loss is not None for picture in self)
        if worst:
            table.add_column("loss", justify="right")
        files = any(picture.path is not None for picture in self)
        if files:
            table.add_column("file", overflow="fold")
        for picture in self:
            loss = [show(picture.loss)] if worst else []
            file = [str(picture.path or "")] if files else []
            table.add_row(str(picture.index), *loss, *file)
        return table


def show_inline(picture: Picture, split: str) -> None:
    """Show a picture under the cell, where a notebook's front end listens."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get() if get is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return
    figure = whole(picture.figure)
    data, metadata = shell.display_formatter.format(figure)
    if not any(kind != "text/plain" for kind in data) and hasattr(figure, "savefig"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png")
        data["image/png"] = buffer.getvalue()
    title = f"{split} sample {picture.index}"
    if picture.loss is not None:
        title += f", loss {show(picture.loss)}"
    shell.display_pub.publish({"text/plain": title})
    shell.display_pub.publish(data, metadata)


def close(figure: Any) -> None:
    """Take a figure out of pyplot's list, so that no front end shows it once more."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    figure = whole(figure)
    if pyplot is not None and type(figure).__module__.startswith("matplotlib."):
        pyplot.close(figure)
