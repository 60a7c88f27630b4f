"""The columns that the row of every evaluation has: no metric may take their names."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..errors import MetricError

COLUMNS = ("step", "epoch", "split")


def check_free(names: Iterable[str], columns: Collection[str], where: str) -> None:
    """Refuse a metric of the name of a column, which one of both would lose.

    Raises:
        MetricError: The first such name.
    """
    for name in names:
        if name in columns:
            raise MetricError(
                f"Metric `{name}` has the name of a column that each row has.",
                where=where,
                fix=f"name it otherwise, for example `{name}_metric`",
            )
