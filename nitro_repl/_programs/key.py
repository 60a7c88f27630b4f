"""What decides a trace, as keys: avals, JAX settings, and digests of what a view read.

In doubt a key differs: a false difference costs a trace, a false match would be a
wrong program.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import flax
import jax
import jaxlib
import optax
from flax import nnx
from jax._src.config import trace_context  # the key that jit itself uses

from .._code.fingerprint import Fingerprint, Reason, fingerprint
from .._code.replaced import Replaced
from .._experiment.base import Experiment
from .._experiment.device import default_device, signature as device_signature
from .._experiment.hooks import Hooks
from .._experiment.view import Read
from . import libraries
from .jax_values import KEPT_TRACER as KEPT_TRACER  # it teaches the walk, too
from .recipe import Recipe

Aval = tuple[tuple[int, ...], str, bool]


def aval(value: Any) -> Aval:
    """Shape, dtype and weak type of an array or aval."""
    return (
        tuple(value.shape),
        _dtype_name(value.dtype),
        bool(getattr(value, "weak_type", False)),
    )


@functools.lru_cache(maxsize=256)
def _dtype_name(dtype: Any) -> str:
    return str(dtype)


def struct(value: Any) -> jax.ShapeDtypeStruct:
    """The aval of an array, as an argument to trace with."""
    return jax.ShapeDtypeStruct(
        value.shape, value.dtype, weak_type=bool(getattr(value, "weak_type", False))
    )


def signature(tree: Any) -> Hashable:
    """Structure and avals of a pytree."""
    leaves, structure = jax.tree.flatten(tree)
    return (structure, tuple(aval(leaf) for leaf in leaves))


def thread_settings() -> Hashable:
    """JAX's own settings of this thread, as far as they can change a trace."""
    return trace_context()


def trace_settings() -> Hashable:
    """Everything beside arguments and code that can change a trace."""
    return (thread_settings(), compile_settings())


def compile_settings() -> tuple[str, ...]:
    """What decides an executable besides its text."""
    return (
        jax.__version__,
        jaxlib.__version__,
        flax.__version__,
        optax.__version__,
        os.environ.get("XLA_FLAGS", ""),
        jax.default_backend(),
        str(default_device()),
    )


ABSENT = "absent"  # the content of what is not there any more


def digest_of(content: Fingerprint | Hashable) -> Hashable:
    """What must be equal for equal content."""
    return content.digest if isinstance(content, Fingerprint) else content


class Source:
    """One experiment's answers to what programs read, at one moment.

    Digests are taken once per instance, so make a new one for each look.

    Args:
        experiment: Gives GraphConst values.
        hooks: Gives methods and class attributes.
        device: Avals of the Device fields, by name.
        recipe: How parameters are updated, where that is known.

    Attributes:
        models: Content of the model, by the form of the programs that hold it.
        spent: Whether user code has run since, which may have changed things.
    """

    def __init__(
        self,
        experiment: Experiment,
        hooks: Hooks,
        device: Mapping[str, Any],
        recipe: Recipe | None = None,
    ):
        self.recipe = recipe
        self.experiment = experiment
        self.hooks = hooks
        self._device = device
        self._known: dict[Read, Fingerprint | Hashable] = {}
        self.models: dict[str, Fingerprint] = {}
        self.spent = False

    def again(self) -> Source:
        """The same source with nothing remembered."""
        return Source(self.experiment, self.hooks, self._device, self.recipe)

    @functools.cached_property
    def replaced(self) -> Replaced:
        """What stands in libraries in place of their own."""
        return libraries.replaced()

    def content(self, read: Read) -> Fingerprint | Hashable:
        """The content behind a read: a fingerprint, or an aval signature."""
        if read not in self._known:
            self._known[read] = self._look(read)
        return self._known[read]

    def digest(self, read: Read) -> Hashable:
        """What must be equal for a program that made this read."""
        return digest_of(self.content(read))

    def unsound(self, reads: Iterable[Read]) -> tuple[Reason, ...]:
        """Why content alone cannot vouch for these reads."""
        contents = (self.content(read) for read in reads)
        reasons = [
            reason
            for content in contents
            if isinstance(content, Fingerprint)
            for reason in content.unsound
        ]
        return tuple(dict.fromkeys(reasons))

    def _look(self, read: Read) -> Fingerprint | Hashable:
        if read.kind == "device":
            known = read.name in self._device
            return _device_content(self._device[read.name]) if known else ABSENT
        if read.kind == "library":
            return libraries.content(read, self.replaced)
        if read.kind == "recipe":
            return self.recipe.content(read.name) if self.recipe else None
        if read.kind == "const":
            value = getattr(self.experiment, read.name, None)
            name = f"GraphConst {read.name}"
            return fingerprint(self.hooks.renewed(value), name=name)
        if read.name not in self.hooks:
            return ABSENT
        member = self.hooks.renewed(self.hooks[read.name])
        return fingerprint(member, owner=type(self.experiment))


@dataclass(frozen=True)
class Snapshot:
    """What some host code read from its view, and the content of that at the time.

    Attributes:
        reads: The reads, in order.
        digests: Of each; None where content cannot vouch.
        contents: What is behind each read, to say what changed.
    """

    reads: tuple[Read, ...]
    digests: tuple[Hashable, ...] | None
    contents: Mapping[Read, Any] = field(
        default_factory=dict[Read, Any], compare=False, repr=False
    )

    @classmethod
    def of(cls, reads: Iterable[Read], source: Source) -> Snapshot:
        """Take the content behind reads."""
        names = tuple(reads)
        contents = {read: source.content(read) for read in names}
        if source.unsound(names):
            return cls(names, None, contents)
        return cls(names, tuple(map(source.digest, names)), contents)

    def is_current(self, source: Source) -> bool:
        """Whether the same code would read the same again."""
        return self.digests is not None and self == Snapshot.of(self.reads, source)


def _device_content(value: Any) -> Fingerprint | Hashable:
    """All of a Device value but its numbers; of a module the code of its layers too."""
    if isinstance(value, nnx.Module):
        avals = [aval(leaf) for leaf in jax.tree.leaves(value)]
        return fingerprint((nnx.graphdef(value), avals))
    return device_signature(value)


def model_content(graphdef: Any) -> Fingerprint:
    """The content of a model's structure: classes, methods, static attributes."""
    return fingerprint(graphdef, name="the model")
