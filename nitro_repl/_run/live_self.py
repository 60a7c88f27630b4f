"""`self` of a hook that runs on the host while a run lives.

It has the Device values of the boundary that is looked at, as compiled code has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from flax import nnx

from .._experiment.base import Experiment
from .._experiment.device import plain


def live_self(
    experiment: Experiment, avals: Mapping[str, Any], leaves: tuple[Any, ...]
) -> Experiment:
    """The experiment with live values in its Device fields.

    Args:
        experiment: Gives all other fields.
        avals: Of the Device fields, by name.
        leaves: Their values on the device, in the order of `avals`.

    Returns:
        A copy whose Device fields hold Python numbers and numpy arrays; a module is
        the one that the experiment was made with.
    """
    values = jax.tree.unflatten(jax.tree.structure(avals), leaves)
    live = {
        name: plain(value)
        for name, value in values.items()
        if not isinstance(value, nnx.Module)
    }
    fields = {name: getattr(experiment, name) for name in type(experiment).__fields__}
    copied = object.__new__(type(experiment))
    copied.__dict__.update({**experiment.__dict__, **fields, **live})
    return copied
