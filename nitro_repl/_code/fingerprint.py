"""One digest for a value and everything it reaches, by content.

Equal digests mean the same code and the same values; in doubt they differ, or the
fingerprint says that it is unsound.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .arrays import LARGE, Hashed as Hashed
from .classes import add_note as add_note
from .readable import text_of
from .references import hash_text
from .values import Opaque as Opaque, add_reducer, expander
from .walk import Arrays, Piece, Reason as Reason, Walk

PYTHON = f"python {sys.version_info[:3]}"  # bytecode and library belong to a version


@dataclass(frozen=True, slots=True)
class Part:
    """One named piece that a fingerprint reached.

    Attributes:
        kind: "function", "global", "closure", "class", "attribute" or "value".
        name: What the user calls it: `focal()`, `GAIN`, `Net.__call__()`.
        digest: Of this piece alone, not of the functions and classes it reaches.
        text: A short readable value, or ''.
        where: `In [7]`, `losses.py:12`, or ''; of a value, of the first function or
            class that reads it.
        via: The chain of functions from the root to it.
        constants: The numbers and strings of a function, in order.
        shape: The digest of a function with these blanked, else ''.
        home: Of a global: its module, and its name there.
    """

    kind: str
    name: str
    digest: str
    text: str
    where: str
    via: tuple[str, ...]
    constants: tuple[Any, ...]
    shape: str = ""
    home: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class LargeArray:
    """Arrays under one name that are large together.

    Attributes:
        name: What the user calls it: `TABLE`, `argument 0 of a partial`.
        nbytes: Of all of them.
        count: How many.
        text: `float32[3000000]`, of the first.
        shapes: Of each.
        reader: The function or class that reads it, with its place, or ''.
        via: The chain of functions from the root to that reader.
    """

    name: str
    nbytes: int
    count: int
    text: str
    shapes: tuple[tuple[int, ...], ...]
    reader: str
    via: tuple[str, ...]


@dataclass(frozen=True)
class Fingerprint:
    """The content of a value and of what it reaches.

    Attributes:
        digest: 32 hex characters.
        unsound: `Reason`s why content alone cannot vouch for it.
        codes: Digests of every code object reached, nested ones too.
        classes: The user's classes that were reached, as weak references.
    """

    digest: str
    unsound: tuple[Reason, ...]
    codes: frozenset[str]
    classes: tuple[weakref.ref[type], ...] = field(default=(), compare=False)
    _pieces: tuple[Piece, ...] = field(default=(), repr=False, compare=False)

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:
        """The named pieces, nearest first, as they were when the walk was made."""
        return tuple(map(_part, self._pieces))

    @property
    def arrays(self) -> tuple[LargeArray, ...]:
        """Names under which large arrays were reached, nearest first."""
        return tuple(
            _large(piece, piece.arrays)
            for piece in self._pieces
            if piece.arrays is not None and piece.arrays.nbytes > LARGE
        )


def fingerprint(
    value: object, *, owner: type | None = None, name: str = "the value"
) -> Fingerprint:
    """Fingerprint a function, a class or any value.

    Args:
        value: What to walk.
        owner: An experiment class: of its user classes only what code can reach counts.
        name: What the user calls the value, if it has no name of its own.

    Returns:
        The digest, with what is needed to explain it.
    """
    walk = Walk(expander, owner)
    root = Piece("value", name, None)
    root.text = text_of(value)
    walk.node((value,), root)  # in a tuple: a number has no node of its own
    walk.run()
    if not isinstance(value, types.FunctionType | types.MethodType | type):
        walk.pieces.insert(0, root)
    return Fingerprint(
        digest=hash_text(f"{PYTHON} {walk.graph.digest()}"),
        unsound=tuple(walk.reasons.values()),
        codes=frozenset(walk.codes),
        classes=tuple(map(weakref.ref, walk.classes)),
        _pieces=tuple(walk.pieces),
    )


def register(
    kind: type | Callable[[object], bool], reduce: Callable[[Any], Any]
) -> None:
    """Teach the walk a kind of value that it cannot read.

    Args:
        kind: A type, with its subclasses, or a test for values of no other kind.
        reduce: Value -> plain data, functions or classes to walk instead, or
            `Opaque("why")` when content cannot vouch for it.
    """
    add_reducer(kind, reduce)


def _large(piece: Piece, arrays: Arrays) -> LargeArray:
    first = ", ".join(map(str, arrays.shapes[0]))
    reader = piece.reader()
    return LargeArray(
        name=piece.name,
        nbytes=arrays.nbytes,
        count=arrays.count,
        text=f"{arrays.dtype}[{first}]",
        shapes=tuple(arrays.shapes),
        reader=piece.blame() if reader is not None else "",
        via=reader.via() if reader is not None else (),
    )


def _part(piece: Piece) -> Part:
    reader = piece.reader()
    return Part(
        kind=piece.kind,
        name=piece.name,
        digest=piece.own_digest(),
        text=piece.text,
        where=reader.where if reader is not None else "",
        via=piece.via(),
        constants=piece.constants,
        shape=piece.shape,
        home=piece.home,
    )
