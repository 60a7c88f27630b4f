"""Which fields of a batch the hooks of one blueprint take.

A field that no hook names is never transferred.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ..errors import HookError
from . import metrics
from .blueprint import Blueprint


class BatchFields:
    """The fields that hooks take, sorted by name.

    Args:
        blueprint: What has the hooks.
    """

    def __init__(self, blueprint: Blueprint):
        self._blueprint = blueprint
        self._known: dict[Hashable, tuple[str, ...]] = {}

    def train(self, available: Iterable[str]) -> tuple[str, ...]:
        """Those that the train step takes.

        Raises:
            DataError: One that a hook needs is missing.
        """
        hooks = ("forward", "loss", "train_metrics")
        if self._blueprint.hooks.manual:
            hooks = ("train_step",)
        return self._wanted(hooks, tuple(available), "train")

    def eval(self, hook: str, available: Iterable[str], split: str) -> tuple[str, ...]:
        """Those that one hook takes in evaluation."""
        return self._wanted((hook,), tuple(available), split)

    def compiled(self, split: str, available: Iterable[str]) -> tuple[str, ...]:
        """Those that compiled code takes of a split."""
        if split == "train":
            return self.train(available)
        hooks = ("metrics",) if metrics.on_device(self._blueprint) else ()
        return self._wanted(("forward", "loss", *hooks), tuple(available), split)

    def check(self, split: str, available: Iterable[str]) -> None:
        """Refuse hooks that need a field which the batches of a split lack.

        Raises:
            DataError: The hook and the field are named.
        """
        if split == "train":
            self.train(available)
            return
        hooks = self._blueprint.hooks
        if not (hooks.defines("loss") or hooks.defines("metrics")):
            raise HookError(
                f"there is nothing to say about the split `{split}`",
                where=type(self._blueprint.experiment).__name__,
                fix="write `metrics` or `loss`, or leave the split out",
            )
        for hook in ("forward", "loss", "metrics"):
            self.eval(hook, available, split)

    def _wanted(
        self, hooks: tuple[str, ...], available: tuple[str, ...], split: str
    ) -> tuple[str, ...]:
        key = (hooks, available, split)
        if key not in self._known:
            routes = [self._blueprint.route(hook) for hook in hooks]
            for route in routes:
                route.check(available, split)
                metrics.check_key(self._blueprint, route)
            self._known[key] = tuple(
                sorted({name for route in routes for name in route.names(available)})
            )
        return self._known[key]
