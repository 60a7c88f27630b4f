"""A directed graph of labelled nodes and one digest for what its root can see.

Two graphs that unfold to the same tree have the same digest: sharing, copies and the
order in which nodes were met do not count.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator

ROUNDS = 50


class Graph:
    """Nodes with a label and children; node 0 is the root."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.children: list[list[int]] = []
        self.unordered: set[int] = set()

    def add(self) -> int:
        """Make room for a node, to be filled in later."""
        self.labels.append("")
        self.children.append([])
        return len(self.labels) - 1

    def digest(self) -> str:
        """32 hex characters for the graph as seen from its root."""
        return self._digest_from(0, self._classes(), deep=True)

    def _classes(self) -> list[int]:
        """The class of each node, such that equal ones cannot be told apart."""
        known: dict[object, int] = {label: i for i, label in enumerate(self.labels)}
        if len(known) == len(self.labels):
            return list(range(len(known)))
        known.clear()
        classes = [-1] * len(self.labels)
        for node in self._leaves_first():
            key = (self.labels[node], *self._kid_classes(node, classes))
            classes[node] = known.setdefault(key, len(known))
        members: dict[int, list[int]] = defaultdict(list)
        for node, kind in enumerate(classes):
            if kind < 0:  # on a cycle, or above one
                classes[node] = known.setdefault(self.labels[node], len(known))
                members[classes[node]].append(node)
        unsure = [group for group in members.values() if len(group) > 1]
        self._refine(unsure, classes, len(known))
        return classes

    def _leaves_first(self) -> Iterator[int]:
        """Nodes from which no cycle can be reached, each after its children."""
        parents: list[list[int]] = [[] for _ in self.labels]
        waiting = [len(kids) for kids in self.children]
        for node, kids in enumerate(self.children):
            for kid in kids:
                parents[kid].append(node)
        ready = [node for node, count in enumerate(waiting) if not count]
        while ready:
            node = ready.pop()
            yield node
            for parent in parents[node]:
                waiting[parent] -= 1
                if not waiting[parent]:
                    ready.append(parent)

    def _refine(self, unsure: list[list[int]], classes: list[int], count: int) -> None:
        """Split groups of equal labels until the children tell no more apart."""
        for _ in range(ROUNDS):
            split = [self._split(group, classes) for group in unsure]
            if all(len(parts) == 1 for parts in split):
                return
            unsure = [part for parts in split for part in parts if len(part) > 1]
            for parts in split:
                for part in parts[1:]:
                    for node in part:
                        classes[node] = count
                    count += 1
        # A very long loop of look-alikes: merge none of them, which is always safe.
        for group in unsure:
            for node in group:
                classes[node] = count
                count += 1

    def _kid_classes(self, node: int, classes: list[int]) -> list[int]:
        kids = [classes[child] for child in self.children[node]]
        if node in self.unordered:
            kids.sort()
        return kids

    def _split(self, group: list[int], classes: list[int]) -> list[list[int]]:
        parts: dict[tuple[int, ...], list[int]] = {}
        for node in group:
            kids = self._kid_classes(node, classes)
            parts.setdefault(tuple(kids), []).append(node)
        return list(parts.values())

    def _digest_from(self, root: int, classes: list[int], *, deep: bool) -> str:
        number: dict[int, int] = {}
        out: list[str] = []
        stack = [root]
        while stack:
            node = stack.pop()
            kind = classes[node]
            if kind in number:
                out.append(f"#{number[kind]}")
                continue
            number[kind] = len(number)
            label, kids = self.labels[node], self.children[node]
            out.append(f"{len(label)}:{len(kids)}:{label}")
            if node in self.unordered and len(kids) > 1:
                kids = self._sorted(kids, classes, deep=deep)
            stack.extend(reversed(kids))
        data = "".join(out).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, digest_size=16).hexdigest()

    def _sorted(self, kids: list[int], classes: list[int], *, deep: bool) -> list[int]:
        # One level of exact sorting: a set that contains itself must not loop.
        if not deep:
            return sorted(kids, key=lambda kid: self.labels[kid])
        return sorted(kids, key=lambda kid: self._digest_from(kid, classes, deep=False))
