"""The steps that a set of programs has made, by kind and by batch shape."""

from __future__ import annotations

from dataclasses import dataclass, field

from .by_shape import ByShape
from .spec import Program
from .step import EvalStep, TrainStep

_ORDER = (
    "step", "grad", "forward", "loss", "backward", "optimizer", "eval", "metrics",
)  # fmt: skip


@dataclass
class Made:
    """Steps by kind; those of `@nitro.program` methods by name."""

    train: ByShape[TrainStep]
    eval: ByShape[EvalStep]
    value: ByShape[EvalStep]
    metrics: ByShape[EvalStep]
    methods: dict[str, ByShape[EvalStep]] = field(default_factory=dict)

    @property
    def programs(self) -> tuple[Program, ...]:
        """Every program in use, in the order they run."""
        own = (self.train, self.eval, self.value, self.metrics)
        kinds = (*own, *self.methods.copy().values())
        steps = [step for kind in kinds for _, step in kind.items()]
        used = {p.key: p for step in steps for p in step.programs}
        place = {name: number for number, name in enumerate(_ORDER)}
        return tuple(
            sorted(used.values(), key=lambda p: place.get(p.name, len(_ORDER)))
        )
