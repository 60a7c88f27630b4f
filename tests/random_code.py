# ruff: noqa: E501 (a template reads best with one statement a line)
"""Random user code that can be edited, and the numbers that it should give.

Every node is one cell of a notebook, or stands in a module on disk; it calls nodes
before it by their global names. The reference executes the final source in a new
namespace and evaluates it by plain JAX, without this package's programs.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import types
from dataclasses import dataclass, field, replace
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

HEAD = """
import dataclasses, enum, functools, types
import jax, jax.numpy as jnp, numpy as np, optax
from flax import nnx
import nitro_repl as nitro
"""
BASE = """
_rng = np.random.default_rng(0)
ROWS = [{"x": _rng.normal(size=(4, 3)).astype("float32"),
         "y": _rng.normal(size=(4, 2)).astype("float32")} for _ in range(3)]

class Exp(nitro.Experiment):
    def build_data(self):
        return {"train": ROWS}

    def build_model(self, rngs):
        return nnx.Linear(3, 2, rngs=rngs)

    def learning_rate(self):
        return 0.05
"""
ROOTS = {
    "forward": "@Exp.hook\ndef forward(self, model, *, x):\n    x = model(x)\n    V = CALL\n    return V * C\n",
    "loss": "@Exp.hook\ndef loss(self, x, *, y):\n    V = CALL\n    return ((V - y) ** 2).mean() * C\n",
    "optimizer": "@Exp.hook\ndef optimizer(self, hp):\n    x = hp.learning_rate\n    V = CALL\n    return optax.sgd(0.2 * jnp.tanh(V) * C)\n",
}
PROGRAMS = {
    "forward": ("forward", "backward"),
    "loss": ("loss",),
    "optimizer": ("optimizer",),
}
PLAIN = "def NAME(x):\n    V = CALL\n    return "
EXPRESSIONS = (
    "V * (G)",
    "jnp.sin(V) + (G)",
    "V / (1.5 + (G))",
    "jnp.tanh(V * (G)) * 2",
)
NOTES = ("", "    # noted\n", '    """Documented."""\n')

# Templates of one node. C is its constant, E[g] an expression of V and g, V a local.
# A part after `---` is a cell of its own; `+++` begins how C changes in place.
KINDS = {
    "plain": PLAIN + "E[C]\n",
    "nested": "def NAME(x):\n    def inner(V):\n        return E[C]\n    return inner(CALL)\n",
    "global": "NAME_g = C\n---\n" + PLAIN + "E[NAME_g]\n",
    "default": "def NAME(x, g=C):\n    V = CALL\n    return E[g]\n",
    "keyword default": "def NAME(x, *, g=lambda: C):\n    V = CALL\n    return E[g()]\n+++\nNAME.__kwdefaults__ = {'g': lambda: C}\n",
    "closure": "def make_NAME(g):\n    def call(x):\n        V = CALL\n        return E[g]\n    return call\nNAME = make_NAME(C)\n",
    "loop": "NAME_all = []\nfor NAME_g in (1.0, C):\n    NAME_all.append(lambda V, g=NAME_g: E[g])\n---\ndef NAME(x):\n    return NAME_all[1](CALL)\n",
    "partial": "def NAME_(x, g):\n    V = CALL\n    return E[g]\nNAME = functools.partial(NAME_, g=C)\n",
    "decorator": "def louder_NAME(g):\n    def wrap(function):\n        @functools.wraps(function)\n        def call(x):\n            V = function(x)\n            return E[g]\n        return call\n    return wrap\n---\n@louder_NAME(C)\ndef NAME(x):\n    return CALL\n",
    "class attribute": "class NAME_k:\n    gain = C\n---\n"
    + PLAIN
    + "E[NAME_k.gain]\n+++\nNAME_k.gain = C\n",
    "attribute of a base": "class NAME_b:\n    gain = C\nclass NAME_k(NAME_b):\n    pass\n---\n"
    + PLAIN
    + "E[NAME_k().gain]\n+++\nNAME_b.gain = C\n",
    "callable": "class NAME_k:\n    def __init__(self, g):\n        self.g = g\n    def __call__(self, x):\n        V = CALL\n        return E[self.g]\nNAME = NAME_k(C)\n+++\nNAME.g = C\n",
    "property": "class NAME_k:\n    @property\n    def gain(self):\n        return C\n---\n"
    + PLAIN
    + "E[NAME_k().gain]\n",
    "dataclass": "@dataclasses.dataclass\nclass NAME_k:\n    g: float = C\nNAME_i = NAME_k()\n---\n"
    + PLAIN
    + "E[NAME_i.g]\n",
    "enum": "class NAME_k(enum.Enum):\n    HIGH = C\n---\n"
    + PLAIN
    + "E[NAME_k.HIGH.value]\n",
    "registry": "NAME_r = {'act': lambda V: E[C]}\n---\ndef NAME(x):\n    return NAME_r['act'](CALL)\n+++\nNAME_r['act'] = lambda V: E[C]\n",
    "list": "NAME_l = [1.0, C]\n---\n" + PLAIN + "E[NAME_l[1]]\n+++\nNAME_l[1] = C\n",
    "array": "NAME_a = np.array([1.0, C], 'float32')\n---\n"
    + PLAIN
    + "E[NAME_a[1]]\n+++\nNAME_a[1] = C\n",
    "jax array": "NAME_a = jnp.array([1.0, C], 'float32')\n---\n"
    + PLAIN
    + "E[NAME_a[1]]\n",
    "namespace": "NAME_n = types.SimpleNamespace(g=C)\n---\n"
    + PLAIN
    + "E[NAME_n.g]\n+++\nNAME_n.g = C\n",
    "dispatch": "@functools.singledispatch\ndef NAME(x):\n    V = CALL\n    return E[C]\n",
    "jit": "@jax.jit\n" + PLAIN + "E[C]\n",
    "jit of a global": "NAME_g = C\n---\n@jax.jit\n" + PLAIN + "E[NAME_g]\n",
    "static argument": "@functools.partial(jax.jit, static_argnums=1)\ndef NAME_(x, g):\n    V = CALL\n    return E[g]\n---\ndef NAME(x):\n    return NAME_(x, C)\n",
    "scan": "def NAME(x):\n    def body(V, _):\n        return E[C], None\n    return jax.lax.scan(body, CALL, None, length=2)[0]\n",
    "scan of a global": "NAME_g = C\n---\ndef body_NAME(V, _):\n    return E[NAME_g], None\ndef NAME(x):\n    return jax.lax.scan(body_NAME, CALL, None, length=2)[0]\n",
    "loop of JAX": "def NAME(x):\n    return jax.lax.fori_loop(0, 2, lambda _, V: E[C], CALL)\n",
    "checkpoint": "def NAME_(V):\n    return E[C]\n---\ndef NAME(x):\n    return jax.checkpoint(NAME_)(CALL)\n",
    "vmap": "NAME_g = C\ndef NAME_(V):\n    return E[NAME_g]\n---\ndef NAME(x):\n    return jax.vmap(NAME_, in_axes=None, axis_size=1)(CALL)[0]\n",
    "custom rule": "@jax.custom_vjp\ndef NAME_(V):\n    return E[0.75]\ndef forth_NAME(V):\n    return E[0.75], None\ndef back_NAME(_, given):\n    return (given * C,)\nNAME_.defvjp(forth_NAME, back_NAME)\n---\ndef NAME(x):\n    return NAME_(CALL)\n",
}
IN_PLACE = tuple(kind for kind, text in KINDS.items() if "+++" in text)


@dataclass(frozen=True)
class Node:
    """One helper, or a hook; an edit makes a new one."""

    name: str
    kind: str
    inner: tuple[str, ...]  # called from the last to the first, on x
    constant: float = 0.75
    variant: int = 0
    local: str = "value"
    note: int = 0

    @property
    def meaning(self) -> Any:
        """What may move numbers."""
        return self.name, self.kind, self.inner, self.constant, self.variant

    @property
    def cells(self) -> list[str]:
        """Its source, one text a cell."""
        text = ROOTS.get(self.kind) or KINDS[self.kind].partition("+++\n")[0]
        return [self._filled(part) for part in text.split("---\n")]

    @property
    def in_place(self) -> str:
        """A statement that changes the constant of the live value."""
        return self._filled(KINDS[self.kind].partition("+++\n")[2])

    @property
    def has_a_local(self) -> bool:
        """Whether its `V` is a local; the name of a parameter is part of the code."""
        text = ROOTS.get(self.kind) or KINDS[self.kind]
        return not re.search(r"(lambda|def \w+\()[^:)]*\bV\b", text)

    def _filled(self, text: str) -> str:
        call = "x"
        for name in reversed(self.inner):
            call = f"{name}({call})"
        expression = EXPRESSIONS[self.variant]
        while "E[" in text:
            start = text.index("E[")
            end = start + _closing(text[start:])
            used = expression.replace("G", text[start + 2 : end])
            text = text[:start] + used + text[end + 1 :]
        text = text.replace("CALL", call).replace("NAME", self.name)
        text = _word(text, "V", self.local)
        text = _word(text, "C", repr(self.constant))
        return self._noted(text)

    def _noted(self, text: str) -> str:
        head, colon, body = text.partition("(x):\n")
        return head + colon + NOTES[self.note] + body if colon else text


@dataclass
class World:
    """The present code of one session: helpers, then the three hooks."""

    nodes: dict[str, Node]
    in_file: int = 0  # so many of the first helpers stand in a module
    before: dict[str, list[Node]] = field(default_factory=dict)

    def source(self, node: Node) -> list[str]:
        """The cells of a node, as they stand outside of the module."""
        filed = self.filed
        inner = tuple(f"mod.{n}" if n in filed else n for n in node.inner)
        return replace(node, inner=inner).cells

    @property
    def filed(self) -> list[str]:
        """Names of the helpers in the module."""
        return list(self.nodes)[: self.in_file]

    @property
    def file(self) -> str:
        """The source of the module."""
        cells = [cell for name in self.filed for cell in self.nodes[name].cells]
        return "\n".join([HEAD, *cells])

    @property
    def cells(self) -> list[str]:
        """All cells, in an order in which a fresh notebook can run them."""
        rest = [self.nodes[name] for name in self.nodes if name not in self.filed]
        return [BASE, *(cell for node in rest for cell in self.source(node))]

    def reach(self, name: str) -> tuple[Node, ...]:
        """A node and all that it calls."""
        found: dict[str, Node] = {}
        work = [name]
        while work:
            at = work.pop()
            found[at] = self.nodes[at]
            work += self.nodes[at].inner
        return tuple(found[name] for name in sorted(found))

    def put(self, node: Node) -> None:
        """Replace a node, and remember the one before."""
        self.before.setdefault(node.name, []).append(self.nodes[node.name])
        self.nodes[node.name] = node


def _closing(text: str) -> int:
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "]" and depth == 0:
            return at
    raise ValueError(text)


def _word(text: str, word: str, by: str) -> str:
    return re.sub(rf"\b{word}\b", by, text)


# ---- what the numbers should be


def executed(cells: list[str], file: str) -> dict[str, Any]:
    """A new namespace in which this source ran, with a new module."""
    names: dict[str, Any] = {"__name__": "reference", "mod": types.ModuleType("mod")}
    _run(file, vars(names["mod"]))
    for cell in [HEAD, *cells]:
        _run(cell, names)
    return names


def _run(source: str, names: dict[str, Any]) -> None:
    exec(compile(source, "<reference>", "exec", dont_inherit=True), names)


def steps(
    names: dict[str, Any], start: int, count: int, params: Any = None
) -> tuple[list[float], list[Any]]:
    """Losses and then parameters of plain, eager gradient descent."""
    experiment = names["Exp"]()
    hyper = types.SimpleNamespace(learning_rate=experiment.learning_rate())
    graph, state = nnx.split(experiment.build_model(nnx.Rngs(0)))
    if params is None:
        params = jax.tree.map(np.asarray, nnx.to_pure_dict(state))
    found = []

    def value(params: Any, batch: Any) -> Any:
        made = nnx.clone(state)
        nnx.replace_by_pure_dict(made, params)
        outputs = experiment.forward(nnx.merge(graph, made), x=batch["x"])
        return experiment.loss(outputs, y=batch["y"])

    with jax.disable_jit():
        optimizer = experiment.optimizer(hyper)
        optimizer_state = optimizer.init(params)
        for row in itertools.islice(
            itertools.cycle(names["ROWS"]), start, start + count
        ):
            batch = {name: jnp.asarray(array) for name, array in row.items()}
            loss, grads = jax.value_and_grad(value)(params, batch)
            moves, optimizer_state = optimizer.update(grads, optimizer_state, params)
            params = jax.tree.map(lambda p, m: p + m, params, moves)
            found.append(float(loss))
    return found, [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(params)]


def in_new_process(cells: list[str], file: str, count: int) -> Any:
    """The same numbers from a process that never saw other code."""
    asked = json.dumps({"cells": cells, "file": file, "count": count})
    done = subprocess.run(
        [sys.executable, __file__],
        input=asked,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    asked = json.loads(sys.stdin.read())
    print(json.dumps(steps(executed(asked["cells"], asked["file"]), 0, asked["count"])))
