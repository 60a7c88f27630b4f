"""The command `nitro-repl`: one subcommand a job.

An error of ours is shown as its message; the exit status says whether all went well.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .errors import NitroError

INTERRUPTED = 130  # as a shell reports a program ended by Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `nitro-repl`.

    Args:
        arguments: Without the program's name; those of the process if not given.

    Returns:
        The exit status.
    """
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except NitroError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    from . import __version__

    parser = argparse.ArgumentParser(
        prog="nitro-repl",
        description="Train JAX experiments live; in a notebook, %%load_ext nitro_repl.",
    )
    parser.add_argument(
        "--version", action="version", version=f"nitro_repl {__version__}"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    demo = commands.add_parser(
        "demo",
        help="train on scikit-learn's digits and edit the loss while it trains",
        description="Train on scikit-learn's digits, change a value and the loss of "
        "the live run, and show what was compiled for it. About a minute on a CPU.",
    )
    demo.add_argument(
        "--epochs", type=int, default=60, help="epochs to train (default: 60)"
    )
    demo.add_argument(
        "--run-dir", default="runs", help="folder for the files of the run"
    )
    demo.set_defaults(command=_demo)
    return parser


def _demo(options: argparse.Namespace) -> int:
    from .demo import run_demo

    return 0 if run_demo(epochs=options.epochs, run_dir=options.run_dir) else 1
