"""Teaches the content walk the values of JAX and flax that it cannot open by itself.

Equal reductions mean equal content; what cannot be read is said to be opaque.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from flax import nnx
from flax.core import FrozenDict
from flax.ids import FlaxId
from flax.typing import HashableMapping
from jax.core import Tracer
from jax.extend.core import Primitive

from .._code.arrays import digest_of, digest_once
from .._code.fingerprint import Hashed, Opaque, add_note, register
from .._code.references import hash_text

KEPT_TRACER = "an array of another trace"
"""How the content of a value says that a trace has left an array in it."""

_GRAPHDEFS_KEPT = 64
_CONSTANTS = frozenset([type(None), bool, int, float, complex, str, bytes])
_FIXED_TUPLES = frozenset([tuple, nnx.graphlib.IndexesPytreeDef])
_FIXED_MAPPINGS = frozenset([HashableMapping, FrozenDict])  # copies of what they got


def _reduce_array(value: jax.Array) -> object:
    if not value.is_fully_addressable or value.is_deleted():
        return Opaque("a jax array whose content cannot be read")
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return (
            "prng key",
            str(value.dtype),
            jax.device_get(jax.random.key_data(value)),
        )
    digest = (
        digest_of(np.asarray(value), owner=value)
        if _may_be_written(value)
        else digest_once(value, lambda: np.asarray(value))
    )
    return Hashed(
        f"jax {bool(value.weak_type)}", value.dtype, value.shape, value.nbytes, digest
    )


def _may_be_written(value: jax.Array) -> bool:
    """Whether an array may lie in memory that numpy can write to.

    On a CPU `jax.device_put` and dlpack take an aligned array as it lies, and nothing
    tells such an array from others.
    """
    return any(device.platform == "cpu" for device in value.devices())


def _reduce_jitted(value: Any) -> object:
    """The wrapped function and the options of `jax.jit` that a trace depends on."""
    options = value.__getstate__()
    statics = (tuple(options["static_argnums"]), tuple(options["static_argnames"]))
    names = {name: held for name, held in vars(value).items() if name not in _OF_JIT}
    plain = ("jit", value.__wrapped__, statics, _jit_options(options["cache_miss"]))
    return (*plain, names) if names else plain


_OF_JIT = frozenset([*vars(jax.jit(lambda x: x)), "__type_params__"])
"""Attributes that every jitted function has."""
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
            known = self._known[id(graphdef)] = (
                graphdef,
                _GraphDef(graphdef).reduced(),
            )
            while len(self._known) > _GRAPHDEFS_KEPT:
                self._known.popitem(last=False)
        return known[1]


class _GraphDef:
    """A graphdef opened: plain parts as text, and what has to be walked each time."""

    def __init__(self, graphdef: Any) -> None:
        self._plain: list[str] = []
        self._live: list[object] = []
        for node in graphdef.nodes:
            self._put_node(node)
        for name, attribute in graphdef.attributes:
            self._put(name)
            self._plain.append(type(attribute).__name__)
            self._put(getattr(attribute, "value", None))

    def reduced(self) -> object:
        return ("graphdef", hash_text("\n".join(self._plain)), self._live)

    def _put_node(self, node: Any) -> None:
        self._plain.append(type(node).__name__)
        for name in ("type", "index", "outer_index", "num_attributes"):
            self._put(getattr(node, name, None))
        metadata = getattr(node, "metadata", None)
        if isinstance(metadata, Mapping):
            metadata = tuple(sorted(metadata.items()))
        self._put(metadata)

    def _put(self, value: Any) -> None:
        kind = type(value)
        if kind in _CONSTANTS:
            self._plain.append(f"{kind.__name__} {value!r}")
        elif kind in _FIXED_TUPLES:
            self._put_items(kind, value)
        elif kind in _FIXED_MAPPINGS:
            self._put_items(kind, tuple(value.items()))
        elif kind is jax.tree_util.PyTreeDef:
            self._plain.append(f"treedef {str(value)!r}")
        else:
            self._put_live(value)

    def _put_items(self, kind: type, items: tuple[Any, ...]) -> None:
        self._plain.append(f"{kind.__name__} {len(items)}")
        for item in items:
            self._put(item)

    def _put_live(self, value: Any) -> None:
        """A value of a class that may be edited, or that can change in place."""
        live = self._live
        same = next((i for i, seen in enumerate(live) if seen is value), len(live))
        self._plain.append(f"live {same}")
        if same == len(live):
            live.append(value)


def _reduce_primitive(value: Any) -> object:
    """What a primitive says of itself, and the rules that JAX's tables hold for it."""
    from jax._src.interpreters import ad, batching, mlir

    tables = (
        ad.primitive_jvps,
        ad.primitive_transposes,
        batching.fancy_primitive_batchers,
        mlir._lowerings,
        *(table for _, table in sorted(mlir._platform_specific_lowerings.items())),
    )
    return (vars(value), [table.get(value) for table in tables])


def _as_pytree(cls: type) -> object:
    """How JAX takes instances of a class apart; the class itself does not say."""
    from jax._src.tree_util import _registry

    entry = _registry.get(cls)
    return None if entry is None else (entry.to_iter, entry.from_iter)


add_note(_as_pytree)
register(Tracer, lambda value: Opaque(KEPT_TRACER))
register(jax.Array, _reduce_array)
register(_is_jitted, _reduce_jitted)
register(Primitive, _reduce_primitive)
register(jax.tree_util.PyTreeDef, lambda value: ("treedef", str(value)))
register(nnx.GraphDef, _GraphDefs().reduce)
register(jax.sharding.Sharding, lambda value: ("sharding", str(value)))
register(jax.Device, lambda value: ("device", str(value)))
register(FlaxId, lambda value: "flax id")  # each Linen module has a number of its own
