"""From a handle's set-up to the loop of a new run: fresh state, a feed of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from .._programs.program_set import ProgramSet
from .._programs.step import Carry
from .feed import Feed
from .live import Values
from .loop import Loop
from .record import Record
from .schedules import Schedules
from .settings import every
from .setup import optimizer_state, place
from .validation import Validation

if TYPE_CHECKING:
    from .nitro import Nitro
    from .run import Run


def new_loop(handle: Nitro, run: Run, record: Record, followed: Schedules) -> Loop:
    """What a new run steps with, from the handle's initial state."""
    settings, built = handle.settings, handle.built
    anchors = handle.settled.anchors
    values = Values(handle.experiment, handle.values.numbers, anchors=anchors)
    device = values.device
    followed.begin(values)
    followed.apply(values, 0)
    params = place(built.params, device)
    opt = optimizer_state(handle.blueprint, params, built.state, values)
    loop = Loop(
        carry=Carry(
            params=params,
            state=place(built.state, device),
            opt=place(tuple(jax.tree.leaves(opt)), device),
            step=jax.device_put(jnp.uint32(0), device),
            bad=jax.device_put(jnp.zeros((), bool), device),
            sticky=sticky(settings["on_nonfinite"], device),
        ),
        programs=ProgramSet(
            handle.blueprint,
            handle.cache,
            run.asker,
            fuse=settings["fuse"],
            options=handle.options,
            joint=settings["accum_mode"] == "joint",
        ),
        values=values,
        feed=Feed(handle.data["train"]),
        first=handle.first.avals.get("train", {}),
        key=handle.key,
        mailbox=run.mailbox,
        record=record,
        on_phase=run.set_phase,
        schedules=followed,
        listeners=run.listeners,
        max_steps=handle.budget(),
        accum=settings["accum"],
        on_nonfinite=settings["on_nonfinite"],
    )
    if "val" in handle.data:
        loop.evaluate = Validation(
            handle.data["val"], record, handle.padding, handle.first.avals["val"]
        )
        loop.evaluate_every = every(settings["eval_every"])
    return loop


def sticky(on_nonfinite: str, device: Any) -> Any:
    """The flag of the guard for a mode: whether a bad step stops those after it."""
    return jax.device_put(jnp.bool_(on_nonfinite != "skip"), device)
