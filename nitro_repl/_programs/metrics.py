"""The program `metrics`: the hook of that name as compiled code, on the device.

It holds the hook alone, so an edit of it compiles nothing else.
"""

from __future__ import annotations

from typing import Any

import jax

from .._experiment.metrics import as_metrics
from .._experiment.routing import Route
from .._experiment.view import Reads
from ..errors import HookError
from .blueprint import Batch, Blueprint
from .clock import eval_clock, hook_arguments
from .key import struct
from .spec import Spec

HOOK = "metrics"


def on_device(plan: Blueprint) -> bool:
    """Whether there are metrics that compiled code computes."""
    return plan.device_metrics and plan.hooks.defines(HOOK)


def check_key(plan: Blueprint, wanted: Route) -> None:
    """Refuse a random key for metrics that run on the host.

    Raises:
        HookError: `metrics` asks for one there.
    """
    if wanted.hook == HOOK and wanted.wants_key and not plan.device_metrics:
        raise HookError(
            "`metrics` asks for a random `key`, which only compiled hooks get",
            where=f"{HOOK}, {wanted.place}",
            fix='set metrics_residency="device", or draw in `forward`',
        )


def metrics(plan: Blueprint, outputs: Any, batch: Batch) -> Spec:
    """Metric values of the real rows of one batch.

    Args:
        plan: What it is made from.
        outputs: Avals of what `forward` gave, padding cut off.
        batch: Avals of the batch's fields.
    """
    wanted = plan.route(HOOK)
    leaves, tree = jax.tree.flatten(outputs)
    given = {name: batch[name] for name in wanted.names(batch)}
    arrays = (*leaves, *given.values())
    rows = {leaf.shape[0] for leaf in arrays if leaf.shape}

    def metrics(groups: Any, reads: Reads) -> Any:
        hooks = plan.view(groups, reads, HOOK, training=False)
        made = hooks.metrics(
            jax.tree.unflatten(tree, groups["outputs"]),
            **hook_arguments(wanted, groups),
        )
        return as_metrics(made, f"{HOOK}, {wanted.place}", rows)

    arguments = {
        "outputs": tuple(map(struct, leaves)),
        "batch": given,
        "fields": plan.fields,
        "clock": eval_clock(),
    }
    return Spec(HOOK, metrics, arguments, HOOK, extra=tree)
