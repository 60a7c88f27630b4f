"""What is compiled, found by what it was made from; the least recently used leaves.

Nothing here looks at user code: keys in, programs out, from any thread.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from .._experiment.view import Read
from .key import Source
from .lift import Groups
from .spec import Program

_PER_EXECUTABLE = 16  # programs of one executable: as many values of its constants

Reads = tuple[Read, ...]
Digests = tuple[Hashable, ...]


@dataclass(frozen=True)
class Variant:
    """An executable among those that differ in constants only.

    Attributes:
        tokens: All constants that it was compiled for.
        groups: Those that are inputs, one input per group.
        hash: Of its StableHLO.
        executable: JAX's `Compiled`.
    """

    tokens: tuple[bytes, ...]
    groups: Groups
    hash: str
    executable: Any

    def takes(self, tokens: tuple[bytes, ...]) -> bool:
        """Whether it computes the program with these constants."""
        free = {position for group in self.groups for position in group}
        return all(
            new == old or position in free
            for position, (new, old) in enumerate(zip(tokens, self.tokens, strict=True))
        ) and all(len({tokens[p] for p in group}) == 1 for group in self.groups)


@dataclass
class _Family:
    """Variants of one skeleton, last used last, and the constants asked for last."""

    variants: list[Variant] = field(default_factory=list)
    latest: tuple[bytes, ...] = ()


@dataclass
class _Held:
    """One executable and what leads to it."""

    name: str
    future: Future[Any]
    programs: OrderedDict[tuple[Hashable, Reads, Digests], None] = field(
        default_factory=OrderedDict
    )
    families: list[Hashable] = field(default_factory=list)


class Shelf:
    """Executables by hash, programs by content, variants by skeleton.

    Attributes:
        limit: Most executables to hold.
    """

    def __init__(self, limit: int):
        self.limit = limit
        self._lock = threading.RLock()
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._entries: dict[Hashable, dict[Reads, dict[Digests, Program]]] = {}
        self._families: dict[Hashable, _Family] = {}

    # ---- by content

    def known(self, base: Hashable, source: Source) -> Program | None:
        """The program that the same code and values have led to."""
        with self._lock:
            candidates = list(self._entries.get(base, {}).items())
        for reads, programs in reversed(candidates):
            found = programs.get(tuple(source.digest(read) for read in reads))
            if found is not None:
                self._touch(found.hash)
                return found
        return None

    def keep(self, base: Hashable, program: Program, source: Source) -> None:
        """Remember where these values lead, while the executable is held."""
        digests = tuple(source.digest(read) for read in program.reads)
        with self._lock:
            held = self._held.get(program.hash)
            if held is None:
                return
            entry = self._entries.setdefault(base, {})
            entry.setdefault(program.reads, {})[digests] = program
            held.programs[base, program.reads, digests] = None
            while len(held.programs) > _PER_EXECUTABLE:
                self._forget(*held.programs.popitem(last=False)[0])

    # ---- by skeleton

    def variant(self, key: Hashable, tokens: tuple[bytes, ...]) -> Variant | None:
        """A compiled variant that takes these constants."""
        with self._lock:
            family = self._families.get(key)
            for variant in reversed(family.variants if family else []):
                if variant.takes(tokens):
                    self._use(key, variant, tokens)
                    return variant
        return None

    def changed(self, key: Hashable, tokens: tuple[bytes, ...]) -> dict[int, Hashable]:
        """The constants to make inputs: those that change, and those that once did.

        Args:
            key: Of the skeleton.
            tokens: The constants now.

        Returns:
            Position -> what constants share that may be one input.
        """
        with self._lock:
            family = self._families.get(key)
            if family is None:
                return {}
            nearest, latest = family.variants[-1], family.latest
        positions = {p for group in nearest.groups for p in group}
        pairs = enumerate(zip(tokens, nearest.tokens, strict=True))
        positions |= {position for position, (new, old) in pairs if new != old}
        return {position: latest[position] for position in positions}

    def add_variant(self, key: Hashable, variant: Variant) -> None:
        """Remember a variant, while its executable is held."""
        with self._lock:
            held = self._held.get(variant.hash)
            if held is not None:
                held.families.append(key)
                self._families.setdefault(key, _Family())
                self._use(key, variant, variant.tokens)

    # ---- by hash

    def reserve(self, name: str, digest: str) -> tuple[Future[Any], bool]:
        """The executable of a hash; True if the caller is to compile it."""
        with self._lock:
            held = self._held.get(digest)
            if held is not None:
                self._touch(digest)
                return held.future, False
            held = self._held[digest] = _Held(name, Future())
            return held.future, True

    def holds(self, digest: str) -> bool:
        """Whether an executable of this hash is here, or being compiled."""
        with self._lock:
            return digest in self._held

    def drop(self, digest: str) -> None:
        """Forget an executable and all that leads to it."""
        with self._lock:
            held = self._held.pop(digest, None)
            if held is None:
                return
            for key in held.programs:
                self._forget(*key)
            for key in held.families:
                family = self._families.get(key)
                if family is not None:
                    family.variants = [v for v in family.variants if v.hash != digest]
                    if not family.variants:
                        del self._families[key]

    def evict(self) -> list[tuple[str, str]]:
        """Drop what was used longest ago until the limit is kept; names and hashes."""
        with self._lock:
            done = (h for h, held in self._held.items() if held.future.done())
            over = list(itertools.islice(done, max(0, len(self._held) - self.limit)))
            dropped = [(self._held[digest].name, digest) for digest in over]
            for digest in over:
                self.drop(digest)
        return dropped

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._held.clear()
            self._entries.clear()
            self._families.clear()

    def counts(self) -> dict[str, int]:
        """How many `programs` are known and `executables` held."""
        with self._lock:
            programs = sum(len(held.programs) for held in self._held.values())
            return {"programs": programs, "executables": len(self._held)}

    def _use(self, key: Hashable, variant: Variant, tokens: tuple[bytes, ...]) -> None:
        family = self._families[key]
        family.variants = [v for v in family.variants if v is not variant]
        family.variants.append(variant)
        family.latest = tokens
        self._touch(variant.hash)

    def _touch(self, digest: str) -> None:
        with self._lock:
            if digest in self._held:
                self._held.move_to_end(digest)

    def _forget(self, base: Hashable, reads: Reads, digests: Digests) -> None:
        entry = self._entries.get(base, {})
        programs = entry.get(reads, {})
        programs.pop(digests, None)
        if not programs:
            entry.pop(reads, None)
        if not entry:
            self._entries.pop(base, None)
