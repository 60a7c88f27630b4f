"""The first batch of each split that a run uses: its fields, and avals of some.

Read once, before anything compiles; again only where programs take a field that none
took before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from .._programs.explain import hooks_explained
from .._programs.program_set import Avals, FirstBatches, ProgramSet
from .batches import batch_arrays
from .data import first_batch

_SPLITS = ("train", "val")


class First:
    """What the first batches of a handle's data are like.

    Args:
        data: Loaders by split.
        programs: What takes them.

    Raises:
        DataError: A split lacks a field that a hook needs.

    Attributes:
        fields: By split, the names in its batches.
        avals: By split, of the fields that `programs` take.
    """

    def __init__(self, data: Mapping[str, Any], programs: ProgramSet):
        self._data = data
        self.fields: dict[str, tuple[str, ...]] = {}
        self.avals: dict[str, Avals] = {}
        for split in _SPLITS:
            if split in data:
                batch = self._read(split)
                self.fields[split] = tuple(batch)
                programs.batch_fields.check(split, batch)
                self.avals[split] = _avals(
                    batch, split, programs.batch_fields.compiled(split, batch)
                )

    @property
    def rows(self) -> int:
        """Of a batch of the split "train"; 0 if there is none."""
        arrays = self.avals.get("train", {}).values()
        return max((a.shape[0] for a in arrays if a.shape), default=0)

    def of(self, programs: ProgramSet) -> FirstBatches:
        """The fields of each split, and avals of those that other programs take."""
        found: dict[str, tuple[tuple[str, ...], Avals]] = {}
        for split, known in self.avals.items():
            names = programs.batch_fields.compiled(split, self.fields[split])
            if known.keys() >= set(names):
                avals = {name: known[name] for name in names}
            else:
                avals = _avals(self._read(split), split, names)
            found[split] = (self.fields[split], avals)
        return found

    def _read(self, split: str) -> dict[str, Any]:
        with hooks_explained(f"the loader of `{split}`"):
            return first_batch(self._data[split], split)


def _avals(batch: Any, split: str, names: tuple[str, ...]) -> Avals:
    arrays = batch_arrays(batch, split, names)
    return {n: jax.ShapeDtypeStruct(a.shape, a.dtype) for n, a in arrays.items()}
