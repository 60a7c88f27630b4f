"""Does a saved edit of a module reach the compiled step? A row per tool, and ours.

    python tests/bench/stale.py

Three edits of a file (the loss, a helper two calls down, a constant of the module),
reached by a plain call, under `jax.jit`, by a jit made at import, and under `nnx.jit`.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["NITRO_CACHE_DIR"] = "off"

LOSSES = """
K = {constant}

def helper(x):
    return x * {helper}

def loss(x):
    return helper(x) * K * {loss}
"""
STEPS = """
import jax
from flax import nnx
import lossmod
from lossmod import loss

plain = lambda x: loss(x)
jitted = jax.jit(lambda x: loss(x))
jit_of_it = jax.jit(lossmod.loss)
nnx_jitted = nnx.jit(lambda x: loss(x))
"""
WAYS = ("plain", "jitted", "jit_of_it", "nnx_jitted")
EDITS = {
    "loss": {"loss": "10.0"},
    "helper": {"loss": "10.0", "helper": "10.0"},
    "constant": {"loss": "10.0", "helper": "10.0", "constant": "10.0"},
}
TOOLS = ("none", "autoreload 2", "autoreload 3", "nitro", "nitro swap")
EXPERIMENT = """
import jax, numpy as np, optax
from flax import nnx
import nitro_repl as nitro
import lossmod, steps

class Exp(nitro.Experiment):
    way: nitro.GraphConst[str]

    def build_data(self):
        return {"train": [{"x": np.ones((2, 1), "float32")}]}

    def build_model(self, rngs):
        ones = nnx.initializers.ones
        return nnx.Linear(1, 1, use_bias=False, kernel_init=ones, rngs=rngs)

    def forward(self, model, *, x):
        return model(x)

    def loss(self, outputs):
        return getattr(steps, self.way)(outputs.mean())

    def optimizer(self, hp):
        return optax.sgd(0.0)
"""


def save(**changes: str) -> None:
    values = {"constant": "1.0", "helper": "1.0", "loss": "1.0", **changes}
    path = pathlib.Path("lossmod.py")
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(LOSSES.format(**values))
    os.utime(
        path, ns=(before + 2 * 10**9, before + 2 * 10**9)
    )  # autoreload counts seconds


class Session:
    """One shell with one tool; `values` says what each way of calling gives."""

    def __init__(self, tool: str):
        from IPython.core.interactiveshell import InteractiveShell

        self.tool = tool
        self.shell = InteractiveShell.instance()
        if tool.startswith("autoreload"):
            self.shell.run_line_magic("load_ext", "autoreload")
            self.shell.run_line_magic("autoreload", tool[-1])
        self.cell("import jax.numpy as jnp, lossmod, steps")
        self.runs = {}
        if tool.startswith("nitro"):
            self.shell.run_line_magic("load_ext", "nitro_repl")
            self.shell.run_line_magic("nitro", "auto 0")
            self.cell(EXPERIMENT)

    def cell(self, source: str) -> None:
        self.shell.run_cell(source).raise_error()

    def values(self) -> dict[str, float]:
        return {way: self.value(way) for way in WAYS}

    def value(self, way: str) -> float:
        names = self.shell.user_ns
        if not self.tool.startswith("nitro"):
            return float(getattr(names["steps"], way)(names["jnp"].float32(1.0)))
        if way not in self.runs or self.tool == "nitro":
            handle = names["nitro"].Nitro(
                names["Exp"](way=way), run_dir=None, max_steps=99
            )
            if way in self.runs:
                self.runs[way].stop()
            self.runs[way] = handle.train(background=True, paused=True)
        else:
            self.runs[way].swap()
        self.runs[way].advance(1)
        return float(self.runs[way].history()["loss"][-1])

    def close(self) -> None:
        for run in self.runs.values():
            run.stop()


def row(tool: str) -> bool:
    """Print what follows each edit; whether all do."""
    save()
    pathlib.Path("steps.py").write_text(STEPS)
    sys.path.insert(0, os.getcwd())
    session = Session(tool)
    assert set(session.values().values()) == {1.0}
    good = True
    for number, (name, changes) in enumerate(EDITS.items(), 1):
        save(**changes)
        session.cell("None")
        found = session.values()
        said = {
            w: "follows" if v == 10.0**number else "STALE" for w, v in found.items()
        }
        good &= set(said.values()) == {"follows"}
        print(f"{tool:14}{name:10}", *(f"{said[way]:>10}" for way in WAYS), flush=True)
    session.close()
    return good


def main() -> int:
    if len(sys.argv) > 1:
        return not row(sys.argv[1])
    print(f"{'tool':14}{'edit of':10}", *(f"{way:>10}" for way in WAYS))
    failed = []
    for tool in TOOLS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, os.path.abspath(__file__), tool]
            environment = {**os.environ, "IPYTHONDIR": folder}
            done = subprocess.run(command, cwd=folder, env=environment, check=False)
            if done.returncode and tool.startswith("nitro"):
                failed.append(tool)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
