"""What decides a trace, as keys: avals, JAX settings, and digests of what a view read.

In doubt a key differs: a false difference costs a trace, a false match would be a
wrong program.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import flax
import jax
import jaxlib
import optax
from flax import nnx
from jax.core import Tracer

from .._code.fingerprint import Fingerprint, Opaque, Reason, fingerprint, register
from .._experiment.base import Experiment
from .._experiment.device import default_device, signature as device_signature
from .._experiment.hooks import Hooks
from .._experiment.view import Read

KEPT_TRACER = "an array of another trace"
"""How the content of a value says that a trace has left an array in it."""

_GRAPHDEFS_KEPT = 64

Aval = tuple[tuple[int, ...], str, bool]


def aval(value: Any) -> Aval:
    """Shape, dtype and weak type of an array or aval."""
    return (
        tuple(value.shape),
        str(value.dtype),
        bool(getattr(value, "weak_type", False)),
    )


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
    from jax._src.config import trace_context  # the key that jit itself uses

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


class Source:
    """One experiment's answers to what programs read, at one moment.

    Digests are taken once per instance, so make a new one for each look.

    Args:
        experiment: Gives GraphConst values.
        hooks: Gives methods and class attributes.
        device: Avals of the Device fields, by name.
    """

    def __init__(self, experiment: Experiment, hooks: Hooks, device: Mapping[str, Any]):
        self.experiment = experiment
        self.hooks = hooks
        self._device = device
        self._known: dict[Read, Fingerprint | Hashable] = {}

    def again(self) -> Source:
        """The same source with nothing remembered."""
        return Source(self.experiment, self.hooks, self._device)

    def content(self, read: Read) -> Fingerprint | Hashable:
        """The content behind a read: a fingerprint, or an aval signature."""
        if read not in self._known:
            self._known[read] = self._look(read)
        return self._known[read]

    def digest(self, read: Read) -> Hashable:
        """What must be equal for a program that made this read."""
        content = self.content(read)
        return content.digest if isinstance(content, Fingerprint) else content

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
            return _device_content(self._device.get(read.name))
        if read.kind == "const":
            value = getattr(self.experiment, read.name, None)
            return fingerprint(self.hooks.renewed(value))
        if read.name not in self.hooks:
            return "absent"
        member = self.hooks.renewed(self.hooks[read.name])
        return fingerprint(member, owner=type(self.experiment))


@dataclass(frozen=True)
class Snapshot:
    """What some host code read from its view, and the content of that at the time.

    Attributes:
        reads: The reads, in order.
        digests: Of each; None where content cannot vouch.
    """

    reads: tuple[Read, ...]
    digests: tuple[Hashable, ...] | None

    @classmethod
    def of(cls, reads: Iterable[Read], source: Source) -> Snapshot:
        """Take the content behind reads."""
        names = tuple(reads)
        if source.unsound(names):
            return cls(names, None)
        return cls(names, tuple(map(source.digest, names)))

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
    return fingerprint(graphdef)


# ---- what the walk cannot open by itself


def _reduce_array(value: jax.Array) -> object:
    if not value.is_fully_addressable or value.is_deleted():
        return Opaque("a jax array whose content cannot be read")
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return (
            "prng key",
            str(value.dtype),
            jax.device_get(jax.random.key_data(value)),
        )
    return ("jax", bool(value.weak_type), jax.device_get(value))


def _reduce_jitted(value: Any) -> object:
    """The wrapped function and the options of `jax.jit` that a trace depends on."""
    options = value.__getstate__()
    statics = (tuple(options["static_argnums"]), tuple(options["static_argnames"]))
    return ("jit", value.__wrapped__, statics, _jit_options(options["cache_miss"]))


_JIT_OPTIONS = (
    "in_shardings_leaves",
    "out_shardings_leaves",
    "donate_argnums",
    "donate_argnames",
    "keep_unused",
    "inline",
    "compiler_options_kvs",
)


def _jit_options(dispatch: Any) -> object:
    """Donation, inlining and the like, from the closure of jit's dispatch."""
    dispatch = getattr(dispatch, "__wrapped__", dispatch)
    for cell in getattr(dispatch, "__closure__", None) or ():
        if type(cell.cell_contents).__name__ == "PjitInfo":
            info = cell.cell_contents
            return tuple(str(getattr(info, name, None)) for name in _JIT_OPTIONS)
    return Opaque("the options of a jax.jit cannot be read")


def _is_jitted(value: object) -> bool:
    return type(value).__name__ == "PjitFunction" and type(value).__module__.startswith(
        "jaxlib"
    )


class _GraphDefs:
    """Remembers what was read off a graphdef, which never changes; its classes do."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[Any, object]] = OrderedDict()

    def reduce(self, graphdef: Any) -> object:
        known = self._known.get(id(graphdef))
        if known is None:
            # Kept alive while it is known, so that its id is its own.
            known = self._known[id(graphdef)] = (graphdef, _open_graphdef(graphdef))
            while len(self._known) > _GRAPHDEFS_KEPT:
                self._known.popitem(last=False)
        return known[1]


def _open_graphdef(graphdef: Any) -> object:
    """Plain parts as one text, and the classes and other values to walk each time."""
    plain: list[str] = []
    live: list[object] = []

    def put(value: Any) -> None:
        if value is None or type(value) in (bool, int, float, complex, str, bytes):
            plain.append(f"{type(value).__name__} {value!r}")
        elif type(value) in (tuple, list):
            plain.append(f"{type(value).__name__} {len(value)}")
            for item in value:
                put(item)
        else:
            same = next((i for i, seen in enumerate(live) if seen is value), len(live))
            plain.append(f"live {same}")
            if same == len(live):
                live.append(value)

    for node in graphdef.nodes:
        plain.append(type(node).__name__)
        for name in ("type", "index", "outer_index", "num_attributes"):
            put(getattr(node, name, None))
        metadata = getattr(node, "metadata", None)
        put(
            tuple(sorted(metadata.items()))
            if isinstance(metadata, Mapping)
            else metadata
        )
    for name, attribute in graphdef.attributes:
        put(name)
        plain.append(type(attribute).__name__)
        put(getattr(attribute, "value", None))
    return ("graphdef", "\n".join(plain), live)


register(Tracer, lambda value: Opaque(KEPT_TRACER))
register(jax.Array, _reduce_array)
register(_is_jitted, _reduce_jitted)
register(jax.tree_util.PyTreeDef, lambda value: ("treedef", str(value)))
register(nnx.GraphDef, _GraphDefs().reduce)
register(jax.sharding.Sharding, lambda value: ("sharding", str(value)))
register(jax.Device, lambda value: ("device", str(value)))
