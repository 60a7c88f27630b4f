"""How the names that code reads are resolved, when the walk is made.

Through modules and classes, to the value that counts; a library's value is a token.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

from . import library, origin
from .gone import IMPORTED, gone
from .library import MISSING
from .references import SUPER, CodeInfo, Read
from .walk import Piece, Walk, data

UNSOUND_BUILTINS = frozenset(
    [
        "__import__",
        "breakpoint",
        "compile",
        "eval",
        "exec",
        "globals",
        "id",
        "input",
        "locals",
        "open",
    ]
)
# Of what these see, only the whole class of `self` is a safe account.
LOOKS_AT_TYPES = frozenset(["__class__", "__dict__", "__mro__", "dir", "type", "vars"])
LOOKS_BY_NAME = LOOKS_AT_TYPES | {"getattr", "hasattr"}
SEEDED = frozenset(
    [
        "Generator",
        "MT19937",
        "PCG64",
        "PCG64DXSM",
        "Philox",
        "RandomState",
        "SFC64",
        "SeedSequence",
        "default_rng",
    ]
)


@dataclass(slots=True)
class Body:
    """One function whose reads are being resolved into children and label parts."""

    walk: Walk
    function: Any  # a types.FunctionType
    info: CodeInfo
    own: Piece
    kids: list[int]

    def read(self, read: Read) -> str:
        """Resolve one read of a global, a builtin or an import."""
        if read.kind == "import":
            return self._imported(read)
        space = self.function.__globals__
        value = space.get(read.name, MISSING)
        if value is MISSING:
            return self._builtin(read)
        return self._copied(space, read.name, value) + self._follow(value, read)

    def free_reads(self, name: str, value: Any) -> list[str]:
        """Resolve the reads of a captured module or experiment class."""
        reads = [r for r in self.info.reads if r.kind == "free" and r.name == name]
        reads = reads or [Read("free", name, (), False)]
        return [self._follow(value, read) for read in reads]

    def is_owner(self, value: Any) -> bool:
        """Whether a value is the experiment class that owns the code, or a base."""
        return isinstance(value, type) and value in self.walk.owner_mro

    def _item(self, value: Any) -> str:
        return self.walk.item(value, self.own, self.kids)

    def _data(
        self, kind: str, name: str, value: Any, home: tuple[str, str] | None = None
    ) -> str:
        return data(self.walk, kind, name, value, self.own, self.kids, home=home)

    def _unsound(self, what: str) -> None:
        self.walk.unsound(self.own, what, self.info.digest)

    def _imported(self, read: Read) -> str:
        name = read.name.lstrip(".")
        level = len(read.name) - len(name)
        if level:
            package = str(self.function.__globals__.get("__package__") or "").split(".")
            package = package[: len(package) - level + 1]
            name = ".".join([*package, *filter(None, [name])])
        module = sys.modules.get(name)
        if module is None:
            return f"import {name}, not yet"
        return self._follow(module, read._replace(name=name))

    def _builtin(self, read: Read) -> str:
        name = read.name
        value = vars(builtins).get(name, MISSING)
        if value is MISSING:
            return self.walk.left("undefined", name, self.own)
        if name in UNSOUND_BUILTINS or (name in ("vars", "dir") and read.called):
            self._unsound(f"{name}() is called")
        if getattr(value, "__module__", "") == "builtins" and _is_c(value):
            return f"builtin {name} {value.__qualname__}"
        return f"{name} {self._item(value)}"  # replaced or added by somebody

    def _follow(self, value: Any, read: Read) -> str:
        """A value and the attributes that the code takes from it."""
        chain, i, copied = (read.name, *read.attrs), 1, ""
        home = str(self.function.__globals__.get("__name__")), read.name
        while isinstance(value, types.ModuleType):
            if not origin.is_user_module(value):
                return self._library_chain(value, chain, i, read.called)
            if i == len(chain):
                break
            found = _attribute(value, chain[i])
            if found is MISSING:
                return self.walk.left("undefined", ".".join(chain[: i + 1]), self.own)
            copied += self._copied(vars(value), chain[i], found)
            home = value.__name__, chain[i]
            value, i = found, i + 1
        return copied + self._value(value, chain, i, home)

    def _copied(self, space: dict[str, Any], name: str, value: Any) -> str:
        """A label for a name that an import bound to what is gone from its file."""
        said = gone.copy(space, name, value)
        if not said:
            return ""
        self._unsound(f"{IMPORTED} {said}")
        return f"{self.walk.left('gone', said, self.own)} "

    def _value(
        self, value: Any, chain: tuple[str, ...], i: int, home: tuple[str, str]
    ) -> str:
        """What the first names of a chain stand for, and what is taken of that."""
        said = ".".join(chain[:i])
        if self.is_owner(value) and not self.walk.whole_owner:
            return f"{said} {self._owner(cast(type, value), said, chain[i:])}"
        if isinstance(value, type) and i < len(chain) and origin.is_user_class(value):
            member = _class_member(value, chain[i])
            if member is not MISSING:
                said, home = f"{said}.{chain[i]}", (home[0], f"{home[1]}.{chain[i]}")
                return f"{said} {self._data('attribute', said, member, home)}"
        # One piece for one global, however many functions read it.
        if (said, id(value)) in self.walk.told:
            return f"{said} {self._item(value)}"
        self.walk.told.add((said, id(value)))
        return f"{said} {self._data('global', said, value, home)}"

    def _library_chain(
        self, value: Any, chain: tuple[str, ...], i: int, called: bool
    ) -> str:
        """`jnp.sin`: a token for what a library holds, unless it is the user's."""
        name = ""
        while isinstance(value, types.ModuleType):
            name = value.__name__
            if _reads_outside(name, chain[i:], called):
                self._unsound(f"{'.'.join(chain)} is read")
            if i >= len(chain):
                return origin.library_token(name, "")
            value = _attribute(value, chain[i])
            i += 1
            if isinstance(value, types.ModuleType) and origin.is_user_module(value):
                said = ".".join(chain[:i])
                return self._follow(value, Read("global", said, chain[i:], called))
        if value is MISSING:
            return f"{'.'.join(chain)} missing"
        token = origin.library_token(name, ".".join(chain[:i]))
        value = library.reached(value, chain[i:])
        if library.is_walked(value, token):
            return f"{token} {self._item(value)}"
        return f"{token} {library.own_token(value)}"

    def _owner(self, cls: type, said: str, attrs: tuple[str, ...]) -> str:
        """What code can reach of the experiment class it belongs to, not all of it."""
        info, mro = self.info, self.walk.owner_mro
        kept = attrs or said == "__class__"
        if not kept or not info.names.isdisjoint(LOOKS_BY_NAME):
            self.walk.whole_owner = True  # whoever is given the class may read it all
            return self._item(cls)
        if attrs and attrs[0] != SUPER:
            return self._members(cls.__mro__, attrs[:1])
        after = mro[mro.index(cls) + 1 :]
        if info.supers is None:
            taken: Iterable[str] = info.names
        else:
            taken = info.supers
        label = ["owner", self._members(after, taken)]
        if said != "__class__" or not info.supers:
            label.append(self._members(cls.__mro__, info.names))
        return "\n".join(label)

    def _members(self, bases: tuple[type, ...], names: Iterable[str]) -> str:
        """Class attributes of these names, each from the first class that has it."""
        label: list[str] = []
        for name in sorted(names):
            base = next((b for b in bases if name in vars(b)), None)
            if base is None:
                label.append(f"{name} none")
            elif origin.is_user_class(base):
                member, said = vars(base)[name], f"{base.__name__}.{name}"
                label.append(f"{name} {self._data('attribute', said, member)}")
            else:
                full = f"{base.__qualname__}.{name}"
                label.append(origin.library_token(origin.module_name(base), full))
        return "\n".join(label)


def _is_c(value: Any) -> bool:
    if isinstance(value, type):
        return not origin.is_user_class(value)
    return isinstance(value, types.BuiltinFunctionType)


def _reads_outside(module: str, rest: tuple[str, ...], called: bool) -> bool:
    """Whether what is taken from a library module depends on the outside world."""
    if module == "builtins":
        return not rest or rest[0] in UNSOUND_BUILTINS
    if origin.reads_state(module, rest[-1] if rest else ""):
        return True
    if module == "numpy.random":
        return not (rest and rest[0] in SEEDED and not called)
    return origin.is_stdlib(module) and not origin.is_pure(module)


def _attribute(module: types.ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except Exception:  # a module's own __getattr__ may raise anything
        return sys.modules.get(f"{module.__name__}.{name}", MISSING)


def _class_member(cls: type, name: str) -> Any:
    """A class attribute that can be read without the class, else MISSING."""
    if type(cls) is not type and hasattr(type(cls), name):
        return MISSING
    member = next((vars(b)[name] for b in cls.__mro__ if name in vars(b)), MISSING)
    if isinstance(member, staticmethod):
        return member.__func__
    if isinstance(member, types.FunctionType) or not hasattr(type(member), "__get__"):
        return member
    return MISSING
