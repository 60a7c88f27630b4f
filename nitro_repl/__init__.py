"""Live training for JAX in a notebook: change values and code while it runs.

Only what a change really affects is compiled again, and never is a stale program run.
"""

from __future__ import annotations

import importlib
from typing import Any

from ._experiment.base import Experiment as Experiment
from ._experiment.fields import (
    Device as Device,
    GraphConst as GraphConst,
    field as field,
)
from ._experiment.metrics import (
    Concat as Concat,
    Max as Max,
    Mean as Mean,
    Min as Min,
    Sum as Sum,
)
from ._experiment.program import program as program
from ._programs.cache import programs as programs
from ._run.compare import compare as compare
from ._run.loader import ArrayLoader as ArrayLoader
from ._run.nitro import Nitro as Nitro
from ._run.registry import current as current, runs as runs
from ._run.run import Run as Run
from .errors import (
    DataError as DataError,
    EditError as EditError,
    ExperimentError as ExperimentError,
    FieldError as FieldError,
    HookError as HookError,
    HostFieldError as HostFieldError,
    MagicError as MagicError,
    MetricError as MetricError,
    ModelError as ModelError,
    NitroError as NitroError,
    NonFiniteError as NonFiniteError,
    ProgramError as ProgramError,
    RunError as RunError,
    ScheduleError as ScheduleError,
    SettingError as SettingError,
    StaleError as StaleError,
    SwapError as SwapError,
)

__all__ = [
    "ArrayLoader",
    "Concat",
    "DataError",
    "Device",
    "EditError",
    "Experiment",
    "ExperimentError",
    "FieldError",
    "GraphConst",
    "HookError",
    "HostFieldError",
    "MagicError",
    "Max",
    "Mean",
    "MetricError",
    "Min",
    "ModelError",
    "Nitro",
    "NitroError",
    "NonFiniteError",
    "ProgramError",
    "Run",
    "RunError",
    "ScheduleError",
    "SettingError",
    "StaleError",
    "Sum",
    "SwapError",
    "compare",
    "current",
    "field",
    "program",
    "programs",
    "runs",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`nitro_repl.testing`, imported when it is first asked for."""
    if name == "testing":  # it stands above all else, so nothing below may import it
        return importlib.import_module(".testing", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__", "testing"]


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext nitro_repl`: add the `%nitro` magic."""
    from ._ipython.extension import load

    load(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """`%unload_ext nitro_repl`: take away all that loading added."""
    from ._ipython.extension import unload

    unload(ipython)
