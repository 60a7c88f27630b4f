"""JupyterLab or Notebook 7 on a free port, and a notebook in it driven as by hand."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbformat import v4

READY_S = 90.0
CELL_S = 120.0


class Server:
    """A Jupyter server of its own: no user's settings, one token.

    Args:
        root: Its folder, where notebooks lie.
        app: "lab" or "notebook".
    """

    def __init__(self, root: Path, app: str = "lab"):
        self.root, self.app = root, app
        self.token = secrets.token_hex(16)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        homes = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
        homes += ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")
        env = {name: str(root / f".{name.lower()}") for name in homes}
        self._log = (root / "server.log").open("w+")
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "jupyter", app, "--no-browser", "--allow-root",
                "--ip=127.0.0.1", f"--port={self.port}", "--ServerApp.port_retries=0",
                f"--IdentityProvider.token={self.token}",
                f"--ServerApp.root_dir={root}", "--ServerApp.terminals_enabled=False",
                "--LabApp.news_url=None",
                "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            ],
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "JAX_PLATFORMS": "cpu", **env},
            cwd=root,
        )  # fmt: skip

    def wait(self) -> None:
        """Wait until it answers."""
        wait_until(self._answers, READY_S, "the server answers")

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            self._log.seek(0)
            raise RuntimeError(self._log.read()[-3000:])
        with contextlib.suppress(OSError):
            self.ask("status")
            return True
        return False

    def ask(self, path: str) -> Any:
        """What its API says."""
        with urllib.request.urlopen(self.url(f"api/{path}"), timeout=2) as reply:
            return json.load(reply)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}?token={self.token}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            for kernel in self.ask("kernels"):
                request = urllib.request.Request(
                    self.url(f"api/kernels/{kernel['id']}"), method="DELETE"
                )
                urllib.request.urlopen(request, timeout=10).close()
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


@contextlib.contextmanager
def server(root: Path, app: str = "lab") -> Iterator[Server]:
    """A server that answers."""
    made = Server(root, app)
    try:
        made.wait()
        yield made
    finally:
        made.close()


class Notebook:
    """A notebook on a page.

    Args:
        page: Of a browser.
        server: Where the notebook lies.
        name: Of its file.
    """

    def __init__(self, page: Any, server: Server, name: str = "it.ipynb"):
        self.page, self.server, self.name = page, server, name

    def open(self) -> Notebook:
        """Go to it, and wait until its kernel is connected and idle."""
        lab = self.server.app == "lab"
        path = f"lab/tree/{self.name}" if lab else f"notebooks/{self.name}"
        self.page.goto(self.server.url(path) + ("&reset" if lab else ""))
        self.page.wait_for_selector(".jp-CodeCell .cm-content", timeout=READY_S * 1e3)
        wait_until(self._connected, READY_S, "the kernel is connected")
        return self

    def _connected(self) -> bool:
        kernels = self.server.ask("kernels")
        return bool(kernels) and all(
            k["execution_state"] == "idle" and k["connections"] for k in kernels
        )

    def cell(self, place: int) -> Any:
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(place)

    def start(self, place: int) -> None:
        """Start a cell; the first keys after a connection may be lost."""
        before = self._prompt(place)
        for _ in range(5):
            self.cell(place).locator(".cm-content").click()
            self.page.keyboard.press("Control+Enter")
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: self._prompt(place) != before, 4, "the cell starts")
                return
        raise TimeoutError(f"cell {place} does not start")

    def run(self, place: int) -> None:
        """Run a cell to its end."""
        self.start(place)
        wait_until(lambda: "*" not in self._prompt(place), CELL_S, f"cell {place} ends")

    def text(self, place: int) -> str:
        """What a cell has put out."""
        return self.cell(place).locator(".jp-OutputArea-output").first.inner_text()

    def save(self) -> Any:
        """Save it; the notebook as it is in the file."""
        path = self.server.root / self.name
        before = path.stat().st_mtime_ns
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("Control+s")
        wait_until(lambda: path.stat().st_mtime_ns != before, 30, "it is saved")
        return nbformat.read(path, as_version=4)

    def _prompt(self, place: int) -> str:
        return self.cell(place).locator(".jp-InputPrompt").inner_text().strip()


def write(root: Path, cells: Sequence[str], name: str = "it.ipynb") -> None:
    """Put a notebook of code cells in a folder."""
    made = v4.new_notebook(cells=[v4.new_code_cell(source) for source in cells])
    made.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(made, root / name)


def wait_until(true: Any, seconds: float, what: str) -> None:
    """Wait for something outside this process, which sets no event."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:.0f} s in vain until {what}")
        time.sleep(0.05)
