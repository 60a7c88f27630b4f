"""Says which large arrays a program holds as constants, before XLA works on them.

Only what the jaxpr really holds is told, and each variable once a program.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from jax.extend import core

from .._code.arrays import LARGE
from .._code.fingerprint import Fingerprint, LargeArray
from .._text import tell

_told: set[tuple[str, str, str, str]] = set()
_lock = threading.Lock()

Shape = tuple[int, ...]


def constants_of(closed: core.ClosedJaxpr) -> tuple[Any, ...]:
    """The constants of a jaxpr and of all that are nested in it, each once."""
    found: dict[int, Any] = {}
    for inner in _jaxprs(closed, set()):
        found.update((id(const), const) for const in inner.consts)
    return tuple(found.values())


def warn_of(
    program: str, contents: Iterable[Fingerprint], consts: Iterable[Any]
) -> None:
    """Warn of large captured arrays that a traced program holds as constants.

    Call it between trace and compile.

    Args:
        program: Its name.
        contents: Of what the trace read.
        consts: What its jaxpr holds: `constants_of(closed)`.
    """
    held = Counter(_sizes(consts))
    arrays = _by_name(contents)
    named = _taken_out(arrays, held)
    for array in named:
        key = (program, array.name, array.reader, array.text)
        _tell_once(key, _captured(program, array))
    others = [array.name for array in arrays if array not in named]
    for constant in held:
        if constant.nbytes > LARGE:
            key = (program, "", "", constant.text)
            _tell_once(key, _computed(program, constant, others))


def forget() -> None:
    """Warn again of what was told before."""
    with _lock:
        _told.clear()


def _tell_once(key: tuple[str, str, str, str], words: str) -> None:
    with _lock:
        if key in _told:
            return
        _told.add(key)
    tell(words, bad=True)


class _Constant(NamedTuple):
    shape: Shape
    dtype: str
    nbytes: int

    @property
    def text(self) -> str:
        """`float32[3, 4]`."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def _sizes(consts: Iterable[Any]) -> Iterator[_Constant]:
    for const in consts:
        shape, dtype = getattr(const, "shape", None), getattr(const, "dtype", None)
        nbytes = getattr(const, "nbytes", None)  # a random key may not say
        if shape is not None and isinstance(nbytes, int):
            yield _Constant(tuple(shape), str(dtype), nbytes)


def _by_name(contents: Iterable[Fingerprint]) -> list[LargeArray]:
    named: dict[tuple[str, str], LargeArray] = {}
    for content in contents:
        for array in content.arrays:
            named.setdefault((array.name, array.text), array)
    return list(named.values())


def _taken_out(arrays: list[LargeArray], held: Counter[_Constant]) -> list[LargeArray]:
    """The arrays that are among the constants, which are taken out of `held`.

    By shape: a trace may change the dtype.
    """
    named: list[LargeArray] = []
    for array in arrays:
        shapes = set(array.shapes)
        mine = [constant for constant in held if constant.shape in shapes]
        # Half: double precision that became single precision.
        if sum(one.nbytes * held[one] for one in mine) > LARGE // 2:
            named.append(array)
            for constant in mine:
                del held[constant]
    return named


def _captured(program: str, array: LargeArray) -> str:
    text = array.text if array.count == 1 else f"{array.count} arrays"
    read = f"read by {array.reader}" if array.reader else "given to the hooks as it is"
    if array.via:
        read += f", reached by {' -> '.join(array.via)}"
    return (
        f"nitro: `{array.name}` ({text}, {_size(array.nbytes)}) is a constant in the "
        f"program `{program}`:\n"
        "  compiling may take minutes, and another content compiles again\n"
        f"  where: {read}\n"
        "  fix: make it a Device field and read it from self, or a field of the batch"
    )


def _computed(program: str, constant: _Constant, others: list[str]) -> str:
    source = f", perhaps from {', '.join(others)}" if others else ""
    return (
        f"nitro: a constant {constant.text}, {_size(constant.nbytes)}, is in the "
        f"program `{program}`:\n"
        "  compiling may take minutes\n"
        f"  where: numpy computes it while the hooks are traced{source}\n"
        "  fix: compute it with jax.numpy from what the hook is given, or make it a "
        "Device field"
    )


def _size(nbytes: int) -> str:
    return f"{nbytes / 2**20:,.0f} MB"


def _jaxprs(closed: Any, seen: set[int]) -> Iterator[core.ClosedJaxpr]:
    """A closed jaxpr and those in the parameters of its equations."""
    if isinstance(closed, core.ClosedJaxpr):
        yield closed
        closed = closed.jaxpr
    if not isinstance(closed, core.Jaxpr) or id(closed) in seen:
        return
    seen.add(id(closed))
    for equation in closed.eqns:
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                yield from _jaxprs(inner, seen)
