"""A Jupyter server on a free port, and a notebook in JupyterLab or Notebook 7."""

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

ERROR = "[data-mime-type*=error], [data-mime-type*=stderr]"
RESTART = "[data-command='notebook:restart-kernel']"
READY_S = 90.0
CELL_S = 120.0


SETTINGS_OF = "@jupyterlab/apputils-extension"
SETTINGS = {
    # No question over what is looked at; and the theme is that of the browser.
    "notification": {"fetchNews": "false", "checkForUpdates": False},
    "themes": {"adaptive-theme": True},
}


class Server:
    """A Jupyter server of its own, for both front ends: no user's settings, one token.

    Args:
        root: Its folder, where notebooks lie.
    """

    def __init__(self, root: Path):
        self.root = root
        self.token = secrets.token_hex(16)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        homes = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
        homes += ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")
        env = {name: str(root / f".{name.lower()}") for name in homes}
        settings = Path(
            env["JUPYTERLAB_SETTINGS_DIR"], "@jupyterlab/apputils-extension"
        )
        settings.mkdir(parents=True)
        for name, values in SETTINGS.items():
            (settings / f"{name}.jupyterlab-settings").write_text(json.dumps(values))
        self._log = (root / "server.log").open("w+")
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root",
                "--ip=127.0.0.1", f"--port={self.port}", "--ServerApp.port_retries=0",
                f"--IdentityProvider.token={self.token}",
                f"--ServerApp.root_dir={root}", "--ServerApp.terminals_enabled=False",
                "--LanguageServerManager.autodetect=False",
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

    def ask(self, path: str, method: str = "GET") -> Any:
        """What its API says."""
        request = urllib.request.Request(self.url(f"api/{path}"), method=method)
        with urllib.request.urlopen(request, timeout=10) as reply:
            text = reply.read()
        return json.loads(text) if text else None

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}?token={self.token}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            for kernel in self.ask("kernels"):
                self.ask(f"kernels/{kernel['id']}", "DELETE")
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


@contextlib.contextmanager
def server(root: Path) -> Iterator[Server]:
    """A server that answers."""
    made = Server(root)
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
        app: "lab" or "notebook".
    """

    def __init__(
        self, page: Any, server: Server, name: str = "it.ipynb", app: str = "lab"
    ):
        self.page, self.server, self.name, self.app = page, server, name, app

    @property
    def path(self) -> Path:
        return self.server.root / self.name

    def open(self) -> Notebook:
        """Go to it, and wait until its kernel is connected and idle."""
        lab = self.app == "lab"
        path = f"lab/tree/{self.name}" if lab else f"notebooks/{self.name}"
        self.page.goto(self.server.url(path) + ("&reset" if lab else ""))
        return self.wait()

    def wait(self) -> Notebook:
        """Wait until it is drawn, with its kernel connected and idle."""
        self.page.wait_for_selector(".jp-CodeCell .cm-content", timeout=READY_S * 1e3)
        wait_until(self._connected, READY_S, "the kernel is connected")
        return self

    def kernel(self) -> dict[str, Any] | None:
        """What the server knows of its kernel."""
        for session in self.server.ask("sessions"):
            if session["path"] == self.name:
                return session["kernel"]
        return None

    def _connected(self) -> bool:
        kernel = self.kernel()
        return bool(kernel and kernel["connections"] and self._is("idle"))

    def wait_until_busy(self) -> None:
        """Wait until its kernel runs a cell."""
        wait_until(lambda: self._is("busy"), CELL_S, "the kernel is busy")

    def _is(self, state: str) -> bool:
        kernel = self.kernel()
        return kernel is not None and kernel["execution_state"] == state

    def interrupt(self) -> None:
        """Interrupt its kernel."""
        kernel = self.kernel()
        assert kernel is not None
        self.server.ask(f"kernels/{kernel['id']}/interrupt", "POST")

    def restart(self) -> None:
        """Restart its kernel, by the button, and say yes to what is asked."""
        self.page.locator(RESTART).click()
        self.page.locator(".jp-Dialog .jp-mod-accept").click()

    def kill(self) -> None:
        """End its kernel, if it has one."""
        kernel = self.kernel()
        if kernel is not None:
            self.server.ask(f"kernels/{kernel['id']}", "DELETE")

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
        """Run a cell to its end, without an error."""
        self.start(place)
        self.wait_for(place)
        error = self.cell(place).locator(
            "[data-mime-type*=error], [data-mime-type*=stderr]"
        )
        assert not error.count(), error.first.inner_text()

    def runs(self, place: int) -> bool:
        """Whether a cell has started and not ended."""
        return "*" in self._prompt(place)

    def wait_for(self, place: int) -> None:
        """Wait until a cell has ended."""
        wait_until(lambda: not self.runs(place), CELL_S, f"cell {place} ends")

    def text(self, place: int) -> str:
        """What a cell has put out."""
        return self.cell(place).locator(".jp-OutputArea-output").first.inner_text()

    def save(self) -> Any:
        """Save it; the notebook as it is in the file."""
        before = self.path.stat().st_mtime_ns
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("Control+s")
        wait_until(lambda: self._is_newer(before), 30, "it is saved")
        return nbformat.read(self.path, as_version=4)

    def _is_newer(self, before: int) -> bool:
        """Whether the file is newer, and whole: the server empties it first."""
        if self.path.stat().st_mtime_ns == before:
            return False
        with contextlib.suppress(ValueError):
            json.loads(self.path.read_text(encoding="utf-8"))
            return True
        return False

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
