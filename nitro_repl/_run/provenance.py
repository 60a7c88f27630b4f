"""Where a run comes from: the versions of what it is made of, and the state of git.

Nothing here raises, and nothing waits long: what cannot be told is absent.
"""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "numpy", "nitro_repl")
_PATIENCE = 2.0


@functools.cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a run's numbers."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git_state(folder: Path | None = None) -> dict[str, Any] | None:
    """The commit of the working directory and whether tracked files differ from it.

    Args:
        folder: Where to look; the current directory by default.

    Returns:
        `{"commit": str, "dirty": bool}`; without "dirty" where a huge repository
        takes too long; None where there is no git, no repository or no commit.
    """
    deadline = time.monotonic() + _PATIENCE
    commit = _git(["rev-parse", "HEAD"], folder, deadline)
    if not commit:
        return None
    changes = _git(["status", "--porcelain", "-uno"], folder, deadline)
    if changes is None:
        return {"commit": commit}
    return {"commit": commit, "dirty": bool(changes)}


def _git(arguments: list[str], folder: Path | None, deadline: float) -> str | None:
    # No lock, since the user may commit meanwhile, and no monitor process left over.
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=max(0.1, deadline - time.monotonic()),
            check=True,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
