"""Where a kernel handles the messages of a comm: at once, though a cell is busy.

The one module that touches private parts of ipykernel. What it cannot do it leaves as
it was: clicks then wait for the end of the cell, and the panel says so.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

_ANSWER_S = 2.0

_making = threading.Lock()
# One of ours for each kernel of this process: the loop that made it, its manager, it.
_subshells: dict[int, tuple[Any, Any, str]] = {}


def pin(widget: Any) -> bool:
    """Have the messages to a widget handled in a thread that no cell ever blocks.

    ipykernel 7.4 handles them where the comm last published from, mostly the main
    thread, which a cell keeps busy. Earlier ones of version 7 let the front end choose.
    Its layout too, which is a widget: a page that comes back draws none of them while
    one of them does not say its state.

    Returns:
        Whether it is pinned; nothing is changed where it cannot be.
    """
    pinned = [
        _pinned(getattr(one, "comm", None))
        for one in (getattr(widget, "layout", None), widget)
    ]
    return pinned[-1]


def _pinned(comm: Any) -> bool:
    with contextlib.suppress(Exception):
        _be_quiet(comm)
        return _pin(comm)
    return False


def _pin(comm: Any) -> bool:
    kernel = getattr(comm, "kernel", None) or _kernel()
    thread = getattr(kernel, "shell_channel_thread", None)
    if thread is None or not hasattr(comm, "_reply_subshell_for"):
        return False
    manager = thread.manager
    with _making:
        _, _, own = _subshells.get(id(kernel), (None, None, None))
        if own not in manager.list_subshell():
            own = _on_loop(thread.io_loop, manager._create_subshell)
            _subshells[id(kernel)] = thread.io_loop, manager, own

    def route(data: Any, default: str | None) -> str | None:
        return own if own in manager.list_subshell() else default

    comm._reply_subshell_for = route
    return True


def _on_loop(loop: Any, work: Callable[[], Any]) -> Any:
    """What a function returns on the thread that owns the sockets."""
    done: Future[Any] = Future()

    def do() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    loop.add_callback(do)
    return done.result(_ANSWER_S)


def unpin_all() -> None:
    """End the threads that were made; the kernel handles what is clicked later."""
    with _making:
        for loop, manager, own in _subshells.values():
            with contextlib.suppress(Exception):
                if own in manager.list_subshell():
                    _on_loop(loop, lambda m=manager, o=own: m._delete_subshell(o))
        _subshells.clear()


def _be_quiet(comm: Any) -> None:
    """Have no events of the shell around a message.

    They end in things like the display of the half made figure of a busy cell.
    """
    handle: Callable[[Any], Any] = comm.handle_msg

    def handle_msg(message: Any) -> None:
        callback = comm._msg_callback
        if callback is None:
            handle(message)
        else:
            callback(message)

    comm.handle_msg = handle_msg


def _kernel() -> Any:
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None)
