"""A notebook of random code that lives through edits, as a user would make them.

After each edit, `fresh()` is the namespace of a session that only ever saw the final
code.
"""

from __future__ import annotations

import importlib
import itertools
from dataclasses import replace

import jax
import numpy as np
from cells import QUIET, Notebook
from random_code import (
    EXPRESSIONS,
    HEAD,
    IN_PLACE,
    NOTES,
    ROOTS,
    executed,
)

import nitro_repl as nitro

STEPS = 2
CHANGES = ("constant", "body", "in place", "revert")
REPEATS = ("run again", "rename", "note", "run everything")
_modules = itertools.count(1)


class Session:
    """A notebook, its module on disk, and what each program has been made from."""

    def __init__(self, world, folder):
        self.world = world
        self.module = f"random_module_{next(_modules)}"
        self.path = folder / f"{self.module}.py"
        self.path.write_text(world.file)
        importlib.invalidate_caches()
        self.book = Notebook(HEAD, f"import {self.module} as mod")
        self.everything()
        self.seen = {program: set() for program in ROOTS}

    def everything(self):
        for cell in self.world.cells:
            self.book.cell(cell)

    def edit(self, which, change, constant, shift):
        """Edit the code, and run what a user would run again."""
        world = self.world
        name = list(world.nodes)[which % len(world.nodes)]
        node = world.nodes[name]
        if change == "run everything":
            return self.everything()
        if change == "in place" and (node.kind not in IN_PLACE or name in world.filed):
            change = "constant"
        if change == "revert":
            older = world.before.get(name)
            node = older[constant.as_integer_ratio()[0] % len(older)] if older else node
        else:
            node = edited(node, change, constant, shift)
        world.put(node)
        if name in world.filed:
            self.path.write_text(world.file)
        elif change == "in place":
            self.book.cell(node.in_place)
        else:
            for cell in world.source(node):
                self.book.cell(cell)
        return None

    def must_be_known(self):
        """Hooks whose code, with all that it reaches, was seen before."""
        meanings = {root: self.meaning(root) for root in ROOTS}
        return {root for root in ROOTS if meanings[root] in self.seen[root]}

    def meaning(self, root):
        return tuple(node.meaning for node in self.world.reach(root))

    def learn(self):
        for root, seen in self.seen.items():
            seen.add(self.meaning(root))

    def fresh(self):
        return executed(self.world.cells, self.world.file)


def edited(node, change, constant, shift):
    if change in ("constant", "in place"):
        return replace(node, constant=constant)
    if change == "body" and node.kind not in ROOTS:
        return replace(node, variant=(node.variant + shift) % len(EXPRESSIONS))
    if change == "rename" and node.has_a_local:
        return replace(node, local="value" if node.local != "value" else "renamed")
    if change in ("note", "rename"):
        return replace(node, note=(node.note + 1) % len(NOTES))
    return node


def close(found, expected):
    """Equal to 1e-5 of the largest number in each array."""
    pairs = zip(map(np.asarray, found), map(np.asarray, expected), strict=True)
    for one, two in pairs:
        scale = max(1.0, float(np.abs(two).max()))
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5 * scale)


def leaves(run):
    return jax.tree.leaves(run.params)


def train(session):
    handle = nitro.Nitro(session.book["Exp"](), max_steps=STEPS, **QUIET)
    return handle.train(background=False)
