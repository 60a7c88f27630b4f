"""The walk from one value to everything it reaches, by value.

Breadth first, so that `via` is a shortest chain; a value is expanded once; what cannot
be vouched for by content leaves a reason.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from . import origin
from .gone import HELD, codes_of, gone
from .graph import Graph
from .readable import ATOMS, text_of
from .references import constant_token, hash_text

SKIPPED_ATTRIBUTES = frozenset(
    [
        "__module__",
        "__qualname__",
        "__name__",
        "__doc__",
        "__annotations__",
        "__type_params__",
        "__annotate__",
    ]
)
LIMIT = 50_000  # nodes; more is a data set or a framework, not code and its constants
CODE = ("function", "class")


class _TooManyError(Exception):
    """The limit of nodes is reached."""


class Reason(str):
    """Why content alone cannot vouch for a value.

    Attributes:
        code: Digest of the code that does it, or '' when a value is to blame. A trace
            that did not run that code was not touched by it.
    """

    __slots__ = ("code",)

    def __new__(cls, text: str, code: str = ""):
        self = super().__new__(cls, text)
        self.code = code
        return self


class Arrays:
    """The arrays of one piece.

    Attributes:
        nbytes: Of all of them.
        count: How many.
        dtype: Of the first.
        shapes: Of each.
    """

    __slots__ = ("count", "dtype", "nbytes", "shapes")

    def __init__(self) -> None:
        self.nbytes = 0
        self.count = 0
        self.dtype: Any = None
        self.shapes: list[tuple[int, ...]] = []

    def add(self, nbytes: int, dtype: Any, shape: tuple[int, ...]) -> None:
        """Count one more."""
        if not self.count:
            self.dtype = dtype
        self.nbytes += nbytes
        self.count += 1
        self.shapes.append(shape)


class Piece:
    """A named piece under construction; nodes of plain data count to their piece.

    Attributes:
        home: Of a global: its module, and its name there; else None.
    """

    __slots__ = (
        "arrays",
        "constants",
        "digest",
        "home",
        "kind",
        "labels",
        "name",
        "parent",
        "shape",
        "text",
        "where",
    )

    def __init__(self, kind: str, name: str, parent: Piece | None):
        self.kind = kind
        self.name = name
        self.parent = parent
        self.labels: list[str] = []
        self.digest = ""
        self.shape = ""
        self.text = ""
        self.where = ""
        self.home: tuple[str, str] | None = None
        self.constants: tuple[Any, ...] = ()
        self.arrays: Arrays | None = None

    def own_digest(self) -> str:
        """Of this piece alone, not of the functions and classes it reaches."""
        return self.digest or hash_text("\n".join(self.labels))

    def holds(self, nbytes: int, dtype: Any, shape: tuple[int, ...]) -> None:
        """Note an array in this piece."""
        if self.arrays is None:
            self.arrays = Arrays()
        self.arrays.add(nbytes, dtype, shape)

    def via(self) -> tuple[str, ...]:
        """Functions and classes from the root down to this piece, without itself."""
        names: list[str] = []
        at = self.parent
        while at is not None:
            if at.kind in CODE:
                names.append(at.name)
            at = at.parent
        return tuple(reversed(names))

    def reader(self) -> Piece | None:
        """The nearest function or class at or above this piece."""
        at: Piece | None = self
        while at is not None and at.kind not in CODE:
            at = at.parent
        return at

    def blame(self) -> str:
        """`noisy(), In [3]`: the reader, in words."""
        reader = self.reader() or self
        return f"{reader.name}, {reader.where}" if reader.where else reader.name


# Fills in one value: adds its children to `kids`, returns its label.
Expand = Callable[["Walk", Any, Piece, list[int]], str]


class Walk:
    """One walk; holds the graph, the pieces and the reasons found."""

    def __init__(self, expand: Callable[[Any], Expand], owner: type | None):
        self.graph = Graph()
        self.pieces: list[Piece] = []
        self.reasons: dict[str, Reason] = {}
        self.codes: set[str] = set()
        self.classes: list[type] = []  # of the user, in the order they were met
        self.owner = owner
        self.owner_mro: tuple[type, ...] = owner.__mro__ if owner is not None else ()
        self.whole_owner = False
        self.hints: dict[int, str] = {}  # id of a function -> what to call it
        self.told: set[tuple[str, int]] = set()  # (global's name, id) with a piece
        self.sees_order = False  # whether code can see in which order names are held
        self.sees_identity = False  # whether it asks which of equal values is meant
        self.current = 0  # the node being expanded
        self._orders: list[str] = []
        self._unnamed: dict[str, set[int]] = {}
        self._expand = expand
        self._sentinels: dict[int, int] = {}
        self._seen: dict[Any, int] = {}
        self._keep: list[Any] = []
        self._pending: deque[tuple[int, Any, Piece, Expand | None]] = deque()

    def piece(self, kind: str, name: str, parent: Piece | None) -> Piece:
        """A new named piece."""
        piece = Piece(kind, name, parent)
        self.pieces.append(piece)
        return piece

    def node(
        self, value: Any, piece: Piece, *, expand: Expand | None = None, key: Any = None
    ) -> int:
        """The node of a value, expanded later by its kind, or by `expand`."""
        key = id(value) if key is None else key
        known = self._seen.get(key)
        if known is not None:
            return known
        if len(self.graph.labels) >= LIMIT:
            raise _TooManyError
        index = self._seen[key] = self.graph.add()
        self._keep.append(value)  # an id may not be used again during the walk
        self._pending.append((index, value, piece, expand))
        return index

    def note(self, name: str, value: Any) -> None:
        """Note what a name stands for, if `is` may ask which of equal ones it is."""
        if isinstance(value, types.FunctionType):
            unnamed = value.__name__ == "<lambda>"
        else:
            unnamed = isinstance(value, (dict, list, set))
        if unnamed:
            self._unnamed.setdefault(name, set()).add(id(value))

    def _identities(self) -> str:
        """Which names stand for one object."""
        number: dict[int, int] = {}
        return "".join(
            f"{name} {sorted(number.setdefault(i, len(number)) for i in ids)}"
            for name, ids in sorted(self._unnamed.items())
        )

    def item(self, value: Any, piece: Piece, kids: list[int]) -> str:
        """A value inside another: as text, or as a child and a `*`."""
        if type(value) in ATOMS:
            return constant_token(value)
        kids.append(self.node(value, piece))
        return "*"

    def unsound(self, piece: Piece, what: str, code: str = "") -> None:
        """Note a reason, in words that name the reader and its place."""
        text = f"{what} in {piece.blame()}"
        self.reasons.setdefault(f"{text} {code}", Reason(text, code))

    def left(self, kind: str, name: str, piece: Piece) -> str:
        """A piece for a name that leads nowhere any more; its label."""
        label = f"{kind} {name}"
        self.piece(kind, name, piece).labels.append(label)
        return label

    def order(self, names: Iterable[str]) -> None:
        """Note in which order a value holds its names."""
        self._orders.append(",".join(names))

    def which(self, value: Any) -> int:
        """A number for a value that has nothing but its identity: as it was met."""
        return self._sentinels.setdefault(id(value), len(self._sentinels))

    def run(self) -> None:
        """Expand what is pending, until nothing is left."""
        graph, pending = self.graph, self._pending
        while pending:
            index, value, piece, expand = pending.popleft()
            kids: list[int] = []
            self.current = index
            try:
                label = (expand or self._expand(value))(self, value, piece, kids)
            except _TooManyError:
                self.unsound(piece, f"more than {LIMIT} values are reached")
                return
            if said := gone.definition(value):
                label += f"\n{self.left('gone', said, piece)}"
                for code in codes_of(value):
                    self.unsound(piece, f"{HELD} {said}", code)
            graph.labels[index] = label
            graph.children[index] = kids
            if piece.kind not in CODE and not label.startswith(("def ", "class ")):
                piece.labels.append(label)
        if self.sees_order:
            graph.labels[0] += hash_text("\n".join(self._orders))
        if self.sees_identity:
            graph.labels[0] += hash_text(self._identities())


def attributes(
    walk: Walk, names: dict[str, Any], piece: Piece, kids: list[int]
) -> list[str]:
    """The attributes of a function or an instance, in the order of their names."""
    if len(names) > 1:
        walk.order(map(str, names))
    return [
        f"{name}={walk.item(names[name], piece, kids)}"
        for name in sorted(names, key=str)
        if name not in SKIPPED_ATTRIBUTES
    ]


def data(  # noqa: PLR0913  # the home is a keyword
    walk: Walk,
    kind: str,
    name: str,
    value: Any,
    reader: Piece,
    kids: list[int],
    *,
    home: tuple[str, str] | None = None,
) -> str:
    """A value that code holds under a name: `item`, and a piece of its own."""
    if kind != "attribute":  # a class that runs again makes its own anew
        walk.note(name, value)
    if type(value) in ATOMS:
        token = constant_token(value)
        piece = walk.piece(kind, name, reader)
        piece.text, piece.home = text_of(value), home
        piece.labels.append(token)
        return token
    if isinstance(value, types.FunctionType | type):
        kids.append(walk.node(value, reader))
        return "*"
    piece = walk.piece(kind, name, reader)
    piece.text, piece.home = text_of(value), home
    kids.append(walk.node(value, piece))
    return "*"


def check_outside(walk: Walk, piece: Piece, module: str, said: str) -> None:
    """Note a reason for a library's value that reads the outside world."""
    pure = origin.is_pure(module) or said in origin.PURE_CLASSES
    outside = origin.is_stdlib(module) and not pure
    if outside or origin.reads_state(module, said.rpartition(".")[2]):
        walk.unsound(piece, f"{said} is reached")
