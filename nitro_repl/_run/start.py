"""From a handle's set-up to the loop of a new run: fresh state, a feed of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from .._programs.program_set import ProgramSet
from .._programs.step import Carry
from .._text import tell
from ..errors import DataError, SettingError
from .decay import check_decay, scheduled_decay
from .feed import Feed
from .live import Values
from .loop import Loop
from .record import Record
from .schedules import Schedules, schedules
from .settings import every
from .setup import optimizer_state, place
from .validation import Validation

if TYPE_CHECKING:
    from .nitro import Nitro
    from .run import Run


def check_start(handle: Nitro, *, background: bool, paused: bool) -> None:
    """Refuse to train what cannot be.

    Raises:
        SettingError: A foreground run would never begin.
        DataError: There is no split "train".
    """
    if paused and not background:
        raise SettingError(
            "a paused foreground run would never begin", where="train",
            fix="train(background=True, paused=True)",
        )  # fmt: skip
    if "train" not in handle.data:
        raise DataError(
            "there is no split `train`",
            where="build_data",
            fix='return {"train": loader, ...}',
        )


def check_ends(handle: Nitro, *, background: bool) -> None:
    """Refuse a new run that its caller would wait for without end.

    Raises:
        SettingError: A foreground run would never return.
    """
    if handle.budget() is None and not background:
        raise SettingError(
            "a foreground run without an end would never return",
            where="train",
            fix="Nitro(..., max_epochs=10) or max_steps=1000,\n"
            "or train(background=True)",
        )


def followed(handle: Nitro, horizon: int | None) -> Schedules:
    """What the values of a new run follow; says which settings that replaces."""
    plan, settings = handle.plan, handle.settings
    made = schedules(plan.experiment, plan.hooks, plan.values, horizon)
    check_decay(plan.blueprint, plan.values, scheduled_decay(made.curves))
    for name in sorted(made.names & settings.keys()):
        tell(
            f"nitro: `{name}` follows its schedule; {name}={settings[name]!r} "
            "is not used"
        )
    return made


def new_loop(handle: Nitro, run: Run, record: Record, follows: Schedules) -> Loop:
    """What a new run steps with, from the handle's initial state."""
    settings, prepared, plan = handle.settings, handle.prepared, handle.plan
    built, anchors = plan.built, plan.settled.anchors
    values = Values(plan.experiment, plan.values.numbers, anchors=anchors)
    device = values.device
    follows.begin(values)
    follows.apply(values, 0)
    params = place(built.params, device)
    opt = optimizer_state(plan.blueprint, params, built.state, values)
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
            plan.blueprint,
            handle.cache,
            run.asker,
            fuse=settings["fuse"],
            options=handle.options,
            joint=settings["accum_mode"] == "joint",
        ),
        values=values,
        feed=Feed(handle.data["train"]),
        first=prepared.first.avals.get("train", {}),
        key=prepared.key,
        mailbox=run.mailbox,
        record=record,
        on_phase=run.set_phase,
        schedules=follows,
        listeners=run.listeners,
        max_steps=handle.budget(),
        accum=settings["accum"],
        on_nonfinite=settings["on_nonfinite"],
    )
    if "val" in handle.data:
        loop.evaluate = Validation(
            handle.data["val"], record, handle.padding, prepared.first.avals["val"]
        )
        loop.evaluate_every = every(settings["eval_every"])
    return loop


def sticky(on_nonfinite: str, device: Any) -> Any:
    """The flag of the guard for a mode: whether a bad step stops those after it."""
    return jax.device_put(jnp.bool_(on_nonfinite != "skip"), device)
