"""What a user put in the place of a library's own functions, as far as a trace sees it.

A trace can have taken what code that ran in it names; no more is compared, so that
other programs stay as they are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from .._code.fingerprint import Fingerprint, fingerprint
from .._code.replaced import Libraries, Replaced
from .._experiment.view import Read

ALL = Read("library", "libraries")
"""Of host code, of which is not recorded what it names: all that some trace names."""

_libraries = Libraries(["chex", "flax", "jax", "numpy", "optax"])
_NOTHING = fingerprint(Replaced())


class _Names:
    """Sets of names as bits of a number each: two kilobytes where a set takes hundred.

    They are kept for as long as the process lives: there are few different ones.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bits: dict[str, int] = {}
        self._keys: dict[int, str] = {}
        self._sets: dict[str, int] = {}

    def key(self, names: Iterable[str]) -> str:
        """A short name for a set."""
        with self._lock:
            places = {self._bits.setdefault(name, len(self._bits)) for name in names}
            flags = bytearray(len(self._bits) // 8 + 1)
            for place in places:
                flags[place // 8] |= 1 << place % 8
            bits = int.from_bytes(flags, "little")
            key = self._keys.setdefault(bits, f"libraries {len(self._keys)}")
            self._sets[key] = bits
            return key

    def holds(self, key: str, name: str) -> bool:
        """Whether a name is in a set."""
        bit = self._bits.get(name)
        return bit is not None and bool(self._sets[key] >> bit & 1)


_names = _Names()


def replaced() -> Replaced:
    """What stands in all libraries now."""
    return _libraries.replaced()


def seen(modules: Iterable[str], said: frozenset[str]) -> Read:
    """The read of a trace.

    Args:
        modules: Whose code ran in it.
        said: The names in the code that ran in it.
    """
    _libraries.watch(modules, said)
    return Read("library", _names.key(said))


def content(read: Read, now: Replaced) -> Fingerprint:
    """The content behind a read, given what stands in all libraries."""
    if read != ALL:
        held = {at: one for at, one in now.items() if _names.holds(read.name, at[1])}
        now = Replaced(held)
    return fingerprint(now) if now else _NOTHING
