"""What a module's source binds, imports, and reads while it is imported.

Read off the syntax, nothing runs; a name in doubt counts as read.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Imported(NamedTuple):
    """Where an import statement takes a name from; no attribute is the module."""

    module: str  # with leading dots if relative
    name: str


@dataclass(frozen=True)
class Outline:
    """The outline of one source.

    Attributes:
        bound: Every name it binds at its top level.
        imported: Those that an import bound last.
        stars: The modules it imports everything from.
        loads: Names and attributes that are read while it is imported.
        bodies: Function or class -> the names and attributes in its body.
        since: Module of a star import -> what was bound in the same source or a later
            one; known of sources that were merged.
    """

    bound: frozenset[str]
    imported: Mapping[str, Imported]
    stars: tuple[str, ...]
    loads: frozenset[str]
    bodies: Mapping[str, frozenset[str]]
    since: Mapping[str, set[str]] = field(default_factory=dict[str, set[str]])

    @property
    def modules(self) -> frozenset[str]:
        """Every module that it may import, relative ones with their dots."""
        found = set(self.stars)
        for module, name in self.imported.values():
            dot = "" if module.endswith(".") else "."
            found |= {module, f"{module}{dot}{name}"} if name else {module}
        return frozenset(found)


@functools.lru_cache(maxsize=4096)
def outline(source: str | bytes) -> Outline:
    """The outline of a source; empty if it does not parse."""
    reader = _Reader()
    with contextlib.suppress(SyntaxError, ValueError):
        reader.block(ast.parse(source).body)
    return Outline(
        frozenset(reader.bound),
        reader.imported,
        tuple(reader.stars),
        frozenset(reader.loads),
        {name: frozenset(body) for name, body in reader.bodies.items()},
    )


def literals(source: bytes) -> dict[str, object]:
    """Names that a source binds once and for all, to a number or a string."""
    found: dict[str, object] = {}
    tree = ast.parse(source)
    twice = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Global)
        for name in node.names
    }
    for statement in tree.body:
        for name in outline(ast.unparse(statement)).bound:
            if name in found:
                twice.add(name)
            found[name] = None
        match statement:
            case ast.Assign([ast.Name(name)], ast.Constant(value)):
                found[name] = value
    return {
        name: value
        for name, value in found.items()
        if name not in twice and value is not None
    }


def merged(outlines: Iterable[Outline]) -> Outline:
    """Of sources that run one after the other in one namespace."""
    bound: set[str] = set()
    imported: dict[str, Imported] = {}
    since: dict[str, set[str]] = {}
    for part in outlines:
        for name in part.bound:
            imported.pop(name, None)
        bound |= part.bound
        imported.update(part.imported)
        since.update({star: set[str]() for star in part.stars})
        for known in since.values():
            known.update(part.bound)
    return Outline(frozenset(bound), imported, tuple(since), frozenset(), {}, since)


def absolute(module: str, package: str | None) -> str:
    """The full name of a module that may be relative; '' if there is none."""
    try:
        return importlib.util.resolve_name(module, package or None)
    except (ImportError, ValueError):
        return ""


class _Reader(ast.NodeVisitor):
    """Visits what runs at import, in order; what only may run later goes to bodies."""

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.imported: dict[str, Imported] = {}
        self.stars: list[str] = []
        self.loads: set[str] = set()
        self.bodies: dict[str, set[str]] = {}
        self._imports: list[tuple[str, Imported]] = []

    def block(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)

    def _bind(self, name: str) -> None:
        self.bound.add(name)
        self.imported.pop(name, None)

    def _import(self, name: str, imported: Imported) -> None:
        self.bound.add(name)
        self.imported[name] = imported
        self._imports.append((name, imported))

    def _choice(self, node: ast.AST) -> None:
        """An import in one branch counts, whatever another branch binds."""
        start = len(self._imports)
        self.generic_visit(node)
        self.imported.update(self._imports[start:])

    def visit_Try(self, node: ast.Try) -> None:
        self._choice(node)

    def visit_If(self, node: ast.If) -> None:
        self._choice(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.loads.add(node.id)
        else:
            self._bind(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.loads.add(node.attr)
        self.visit(node.value)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._import(name, Imported(alias.name, ""))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(module)
                continue
            name = alias.asname or alias.name
            self._import(name, Imported(module, alias.name))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.generic_visit(node)  # its name is gone after the handler

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self._bind(node.name)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in (*node.decorator_list, node.args):
            self.loads |= _identifiers(part)
        if node.decorator_list:  # a decorator may call it at once
            self.loads |= _identifiers(node)
        self.bodies.setdefault(node.name, set()).update(_identifiers(node))
        self._bind(node.name)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.loads |= _identifiers(part)
        for statement in node.body:
            self._in_class(statement)
        self.bodies.setdefault(node.name, set()).update(_identifiers(node))
        self._bind(node.name)

    def _in_class(self, statement: ast.stmt) -> None:
        """A class body runs at import, but for the bodies of its methods."""
        if isinstance(statement, _FUNCTIONS) and not statement.decorator_list:
            self.loads |= _identifiers(statement.args)
        else:
            self.loads |= _identifiers(statement)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.loads |= _identifiers(node)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, _COMPREHENSIONS):  # what it binds is its own
            self.loads |= _identifiers(node)
        else:
            super().generic_visit(node)


def _identifiers(node: ast.AST) -> set[str]:
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
    return found
