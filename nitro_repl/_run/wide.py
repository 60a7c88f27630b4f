"""A table that may be wider than the page: it goes on in further tables below.

Cells of such a table are whole: what has no place is named in a line, never cut.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from .._text import one_line

_GAP = 3  # beside each column: its padding and what divides it from the next


@dataclasses.dataclass(frozen=True)
class Column:
    """A heading and a cell for each row.

    Attributes:
        folds: Whether its cells may go on in a further line, between two words.
    """

    head: Text
    cells: Sequence[Text]
    right: bool = False
    folds: bool = False

    @property
    def width(self) -> int:
        """What it needs for whole words."""
        texts = [text.plain for text in (self.head, *self.cells)]
        words = [word for text in texts for word in text.split()]
        return max(map(cell_len, words if self.folds else texts), default=0)


class Wide:
    """Columns, over as many tables as the page needs.

    Args:
        keys: Columns at the left of the first table.
        rest: The other columns, those that matter most first.
        again: How a row is known in the further tables.
        styles: Of each row.
        most: Tables; columns that then have no place are named in a line.
    """

    def __init__(
        self,
        keys: Sequence[Column],
        rest: Sequence[Column],
        again: Sequence[Column],
        styles: Sequence[str] = (),
        most: int = 3,
    ):
        self._keys, self._rest, self._again = list(keys), list(rest), list(again)
        self._styles = styles
        self._most = most

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        tables = self._tables(options.max_width)
        for columns in tables[: self._most]:
            yield self._drawn(columns)
        left = [c for columns in tables[self._most :] for c in columns[self._kept :]]
        if left:
            names = ", ".join(column.head.plain for column in left)
            more = f"and {len(left)} more column{'s' * (len(left) > 1)}: {names}"
            yield Text(one_line(more, 400), "dim")

    @property
    def _kept(self) -> int:
        return len(self._again)

    def _tables(self, width: int) -> list[list[Column]]:
        tables = [list(self._keys)]
        for column in self._rest:
            if _width([*tables[-1], column]) > width:
                tables.append(list(self._again))
            tables[-1].append(column)
        return tables

    def _drawn(self, columns: Sequence[Column]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in columns:
            side = "right" if column.right else "left"
            wraps = "fold" if column.folds else "ellipsis"
            table.add_column(
                column.head, justify=side, no_wrap=not column.folds, overflow=wraps
            )
        rows = zip(*(column.cells for column in columns), strict=True)
        for place, cells in enumerate(rows):
            style = self._styles[place] if self._styles else ""
            table.add_row(*cells, style=style)
        return table


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width + _GAP for column in columns)
