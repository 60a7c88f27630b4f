"""A real ipykernel, driven as a notebook drives it.

Every wait is for a message and has a deadline; nothing sleeps.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time

import pytest
from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_event_loop

DEADLINE_S = 60.0

SETUP = """
%load_ext nitro_repl
import numpy as np, optax
from flax import nnx
import nitro_repl as nitro
rng = np.random.default_rng(0)
rows = [{"x": rng.normal(size=(8, 4)).astype("float32"),
         "y": rng.integers(0, 3, 8).astype("int32")} for _ in range(20)]

"""

TINY = """
class Tiny(nitro.Experiment):
    width: nitro.GraphConst[int] = 8
    scale: nitro.Device[float] = 1.0
    max_epochs: int = 1_000_000
    def build_data(self):
        return {"train": rows, "val": rows[:2]}
    def build_model(self, rngs):
        return nnx.Linear(4, 3, rngs=rngs)
    def forward(self, model, *, x):
        return model(x)
    def loss(self, logits, *, y):
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return self.scale * losses.mean()
"""


class Kernel:
    """A kernel process, its messages as they come, and cells to run in it."""

    def __init__(self, folder):
        self.manager = KernelManager(kernel_name="python3")
        env = {**os.environ, "JAX_PLATFORMS": "cpu", "IPYTHONDIR": str(folder / "ip")}
        self.manager.start_kernel(env=env, cwd=str(folder))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=DEADLINE_S)
        self.messages: list[dict] = []
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while not self._closing.is_set():
            with contextlib.suppress(queue.Empty):
                message = self.client.get_iopub_msg(timeout=0.1)
                message["came"] = time.monotonic()
                with self._changed:
                    self.messages.append(message)
                    self._changed.notify_all()
        ensure_event_loop().close()

    def wait_for(self, condition, what="a message", timeout=DEADLINE_S):
        """Wait until the messages so far satisfy a condition; return its value."""
        with self._changed:
            found = self._changed.wait_for(condition, timeout)
        assert found, f"no {what} within {timeout} s"
        return found

    def send(self, code):
        """Start a cell."""
        return Cell(self, self.client.execute(code))

    def run(self, code, timeout=DEADLINE_S):
        """Run a cell to its end."""
        return self.send(code).finish(timeout)

    def setup(self):
        """Load the extension and define `Tiny`, an experiment without end."""
        self.run(SETUP + TINY).succeed()
        return self

    def control(self, kind, **content):
        """What it answers on its control channel."""
        message = self.client.session.msg(kind, content)
        self.client.control_channel.send(message)
        return self.client.get_control_msg(timeout=DEADLINE_S)["content"]

    def panel(self, cell):
        """The comm of the panel that a cell shows."""
        [shown] = [
            m["content"]["data"]["application/vnd.jupyter.widget-view+json"]
            for m in cell.messages("display_data")
            if "application/vnd.jupyter.widget-view+json" in m["content"]["data"]
        ]
        return Comm(self, shown["model_id"])

    def shut_down(self, timeout):
        """Ask for a shutdown; the exit code, or None if it takes longer."""
        process = self.manager.provisioner.process
        self.client.shutdown()
        try:
            return process.wait(timeout)
        except Exception:
            return None

    def close(self):
        self._closing.set()
        self._reader.join()
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


class Cell:
    """One cell that was sent, and what came back under it."""

    def __init__(self, kernel, message_id):
        self.kernel = kernel
        self.id = message_id
        self.sent = time.monotonic()
        self.took = None

    def messages(self, *kinds):
        return [
            m
            for m in list(self.kernel.messages)
            if m["parent_header"].get("msg_id") == self.id and m["msg_type"] in kinds
        ]

    def finish(self, timeout=DEADLINE_S):
        """Wait until the kernel is idle again after this cell."""
        self.kernel.wait_for(self._idle, "end of the cell", timeout)
        self.took = self._idle()["came"] - self.sent
        return self

    def succeed(self):
        """Fail the test if the cell raised."""
        for message in self.messages("error"):
            raise AssertionError("\n".join(message["content"]["traceback"]))
        return self

    def wait_for_text(self, text, timeout=DEADLINE_S):
        """Wait until a text was printed under this cell, whatever runs now."""
        self.kernel.wait_for(lambda: text in self.text, f"text {text!r}", timeout)
        return self

    def _idle(self):
        for message in self.messages("status"):
            if message["content"]["execution_state"] == "idle":
                return message
        return None

    @property
    def text(self):
        """What was printed under the cell."""
        return "".join(m["content"]["text"] for m in self.messages("stream"))

    @property
    def result(self):
        """The text of the value of the cell."""
        shown = self.messages("execute_result")
        return shown[-1]["content"]["data"]["text/plain"] if shown else None

    @property
    def error(self):
        """The error shown under the cell."""
        return "\n".join(
            line for m in self.messages("error") for line in m["content"]["traceback"]
        )

    @property
    def lines(self):
        """The progress lines shown in place, in order."""
        return [
            m["content"]["data"]["text/plain"]
            for m in self.messages("display_data", "update_display_data")
        ]


class Comm:
    """A front end's end of a comm."""

    def __init__(self, kernel, comm_id):
        self.kernel = kernel
        self.id = comm_id

    def send(self, **content):
        """Send a message as a widget does; the time of it."""
        return self.ask("custom", content=content)[0]

    def ask(self, method, subshell=None, **more):
        """Send a message of the protocol of widgets; the time of it, and its id.

        A front end names the subshell that it opened for widgets.
        """
        client = self.kernel.client
        data = {"method": method, **more}
        message = client.session.msg("comm_msg", {"comm_id": self.id, "data": data})
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        client.shell_channel.send(message)
        return time.monotonic(), message["header"]["msg_id"]

    def came(self, since=0.0):
        """What the kernel has sent, as (time, content)."""
        return [
            (m["came"], m["content"]["data"]["content"])
            for m in list(self.kernel.messages)
            if m["msg_type"] == "comm_msg"
            and m["content"]["comm_id"] == self.id
            and m["content"]["data"].get("method") == "custom"
            and m["came"] >= since
        ]

    def states(self, asked):
        """What it said of its state in answer to a message."""
        return [
            m["content"]["data"]["state"]
            for m in list(self.kernel.messages)
            if m["msg_type"] == "comm_msg"
            and m["parent_header"]["msg_id"] == asked
            and m["content"]["data"].get("method") == "update"
        ]

    def wait_for(self, true, what="a message of the panel"):
        """Wait until a message satisfies a condition; (time, content) of it."""
        return self.kernel.wait_for(
            lambda: next((m for m in self.came() if true(m[1])), None), what
        )


@pytest.fixture(scope="session", autouse=True)
def event_loop_of_the_client():
    """jupyter_client makes one for this thread and leaves it open."""
    yield
    ensure_event_loop().close()


@pytest.fixture(scope="module")
def shared_kernel(tmp_path_factory):
    kernel = Kernel(tmp_path_factory.mktemp("kernel")).setup()
    yield kernel
    kernel.close()


@pytest.fixture
def kernel(shared_kernel):
    """A kernel where `Tiny` is defined and no run is live."""
    yield shared_kernel
    shared_kernel.run(f"for run in list(nitro.runs.values()): run.stop()\n{TINY}")


@pytest.fixture
def own_kernel(tmp_path):
    """A kernel for one test that ends it."""
    kernel = Kernel(tmp_path).setup()
    yield kernel
    kernel.close()
