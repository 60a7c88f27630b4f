"""One boundary to evaluate at: its numbers, and an evaluation that fits them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from .._programs.program_set import ProgramSet
from .evaluation import Evaluation, State
from .padding import Padding
from .surroundings import Surroundings


class Boundary(Protocol):
    """What has numbers to evaluate with: a run, or a handle before any."""

    @property
    def surroundings(self) -> Surroundings:
        """The JAX settings that the numbers were made under."""
        ...

    def state(self, params: str | None = None) -> tuple[State, ProgramSet]:
        """Copies of the numbers, and the programs to evaluate with."""
        ...


@contextmanager
def evaluating(
    at: Boundary, padding: Padding | None, params: str | None = None
) -> Iterator[tuple[State, Evaluation]]:
    """The numbers of a boundary and their evaluation, in the 32 or 64 bit mode of both.

    Args:
        at: Whose numbers.
        padding: How ragged batches are padded, if they are.
        params: "live", "ema", or None for the default.

    Raises:
        SettingError: `params` names none.
    """
    with at.surroundings.width():
        state, programs = at.state(params)
        yield state, Evaluation.of(programs, padding)
