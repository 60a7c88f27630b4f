"""Programs of newer code for all that older ones were made for.

After a switch to them nothing compiles.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import jax

from . import metrics
from .key import aval, thread_settings
from .rows import as_weak_as, differ_in_rows, rows_of, with_rows

if TYPE_CHECKING:
    from .program_set import Avals, FirstBatches, ProgramSet


def prepare(new: ProgramSet, like: ProgramSet, first: FirstBatches) -> None:
    """Make what another set has made.

    Args:
        new: Makes it.
        like: The other set.
        first: The fields of each split, and avals of those that `new` takes.
    """
    now = thread_settings()
    available, avals = first["train"]
    names = new.batch_fields.train(available)
    for batches in like.made.train.shapes(now):
        known = [_known(names, batch, avals) for batch in batches]
        if all(fields is not None for fields in known):
            new.train(*(fields for fields in known if fields is not None))
    _prepare_evaluation(new, like, *first.get("val", first["train"]))
    methods = new.blueprint.hooks.programs()
    for name, steps in like.made.methods.copy().items():
        for (given,) in steps.shapes(now) if name in methods else ():
            if new.blueprint.route(name).takes(given.names):  # else called anew
                new.call(given)
    if metrics.on_device(new.blueprint):
        _prepare_metrics(new, like)


def _prepare_evaluation(
    new: ProgramSet, like: ProgramSet, available: tuple[str, ...], avals: Avals
) -> None:
    now = thread_settings()
    for (batch,) in like.made.eval.shapes(now):
        names = new.batch_fields.eval("forward", available, "val")
        fields = _known(names, batch, avals)
        if fields is not None:
            new.evaluation(fields)
    for outputs, batch in like.made.value.shapes(now):
        made = _outputs_now(new, like, outputs)
        fields = _known(new.batch_fields.eval("loss", available, "val"), batch, avals)
        if made is not None and fields is not None:
            new.value(made, fields)


def _prepare_metrics(new: ProgramSet, like: ProgramSet) -> None:
    wanted = new.blueprint.route("metrics")
    for outputs, fields in like.made.metrics.shapes(thread_settings()):
        made = _outputs_now(new, like, outputs)
        # One that takes other fields now is made when an evaluation has them.
        if made is not None and fields.keys() >= {*wanted.required}:
            new.metrics(made, fields)


def _outputs_now(new: ProgramSet, like: ProgramSet, outputs: Any) -> Any:
    """Avals of what eval gives for the rows of another set's outputs."""
    for key, step in new.made.eval.items():
        before = dict(like.made.eval.items()).get(key)
        if before is None or not differ_in_rows(outputs, before.out):
            continue
        made = with_rows(step.out, rows_of(outputs), rows_of(before.out))
        if jax.tree.structure(made) != jax.tree.structure(outputs):
            return made  # a new `forward` gives other outputs
        return jax.tree.map(as_weak_as, made, outputs)
    return None


def _known(names: Iterable[str], batch: Avals, first: Avals) -> Avals | None:
    """Avals of fields in batches of a shape: by those known, or as in a first batch."""
    wanted = tuple(names)
    if all(name in batch for name in wanted):
        return {name: batch[name] for name in wanted}
    both = batch.keys() & first.keys()
    if any(aval(batch[name]) != aval(first[name]) for name in both):
        return None  # of another length: found when such a batch comes
    return {name: first[name] for name in wanted}
