"""The batch at which a step was not finite, and the first tensor that was not.

Found by running the step's programs once more on the state before it; nothing is
compiled and nothing changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

if TYPE_CHECKING:
    from .loop import Loop
    from .pending import Pending


@dataclasses.dataclass(frozen=True)
class Culprit:
    """What made a step not finite.

    Attributes:
        step: The optimizer step, from 1.
        epoch: Its epoch, from 0.
        batch: Arrays by field name, those that programs take; with accumulation a
            tuple of such dicts.
        tensor: The first tensor that was not finite, in words.
        where: Where it came from: "batch", "values", "state", or a program.
    """

    step: int
    epoch: int
    batch: Any = dataclasses.field(repr=False)
    tensor: str
    where: str

    def __str__(self) -> str:
        return f"step {self.step}: {self.tensor} is not finite ({self.where})"


def find_culprit(loop: Loop, taken: Pending, said: str, *, settled: bool) -> Culprit:
    """Look for the first tensor of a step that was not finite.

    Args:
        loop: Its state is that before the step, if `settled`.
        taken: The step.
        said: What its numbers say.
        settled: Whether no later step has changed the state since.
    """
    found = None
    for where, tensor, value in _tensors(loop, taken, settled=settled):
        if not _finite(value):
            found = (tensor, where)
            break
    if found is None:
        where = "loss" if said == "the loss" else "backward"
        found = (said, "train_step" if taken.program.manual else where)
    hosts = tuple(
        {name: np.asarray(array) for name, array in batch.items()}
        for batch in taken.batches
    )
    batch = hosts[0] if len(hosts) == 1 else hosts
    return Culprit(taken.step, taken.epoch, batch, *found)


def _tensors(
    loop: Loop, taken: Pending, *, settled: bool
) -> Iterator[tuple[str, str, Any]]:
    several = len(taken.batches) > 1
    for number, batch in enumerate(taken.batches):
        of = f" of micro-batch {number}" if several else ""
        for name, array in batch.items():
            yield "batch", f"the batch field `{name}`{of}", array
    paths = jax.tree_util.tree_flatten_with_path(
        (loop.values.fields, loop.values.hyper)
    )
    for (path, _), leaf in zip(paths[0], taken.inputs, strict=True):
        yield "values", f"the value `{path[1].key}`", leaf
    if not settled:
        return
    plan, carry = loop.programs.blueprint, loop.carry
    structure, trained = plan.structure, plan.recipe.trained(plan.structure.names)
    yield from _named("state", "the parameter", structure.names, carry.params)
    yield from _named("state", "the model state", structure.state_names, carry.state)
    batches = tuple(tuple(loop.place(batch).values()) for batch in taken.batches)
    for number, program, kind, leaves in taken.program.examine(
        carry, batches, loop.key, taken.inputs
    ):
        of = f" of micro-batch {number}" if several else ""
        if kind == "state":
            parts = _named(program, "the model state", structure.state_names, leaves)
        elif kind == "gradient":
            parts = _named(program, "the gradient of", trained, leaves)
        elif kind == "outputs":
            outputs = taken.program.outputs
            parts = _named(program, "the output", _paths(outputs), leaves)
        else:
            parts = [(program, "the loss", leaves[0])]
        for where, tensor, leaf in parts:
            yield where, tensor + of, leaf


def _named(
    where: str, what: str, names: Sequence[str], leaves: Iterable[Any]
) -> Iterator[tuple[str, str, Any]]:
    for name, leaf in zip(names, leaves, strict=True):
        yield where, f"{what} `{name}`" if name else f"{what} of forward", leaf


def _paths(tree: Any) -> list[str]:
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [jax.tree_util.keystr(path) for path, _ in paths]


def _finite(value: Any) -> bool:
    if not jax.dtypes.issubdtype(value.dtype, np.inexact):
        return True
    return bool(np.isfinite(np.asarray(value)).all())
