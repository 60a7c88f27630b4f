"""`loss` with `train_metrics`, as the programs call them.

What both report has one name each, and no name of a column that each step has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._experiment.routing import Route
from .._experiment.view import Reads
from .blueprint import Batch, Blueprint
from .clock import hook_arguments
from .columns import check_names, check_twice
from .results import checked_metrics, differentiated, split_loss


@dataclass(frozen=True)
class Judge:
    """`loss` with `train_metrics`: outputs to (number, (what loss gave, metrics))."""

    plan: Blueprint
    wanted: Route
    extra: Route
    training: bool

    @classmethod
    def of(cls, plan: Blueprint, training: bool) -> Judge:
        return cls(plan, plan.route("loss"), plan.route("train_metrics"), training)

    def names(self, batch: Batch) -> list[str]:
        """The batch fields that it reads, sorted."""
        extra = self.extra.names(batch) if self.training else ()
        return sorted({*self.wanted.names(batch), *extra})

    def __call__(
        self, hooks: Any, reads: Reads, groups: Mapping[str, Any], outputs: Any
    ) -> tuple[Any, tuple[Any, dict[str, Any]]]:
        given = hook_arguments(self.wanted, groups)
        total, metrics = split_loss(hooks.loss(outputs, **given), self.wanted)
        if self.training:
            check_names(metrics, self.plan, self.wanted)
            reads.add("member", "train_metrics")
            if self.plan.hooks.defines("train_metrics"):
                given = hook_arguments(self.extra, groups)
                made = hooks.train_metrics(outputs, **given)
                more = checked_metrics(made, self.extra)
                check_names(more, self.plan, self.extra)
                check_twice(metrics, more, self.extra)
                metrics = {**metrics, **more}
        return differentiated(total, self.wanted), (total, metrics)
