"""A model of four groups with every kind of decay, and how to read a report of it."""

from __future__ import annotations

from typing import Any

import pytest
from cells import tiny

from nitro_repl._run.schedules import BLOCK

STEPS = 3 * BLOCK + 40  # the last one is in no block that was evaluated

GROUPS = """
class Tiny(Tiny):
    swing: Device[float] = 0.5
    count: Device[int] = 1
    table: Device[jax.Array] = nitro.field(default_factory=lambda: np.ones(2, "f"))
    on: Device[bool] = True
    clip_norm = 1.0

    def build_model(self, rngs):
        one, two, three = (nnx.Linear(3, 3, rngs=rngs) for _ in range(3))
        tail = nnx.Linear(3, 2, rngs=rngs)
        return nnx.Dict(body=one, head=two, neck=three, tail=tail)

    def forward(self, model, *, x):
        for name in ("body", "neck", "head", "tail"):
            x = nnx.tanh(model[name](x))
        return x

    def param_group(self, path, leaf):
        return path[0]

    def frozen(self, path, leaf):
        return path[0] == "tail" or path == ("body", "bias")

    def learning_rate(self):
        return {"body": 0.5, "head": 0.05, "neck": 1.0}

    def weight_decay(self):
        return {"head": 0.01, "neck": 0.02}

    def decay_anchor(self):
        tree = {"neck": {"kernel": np.ones((3, 3), "f")}}
        return {"body": "zero", "head": "initial", "neck": tree}

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)
"""
FOLLOWED = """
class Tiny(Tiny):
    def schedules(self):
        neck = {"learning_rate": lambda total: optax.linear_schedule(1, 2, total)}
        return {
            "learning_rate": lambda total: optax.cosine_decay_schedule(0.5, total),
            "optimizer": {"neck": neck},
        }
"""


def rows(report: Any) -> dict[str, tuple[Any, str]]:
    """Value and source of every field and setting, by name."""
    return {
        row.name: (row.value, row.source) for row in (*report.fields, *report.settings)
    }


def group(report: Any, name: str) -> Any:
    """The row of a group."""
    [row] = [row for row in report.groups if row.name == name]
    return row


def schedule(report: Any, name: str) -> Any:
    """The row of a scheduled value."""
    [row] = [row for row in report.schedules if row.name == name]
    return row


@pytest.fixture(scope="module")
def book():
    return tiny(GROUPS)


@pytest.fixture(scope="module")
def scheduled():
    return tiny(GROUPS, FOLLOWED)
