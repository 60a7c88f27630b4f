"""Lower a jaxpr, hash what came out, compile it.

Equal hashes mean equal executables: the hash covers the program text without names and
debug info, and everything that decides an executable but is not in the text.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend import core
from jax.extend.mlir import ir, passmanager

from .key import aval, compile_settings, struct
from .trace import Slot, epoch

_PRIVATE = "private"


@dataclass(frozen=True)
class Lowered:
    """A program before XLA.

    Attributes:
        hash: Equal for programs that may share an executable.
        shareable: False if the program calls back into Python.
        compile: Runs XLA.
        seconds: Wall time of the lowering.
    """

    hash: str
    shareable: bool
    compile: Callable[[], Any]
    seconds: float


def lower(
    name: str,
    closed: core.ClosedJaxpr,
    slots: tuple[Slot, ...],
    donate: frozenset[str],
    options: tuple[tuple[str, Any], ...] = (),
) -> Lowered:
    """Lower a jaxpr as `nitro_<name>`, donating the input groups in `donate`.

    Args:
        name: Of the program.
        closed: The jaxpr.
        slots: A slot for each input.
        donate: Groups of inputs.
        options: Of the compiler, by name.
    """
    call = core.jaxpr_as_fun(closed)

    def run(*arguments: Any) -> Any:
        return tuple(call(*arguments))

    run.__name__ = run.__qualname__ = f"nitro_{name}"
    started = time.perf_counter()
    donated = tuple(i for i, slot in enumerate(slots) if slot[0] in donate)
    avals = [struct(var.aval) for var in closed.jaxpr.invars]
    with epoch():
        lowered = jax.jit(run, keep_unused=True, donate_argnums=donated).lower(*avals)
    text = _stripped_text(lowered)
    digest = hashlib.sha256(text)
    digest.update(repr((options, *_beside_the_text(closed, slots, donated))).encode())
    for constant in _hoisted(lowered):
        digest.update(np.asarray(constant).tobytes())
    return Lowered(
        digest.hexdigest(),
        not _has_callbacks(lowered, text),
        partial(lowered.compile, compiler_options=dict(options) or None),
        time.perf_counter() - started,
    )


def _beside_the_text(
    closed: core.ClosedJaxpr, slots: tuple[Slot, ...], donated: tuple[int, ...]
) -> tuple[Any, ...]:
    jaxpr = closed.jaxpr
    ins = [aval(var.aval) for var in jaxpr.invars]
    outs = [aval(var.aval) for var in jaxpr.outvars]
    return (ins, outs, donated, compile_settings())


def _stripped_text(lowered: Any) -> bytes:
    """Bytecode without debug info, private functions renamed by position.

    The renaming is done in the module that is compiled too, so that JAX's persistent
    cache is as indifferent to names as we are. Only private functions are renamed: an
    ffi target is a name as well, and a meaning.
    """
    module = lowered.compiler_ir("stablehlo")
    with module.context:
        private = [op for op in module.body.operations if _is_private(op)]
        for prefix in ("nitro_renaming", "f"):
            for position, op in enumerate(private):
                old = ir.StringAttr(op.operation.attributes["sym_name"]).value
                new = f"{prefix}.{position}"
                ir.SymbolTable.replace_all_symbol_uses(old, new, module.operation)
                ir.SymbolTable.set_symbol_name(op.operation, new)
        clone = module.operation.clone()
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(clone)
        text = io.BytesIO()
        clone.write_bytecode(text)
    return text.getvalue()


def _is_private(op: Any) -> bool:
    attributes = op.operation.attributes
    return (
        op.operation.name == "func.func"
        and "sym_visibility" in attributes
        and ir.StringAttr(attributes["sym_visibility"]).value == _PRIVATE
    )


def _has_callbacks(lowered: Any, text: bytes) -> bool:
    """Whether Python is called at run time: such programs differ beyond their text."""
    return (
        bool(lowered._lowering.compile_args.get("host_callbacks"))
        or b"callback" in text
    )


def _hoisted(lowered: Any) -> tuple[Any, ...]:
    """Constants that JAX passes beside the text, when it is configured to."""
    return tuple(lowered._lowering.const_args or ())
