"""Digests of array bytes; a glance does not read a large array again.

Only a glance trusts the marks of an array that it has seen, and it may miss an edit in
place; programs are never looked up at a glance.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import weakref
from collections.abc import Iterator
from typing import Any

LARGE = 8_000_000  # bytes
_SAMPLE = 4096  # elements

_glancing: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "nitro_glancing", default=False
)
_known: dict[int, tuple[Any, tuple[Any, ...], str]] = {}


@contextlib.contextmanager
def glance() -> Iterator[None]:
    """Take large arrays in this thread for unchanged while a sample of them is."""
    token = _glancing.set(True)
    try:
        yield
    finally:
        _glancing.reset(token)


def array_digest(array: Any) -> str:
    """The digest of the bytes of a numpy array or scalar."""
    if array.nbytes < LARGE:
        return _digest(array)
    key = id(array)
    found, marks = _known.get(key), _marks(array)
    if _glancing.get() and found and found[0]() is array and found[1] == marks:
        return found[2]
    digest = _digest(array)
    _known[key] = (weakref.ref(array, lambda _: _known.pop(key, None)), marks, digest)
    return digest


def _digest(array: Any) -> str:
    return hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()


def _marks(array: Any) -> tuple[Any, ...]:
    """Where its bytes are, and some of them."""
    step = max(array.size // _SAMPLE, 1)
    where = array.__array_interface__["data"][0]
    return where, array.shape, array.strides, _digest(array.flat[::step])
