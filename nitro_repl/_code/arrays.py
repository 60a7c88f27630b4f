"""Digests of what arrays hold; those of large arrays are remembered.

Equal digests mean equal bytes. A full look, the default, reads every byte: only a light
look takes a remembered digest of memory that can be written.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

LARGE = 8 * 2**20
"""Bytes above which an array is worth a warning, and a light look does not read it."""

_CHUNK = 16 * 2**20
_SAMPLED = 1024  # elements that a light look reads of a large array
_light = contextvars.ContextVar("nitro_light_look", default=False)


class Hashed(NamedTuple):
    """An array that a library holds in its own way, as plain facts."""

    said: str
    """What counts besides shape, dtype and bytes."""
    dtype: Any
    shape: tuple[int, ...]
    nbytes: int
    digest: str


class _Known(NamedTuple):
    array: weakref.ref[Any]
    stamp: tuple[Any, ...]
    digest: str


_memory: dict[int, _Known] = {}


@contextlib.contextmanager
def light_look() -> Iterator[None]:
    """Take the remembered digests of large arrays meanwhile, in this context only.

    An array counts as unchanged if it is the same object on the same memory, with the
    same shape and strides, and a sample of about a thousand elements spread over it
    is the same. So an in-place change of a few elements may be missed: use this to
    tell the user what is stale, never to decide what a program may be used for. Every
    full look sees such a change, and corrects what is remembered.
    """
    token = _light.set(True)
    try:
        yield
    finally:
        _light.reset(token)


def digest_of(array: Any, owner: Any = None) -> str:
    """The digest of a numpy array's bytes in the order of its indices.

    Args:
        array: A numpy array or scalar; it holds no objects.
        owner: The object whose content it is, if it is a view made for this call.
    """
    if array.nbytes <= LARGE:
        return _read(array)
    owner = array if owner is None else owner
    stamp = _stamp(array)
    if _light.get():
        known = _memory.get(id(owner))
        if known is not None and known.array() is owner and known.stamp == stamp:
            return known.digest
    found = _read(array)
    _remember(owner, stamp, found)
    return found


def digest_once(owner: Any, array: Callable[[], Any]) -> str:
    """The digest of an object that nothing can write to; read once in its life.

    Args:
        owner: The object.
        array: Gives its content as a numpy array.
    """
    known = _memory.get(id(owner))
    if known is not None and known.array() is owner:
        return known.digest
    found = _read(array())
    _remember(owner, (), found)
    return found


def bytes_digest(raw: Any) -> str:
    """The digest of a buffer of plain bytes."""
    return hashlib.sha256(raw).hexdigest()[:32]


def _remember(owner: Any, stamp: tuple[Any, ...], digest: str) -> None:
    key = id(owner)
    try:
        ref = weakref.ref(owner, lambda gone: _forget(key, gone))
    except TypeError:  # a numpy scalar
        return
    _memory[key] = _Known(ref, stamp, digest)


def _forget(key: int, gone: weakref.ref[Any]) -> None:
    known = _memory.get(key)
    if known is not None and known.array is gone:
        _memory.pop(key, None)


def _stamp(array: Any) -> tuple[Any, ...]:
    """Where an array lies and how, and some of its elements."""
    at = array.__array_interface__["data"][0]
    each = max(1, int(_SAMPLED ** (1 / max(1, array.ndim))))
    spread = tuple(slice(None, None, max(1, size // each)) for size in array.shape)
    return (at, array.shape, array.strides, str(array.dtype), array[spread].tobytes())


def _read(array: Any) -> str:
    found = hashlib.sha256()
    for piece in _pieces(array):
        found.update(piece)
    return found.hexdigest()[:32]


def _pieces(array: Any) -> Iterator[Any]:
    """The bytes of an array, copied a part at a time and only where they must be."""
    plain = type(array).__name__ in ("ndarray", "memmap")  # others hold more, as a mask
    if not plain or not array.ndim or array.nbytes < 4096:
        yield array.tobytes()
    elif array.flags.c_contiguous:
        yield array.reshape(-1).view("u1")
    else:
        rows = max(1, _CHUNK * len(array) // array.nbytes)
        for row in range(0, len(array), rows):
            yield array[row : row + rows].tobytes()
