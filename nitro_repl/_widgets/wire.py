"""Numbered messages to a front end: one that misses any asks for everything again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from .series import Packed

_ALIVE_S = 2.0  # a message at least so often, so that the front end knows of us


class Wire:
    """What a front end was sent.

    Args:
        send: Takes a message and its buffers.
    """

    def __init__(self, send: Callable[[dict[str, Any], list[bytes]], None]):
        self._send = send
        self._state: Mapping[str, Any] = {}
        self._next = 0
        self._sent_at = -math.inf
        self._wanted = False
        self._connected = False

    @property
    def connected(self) -> bool:
        """Whether somebody ever looked."""
        return self._connected

    def ask(self) -> None:
        """Somebody wants everything."""
        self._wanted = True

    def begin(self, anew: bool) -> bool | None:
        """Whether everything is to be sent now, what is new, or nothing (None).

        Args:
            anew: Whether what was sent holds no more.
        """
        wanted, self._wanted = self._wanted, False
        if wanted or (anew and self._connected):
            self._connected = True
            return True
        return False if self._connected else None

    def full(self, packed: Packed, state: Mapping[str, Any], **more: Any) -> None:
        """Send everything."""
        self._state = state
        self._put("full", packed, state, more)

    def new(self, packed: Packed, state: Mapping[str, Any], **more: Any) -> None:
        """Send the rows that are new and the parts of the state that changed."""
        changed = {k: v for k, v in state.items() if v != self._state.get(k)}
        self._state = state
        silent = time.monotonic() - self._sent_at > _ALIVE_S
        if changed or packed.series or any(more.values()) or silent:
            self._put("new", packed, changed, more)

    def _put(
        self,
        kind: str,
        packed: Packed,
        state: Mapping[str, Any],
        more: Mapping[str, Any],
    ) -> None:
        message = {"t": kind, "series": packed.series, "state": state, **more}
        message |= {"base": self._next, "next": self._next + 1, "now": time.time()}
        self._next += 1
        self._sent_at = time.monotonic()
        self._send(message, packed.buffers)
