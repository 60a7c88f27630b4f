"""What one number is, and how programs take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np


@dataclass(frozen=True)
class Scalar:
    """What one number is cast to before programs take it.

    Attributes:
        kind: float, int or bool, weakly typed as in Python; or a numpy dtype.
        device: Where it goes.
    """

    kind: Any
    device: Any

    @property
    def word(self) -> str:
        """What it is in Python: "bool", "int" or "float"."""
        dtype = np.dtype(self.kind)
        if dtype == np.bool_:
            return "bool"
        return "int" if np.issubdtype(dtype, np.integer) else "float"

    def cast(self, number: float) -> Any:
        """The number as a Python number of this kind; whole ones are rounded."""
        dtype = np.dtype(self.kind)
        if dtype == np.bool_:
            return bool(number)
        return round(number) if np.issubdtype(dtype, np.integer) else float(number)

    def place(self, numbers: list[Any]) -> list[Any]:
        """Arrays of the avals that programs take, one for each number."""
        if self.kind not in (float, int, bool):
            numbers = [np.asarray(number, self.kind) for number in numbers]
        with jax.enable_x64(False):  # float32 and int32 whatever the mode
            return jax.device_put(numbers, self.device)
