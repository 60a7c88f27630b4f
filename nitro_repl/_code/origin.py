"""Where code comes from: the user, or an installed library keyed by its version.

User code is everything outside the standard library, site-packages and this package.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import sys
import sysconfig
import types
import weakref
from typing import Any

from .._where import cell_of

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
STDLIB = tuple(
    {
        os.path.realpath(path) + os.sep
        for path in (
            os.path.dirname(os.__file__),
            sysconfig.get_paths()["stdlib"],
            sysconfig.get_paths()["platstdlib"],
        )
    }
    | {os.path.dirname(os.__file__) + os.sep}
)
INSTALLED = re.compile(r"[\\/](site|dist)-packages[\\/]")
CELL = re.compile(r"<cell (\d+)>")

# What these modules compute depends on their arguments alone (or, like logging and
# warnings, cannot come back into a traced value).
PURE = frozenset(
    [
        "math",
        "cmath",
        "functools",
        "itertools",
        "operator",
        "dataclasses",
        "typing",
        "collections",
        "enum",
        "abc",
        "numbers",
        "string",
        "re",
        "copy",
        "contextlib",
        "types",
        "warnings",
        "logging",
        "fractions",
        "statistics",
        "textwrap",
        "bisect",
        "heapq",
        "json",
        "pprint",
        "builtins",
        "array",
        "struct",
        "keyword",
        "reprlib",
        "colorsys",
        "difflib",
        "graphlib",
        "unicodedata",
        "binascii",
        "base64",
        "hashlib",
        "zlib",
        "sre_compile",
        "sre_parse",
        "annotationlib",
        "collections_abc",
    ]
)
PURE_CLASSES = frozenset(
    ["inspect.Parameter", "inspect.Signature", "inspect._empty"]  # Linen keeps them
)

LOADERS = frozenset(
    ["fromfile", "genfromtxt", "load", "loadtxt", "memmap", "open_memmap"]
)
SETTINGS = frozenset(["getbufsize", "geterr", "geterrcall", "get_printoptions"])

_user_files: dict[str, bool] = {}
_versions: dict[str, str] = {}
_user_classes: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def is_user_file(filename: str) -> bool:
    """Whether code compiled under this file name was written by the user."""
    known = _user_files.get(filename)
    if known is None:
        known = _user_files[filename] = not _is_library_file(filename)
    return known


def _is_library_file(filename: str) -> bool:
    if filename.startswith("<"):
        return filename.startswith(("<frozen ", "<__array_function__"))
    return (
        filename.startswith((HERE, *STDLIB))
        or INSTALLED.search(filename) is not None
        or os.path.realpath(filename).startswith((HERE, *STDLIB))
    )


def is_user_code(code: types.CodeType, namespace: dict[str, Any]) -> bool:
    """Whether a code object, run in this namespace, is user code.

    Libraries compile source too (named tuples, dataclasses): their pieces all carry
    the file name `<string>`, so the namespace has to tell whose they are.
    """
    filename = code.co_filename
    if not is_user_file(filename):
        return False
    if filename != "<string>":
        return True
    name = namespace.get("__name__")
    if not isinstance(name, str) or name == "builtins":
        return True
    if name.startswith("namedtuple_"):
        return False
    module = sys.modules.get(name)
    return module is None or vars(module) is not namespace or is_user_module(module)


def is_user_module(module: types.ModuleType) -> bool:
    """Whether a module is the user's: not installed, not built in, not ours."""
    names = vars(module)
    if names.get("__name__") == "__main__":
        return True
    filename = names.get("__file__")
    if isinstance(filename, str):
        return is_user_file(filename)
    spec = names.get("__spec__")
    if getattr(spec, "origin", None) in ("built-in", "frozen"):
        return False
    for folder in names.get("__path__") or ():
        return is_user_file(str(folder) + os.sep)
    return names.get("__name__") not in sys.builtin_module_names


def is_user_class(cls: type) -> bool:
    """Whether a class has to be read member by member.

    A class that its library module does not hold under its own name was made on
    the user's behalf (`make_dataclass`, a class in a function): it counts as user code.
    """
    known = _user_classes.get(cls)
    if known is None:
        known = _user_classes[cls] = _is_user_class(cls)
    return known


def _is_user_class(cls: type) -> bool:
    if not cls.__flags__ & (1 << 9):  # not a heap type: written in C
        return False
    module = sys.modules.get(module_name(cls))
    if module is None or is_user_module(module):
        return True
    return not _is_c_class(cls) and not found(module, cls)


def _is_c_class(cls: type) -> bool:
    names = vars(cls)
    return not any(
        isinstance(names.get(key), str | types.GetSetDescriptorType | tuple | list)
        for key in ("__qualname__", "__dict__", "__weakref__", "__slots__")
    ) and not any(isinstance(v, types.FunctionType) for v in names.values())


def found(module: types.ModuleType, value: object) -> bool:
    """Whether a module holds this very value under the value's own name."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(name, str):
        return False
    at: object = module
    for key in name.split("."):
        try:
            at = vars(at)[key]  # type: ignore[arg-type]
        except (KeyError, TypeError):
            return False
    return at is value


def module_name(value: object) -> str:
    """The module a value says it was defined in, or ''."""
    name = getattr(value, "__module__", None)
    return name if isinstance(name, str) else ""


@functools.lru_cache(maxsize=8192)
def is_stdlib(name: str) -> bool:
    """Whether a module name belongs to the standard library."""
    return name.partition(".")[0] in sys.stdlib_module_names


@functools.lru_cache(maxsize=8192)
def is_pure(name: str) -> bool:
    """Whether a standard library module computes from its arguments alone."""
    return name.partition(".")[0].lstrip("_") in PURE


def reads_state(module: str, name: str) -> bool:
    """Whether an array library's function gives what a file or a setting says."""
    return name in LOADERS | SETTINGS and module.partition(".")[0] in ("numpy", "jax")


@functools.lru_cache(maxsize=8192)
def library_token(module: str, name: str) -> str:
    """How something installed enters a digest: where it is, and which version."""
    return f"lib {module}:{name}@{_version(module.partition('.')[0])}"


def _version(package: str) -> str:
    known = _versions.get(package)
    if known is None:
        known = _versions[package] = _find_version(package)
    return known


def _find_version(package: str) -> str:
    if is_stdlib(package) or not package:
        return ""
    version = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(version, str):
        return version
    try:
        return importlib.metadata.version(package)
    except Exception:  # not a distribution name, or metadata that cannot be read
        return ""


def place(code: types.CodeType) -> str:
    """Where code was written, in words: `In [7]`, `losses.py:12`, or ''."""
    filename = code.co_filename
    numbered = CELL.match(filename)
    if numbered:
        return f"In [{numbered[1]}]"
    cell = cell_of(filename)
    if filename.startswith("<"):
        return cell if cell.startswith("In [") else ""
    return cell or f"{os.path.basename(filename)}:{code.co_firstlineno}"
