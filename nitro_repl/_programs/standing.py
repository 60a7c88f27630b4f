"""A compiled program beside what newer code would make of it.

Compares content only; nothing is traced.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .._code.diff import LOST
from .._code.fingerprint import Fingerprint, Part
from . import reason
from .key import Source, digest_of
from .spec import Program


@dataclass(frozen=True, eq=False)
class Standing:
    """One program and the newest content of what it was made from.

    Attributes:
        program: The program.
        current: Whether newer code says the same.
        source: The newer code.
        model: The newer model, if the program holds one.
    """

    program: Program
    current: bool
    source: Source
    model: Fingerprint | None

    @property
    def key(self) -> Hashable:
        """The same for programs that ask the same of the code."""
        return self.program.name, self.program.form, tuple(self.program.contents)

    @property
    def content(self) -> Hashable:
        """What the newer code says; equal for equal code."""
        digests = tuple(self.source.digest(read) for read in self.program.contents)
        return (self.model.digest if self.model is not None else None, digests)

    @property
    def lost(self) -> bool:
        """Whether the newer code uses names that lead nowhere any more."""
        old = {(p.kind, p.name) for p in _lost_parts(self.program.contents.values())}
        contents = map(self.source.content, self.program.contents)
        return any((p.kind, p.name) not in old for p in _lost_parts(contents))

    @property
    def causes(self) -> tuple[str, ...]:
        """What the newer code says differently, in words."""
        return tuple(reason.moved(self.program, self.source, self.model))


def _lost_parts(contents: Iterable[Any]) -> Iterator[Part]:
    for content in contents:
        if isinstance(content, Fingerprint):
            yield from (part for part in content.parts if part.kind in LOST)


def standing(program: Program, source: Source, model: Fingerprint | None) -> Standing:
    """Compare a program with the code that a source looks at.

    Args:
        program: The program.
        source: The newer code.
        model: Content of the newer model, if the program holds one.
    """
    same = (
        program.model is None
        or model is None
        or program.model.digest == model.digest
    )  # fmt: skip
    current = same and all(
        source.digest(read) == digest_of(content)
        for read, content in program.contents.items()
    )
    return Standing(program, current, source, model)


def stale_names(standings: Iterable[Standing]) -> tuple[str, ...]:
    """The names of the programs that newer code would make anew."""
    return tuple(
        dict.fromkeys(one.program.name for one in standings if not one.current)
    )
