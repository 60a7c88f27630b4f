"""Compile options of a handle: XLA flags, asked of XLA itself before set-up."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ..errors import SettingError

Options = tuple[tuple[str, Any], ...]


def compile_options(given: Any) -> Options:
    """The options by name, sorted.

    Args:
        given: Names of XLA's options with values, or None.

    Raises:
        SettingError: It is no dict of numbers and texts, or XLA does not know one.
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping) or not all(
        isinstance(name, str) and isinstance(value, bool | int | float | str)
        for name, value in given.items()
    ):
        raise _refused(given, "is no dict of options with values")
    options = tuple(sorted(given.items()))
    for option in options:
        if (said := _refusal(option)) is not None:
            raise _refused(dict([option]), said)
    return options


@functools.lru_cache
def _refusal(option: tuple[str, Any]) -> str | None:
    """What XLA says against an option, None if it takes it."""
    try:
        lowered = jax.jit(lambda x: x).lower(np.float32(0))
        lowered.compile(compiler_options=dict([option]))
    except Exception as error:
        return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    return None


def _refused(given: Any, why: str) -> SettingError:
    return SettingError(
        f"compile_options={given!r}: {why}",
        where="setting compile_options",
        fix='compile_options={"xla_cpu_enable_fast_math": True}, for example',
    )
