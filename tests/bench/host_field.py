"""Time set-up and the first two steps beside a Host field of 1 MB, 100 MB and 1 GB.

    python tests/bench/host_field.py [--rounds 5]

The programs are compiled anew each time. Sizes take turns, so that other load hits all
alike: read the ratio to the smallest. The arrays are zeros that nobody has written to;
who reads or copies them pays for their size.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["NITRO_CACHE_DIR"] = "off"  # the programs are to be compiled each time

import numpy as np
from flax import nnx

import nitro_repl as nitro

SIZES = {"1 MB": 2**20, "100 MB": 100 * 2**20, "1 GB": 2**30}


class Regression(nitro.Experiment):
    table: np.ndarray

    def build_data(self):
        return {"train": nitro.ArrayLoader({"x": self.table[:64]}, 16)}

    def build_model(self, rngs):
        return nnx.Sequential(
            nnx.Linear(256, 64, rngs=rngs), nnx.relu, nnx.Linear(64, 1, rngs=rngs)
        )

    def forward(self, model, *, x):
        return model(x)

    def loss(self, out):
        return (out**2).mean()


def seconds(table):
    """From the experiment to its second step, with nothing compiled before."""
    nitro.programs.clear()
    started = time.perf_counter()
    handle = nitro.Nitro(Regression(table=table), run_dir=None, max_steps=2)
    handle.train(background=False)
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    tables = {n: np.zeros((s // 1024, 256), "f") for n, s in SIZES.items()}
    for table in tables.values():
        seconds(table)  # the first imports and compiles more than the others
    took = {name: [] for name in tables}
    for _ in range(rounds):
        for name, table in tables.items():
            took[name].append(seconds(table))
    least = statistics.median(took["1 MB"])
    print(f"{'Host field':>10} {'seconds':>8} {'ratio':>6}")
    for name, times in took.items():
        median = statistics.median(times)
        print(f"{name:>10} {median:8.2f} {median / least:6.2f}")


if __name__ == "__main__":
    main()
