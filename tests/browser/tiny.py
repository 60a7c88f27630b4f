"""The first cell of a notebook with a small experiment to train in JupyterLab."""

from __future__ import annotations

_CELL = """
%load_ext nitro_repl
import time
import numpy as np
from flax import nnx
import nitro_repl as nitro
rng = np.random.default_rng(0)
rows = [{{"x": rng.normal(size=(8, 4)).astype("float32")}} for _ in range({rows})]

class Tiny(nitro.Experiment):
    smoothing: nitro.Device[float] = nitro.field(0.1, bounds=(0.0, 1.0))
{settings}
    def build_data(self):
        return {{"train": rows, "val": rows[:2]}}
    def build_model(self, rngs):
        return nnx.Linear(4, 3, rngs=rngs)
    def forward(self, model, *, x):
        return model(x)
    def loss(self, outputs):
        return self.smoothing + (outputs ** 2).mean()
"""


def tiny(rows: int, **settings: bool | int) -> str:
    """A cell that defines `Tiny`, with so many batches; more of its body may follow."""
    fields = [f"    {name}: {type(v).__name__} = {v!r}" for name, v in settings.items()]
    return _CELL.format(rows=rows, settings="\n".join(fields))
