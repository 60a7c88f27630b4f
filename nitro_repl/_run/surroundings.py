"""What a new thread must take over from the one that asked for it.

JAX's config contexts are thread-local and IPython knows the cell of a thread by its
context: both are captured here and entered again in the thread.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import jax

_CONTEXTS: dict[str, Callable[[Any], Any]] = {
    "jax_enable_x64": jax.enable_x64,
    "jax_default_matmul_precision": jax.default_matmul_precision,
    "jax_default_device": jax.default_device,
    "jax_numpy_rank_promotion": jax.numpy_rank_promotion,
    "jax_numpy_dtype_promotion": jax.numpy_dtype_promotion,
    "jax_default_prng_impl": jax.default_prng_impl,
    "jax_threefry_partitionable": jax.threefry_partitionable,
    "jax_debug_nans": jax.debug_nans,
    "jax_debug_infs": jax.debug_infs,
    "jax_check_tracer_leaks": jax.check_tracer_leaks,
    "jax_disable_jit": jax.disable_jit,
}


class Surroundings:
    """The calling thread's context variables and JAX settings.

    Example:
        >>> thread = threading.Thread(target=Surroundings().run, args=(work,))
    """

    def __init__(self) -> None:
        self._context = contextvars.copy_context()
        self._config = {name: _present(name) for name in _CONTEXTS}

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function inside these surroundings, in whatever thread this is."""
        return self._context.copy().run(self._call, function, *arguments)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with self.config():
            return function(*arguments)

    @contextmanager
    def config(self) -> Iterator[None]:
        """Enter the JAX settings alone; `jax.config.update` changes none of them."""
        with ExitStack() as stack:
            for name, value in self._config.items():
                stack.enter_context(_CONTEXTS[name](value))
            yield

    def width(self) -> AbstractContextManager[None]:
        """Enter the 32 or 64 bit mode alone: arrays of one do not fit the other."""
        return jax.enable_x64(self._config["jax_enable_x64"])


def _present(name: str) -> Any:
    return getattr(jax.config, name)
