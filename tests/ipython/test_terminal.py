"""A terminal IPython in a pseudo-terminal, as a user at a console has it."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios

import pexpect
import pytest
from pexpect import fdpexpect

CURSOR_QUESTION = re.escape("\x1b[6n")
EXPERIMENT = """
import numpy as np
from flax import nnx
import nitro_repl as nitro
rows = [{"x": np.ones((8, 4), "float32")}] * 20
class Tiny(nitro.Experiment):
    max_epochs: int = 1_000_000
    def build_data(self):
        return {"train": rows}
    def build_model(self, rngs):
        return nnx.Linear(4, 3, rngs=rngs)
    def forward(self, model, *, x):
        return model(x)
    def loss(self, outputs):
        return (outputs ** 2).mean()
"""


class Terminal:
    """Types lines and waits for what appears."""

    def __init__(self, folder):
        env = {**os.environ, "TERM": "xterm", "IPYTHONDIR": str(folder / "ip")}
        # Its own terminal, so that Ctrl-C reaches it.
        start = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
            "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
        )
        command = [sys.executable, "-c", start, "-m", "IPython"]
        command += ["--no-banner", "--no-confirm-exit"]
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (30, 120))
        # Not pexpect.spawn: it forks, which must not be done beside JAX's threads.
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env,
            cwd=folder,
            start_new_session=True,
        )
        os.close(theirs)
        # What is typed is echoed, at times in the middle of a character.
        self.screen = fdpexpect.fdspawn(
            ours, encoding="utf8", codec_errors="replace", timeout=60
        )
        self.expect(r"In \[")

    def expect(self, pattern):
        # A terminal answers where its cursor is; without it no toolbar is drawn.
        while self.screen.expect([CURSOR_QUESTION, pattern]) == 0:
            self.screen.send("\x1b[1;1R")

    def type(self, line, pattern):
        self.screen.send(line + "\r")
        self.expect(pattern)

    def leave(self):
        """Type `exit`; the exit code."""
        self.type("exit", pexpect.EOF)
        return self.process.wait(10)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.screen.close()


@pytest.fixture
def terminal(tmp_path):
    (tmp_path / "tiny.py").write_text(EXPERIMENT)
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


def test_progress_is_in_the_toolbar_while_a_run_lives_and_is_printed_at_its_end(
    terminal,
):
    terminal.type("%load_ext nitro_repl", r"In \[.*2")
    terminal.type("from tiny import nitro, Tiny", r"In \[.*3")
    terminal.type("run = %nitro train Tiny", r"step .*epoch .*stepping")
    terminal.type("run.stop()", r"step .*stopped")
    terminal.type("print(get_ipython().pt_app.bottom_toolbar)", "None")
    assert terminal.leave() == 0


def test_leaving_the_terminal_while_training_exits_cleanly(terminal):
    terminal.type("%load_ext nitro_repl", r"In \[.*2")
    terminal.type("from tiny import nitro, Tiny", r"In \[.*3")
    terminal.type("run = %nitro train Tiny", r"step .*epoch .*stepping")
    assert terminal.leave() == 0


def test_the_dashboard_is_live_and_ctrl_c_leaves_the_run_alone(terminal):
    terminal.type("%load_ext nitro_repl", r"In \[.*2")
    terminal.type("from tiny import nitro, Tiny", r"In \[.*3")
    terminal.type("run = %nitro train Tiny", r"step .*epoch .*stepping")
    terminal.type("%nitro dash", "Tiny")
    for _ in range(2):  # drawn again and again
        terminal.expect("steps/s")
        terminal.expect("curves")
        terminal.expect("programs")
    terminal.screen.send("\x03")
    terminal.expect(r"run \S+ goes on")
    terminal.type("print(run.phase, 'and', run.live)", "stepping and True")
    terminal.type("run.stop(); print('now', 'over')", "now over")
    terminal.type("%nitro dash", "stopped")
    assert terminal.leave() == 0
