"""A curve: one schedule, evaluated on the host for many steps at a time.

It gives what calling the schedule with each step gives, to 1e-6 of its largest value;
a schedule that can only be called step by step is, ahead of the steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from .._programs.explain import hooks_explained
from .._programs.trace import epoch, new_epoch
from ..errors import ScheduleError
from .ahead import Ahead

_AGREES = 1e-6  # of the largest value: a cosine near its end is all cancellation
_CHECKED = (0, 1, 31, 32, 100, 127, 200, 254, 255)  # places in a block

_UNTRACEABLE = object()

Numbers = np.ndarray
"""Values of consecutive steps, float64."""


class Curve:
    """One schedule of a run.

    Args:
        name: What it schedules, for errors.
        function: Called with the step, from 0; or a number, which never changes.
    """

    def __init__(self, name: str, function: Callable[[Any], Any] | float):
        self.name = name
        self.function = function
        self._epoch = new_epoch()  # what the schedule calls is as it is now, jitted too
        self._traced: Any = jax.jit(jax.vmap(function)) if callable(function) else None
        self._size = 0  # of the blocks that the traced program gives
        self._ahead: Ahead | None = None
        self._begun = False
        self._seen: dict[str, tuple[int, Numbers]] = {}

    @property
    def by_step(self) -> bool:
        """Whether it turned out that it must be called with each step."""
        return self._ahead is not None

    def begin(self) -> None:
        """Steps follow: compute what must be called with each of them ahead of them."""
        self._begun = True
        if self._ahead is not None:
            self._ahead.begun = True

    def rest(self) -> None:
        """Compute nothing more until a step is asked for."""
        if self._ahead is not None:
            self._ahead.rest()

    def at(self, start: int, stop: int) -> Numbers:
        """Values of the steps from `start` to before `stop`.

        Fewer, but at least one, where the schedule fails further on (it may know no
        steps behind its end) or must be called with each step.

        Raises:
            ScheduleError: It gives no number for step `start`.
            HookError: It raises there.
        """
        made = self._at(start, stop)
        self._seen["latest"] = (start, made)
        if not start:
            self._seen["first"] = (start, made)
        return made

    def peek(self, step: int) -> float | None:
        """The value of a step; None where the schedule would have to be called."""
        if not callable(self.function):
            return float(self.function)
        for start, numbers in list(self._seen.values()):
            if 0 <= step - start < len(numbers):
                return float(numbers[step - start])
        if not self._size:
            return None
        start = step - step % self._size
        with contextlib.suppress(Exception), self._called():
            number = float(self._program(start, start + self._size)[step - start])
            return number if np.isfinite(number) else None
        return None

    def _at(self, start: int, stop: int) -> Numbers:
        if not callable(self.function):
            return np.full(stop - start, float(self.function))
        if self._ahead is None:
            with self._called():
                made = self._by_trace(start, stop)
                if made is None:
                    made = self._by_array(self.function, start, stop)
            if made is not None:
                return made
            self._ahead = Ahead(self.name, self._at_step, stop - start)
            self._ahead.begun = self._begun
        return np.array(self._ahead.at(start)[: stop - start])

    @contextlib.contextmanager
    def _called(self) -> Iterator[None]:
        explained = hooks_explained(f"the schedule of {self.name}")
        with _on_host(), epoch(self._epoch), explained:
            yield

    def _at_step(self, step: int) -> float:
        assert callable(self.function)
        with self._called():
            return self._number(self.function(step), step)

    def _by_trace(self, start: int, stop: int) -> Numbers | None:
        """All steps by one small program, if the schedule can be traced.

        In 64 bits, so that whole numbers are as large as Python's and rounding is less
        than that of one call. Steps are always as many, so that it is made once.
        """
        if self._traced is _UNTRACEABLE:
            return None
        try:
            made = self._program(start, stop)
        except Exception:
            self._traced, self._size = _UNTRACEABLE, 0
            return None
        fits = made.shape == (stop - start,)
        self._size = stop - start if fits else 0
        return made if fits and np.isfinite(made).all() else None

    def _program(self, start: int, stop: int) -> Numbers:
        with jax.enable_x64(True), np.errstate(all="ignore"):
            return np.array(self._traced(np.arange(start, stop)), np.float64)

    def _by_array(self, function: Any, start: int, stop: int) -> Numbers | None:
        """What the schedule gives for an array of steps, if that agrees with calls."""
        with contextlib.suppress(Exception), np.errstate(all="ignore"):
            made = np.asarray(function(np.arange(start, stop)), np.float64)
            if made.shape == (stop - start,) and self._agrees(function, made, start):
                return made
        return None

    def _agrees(self, function: Any, made: Numbers, start: int) -> bool:
        places = [place for place in _CHECKED if place < len(made)]
        numbers = [self._number(function(start + n), start + n) for n in places]
        scale = _AGREES * np.abs(made).max()
        return bool((np.abs(made[places] - numbers) <= scale).all())

    def _number(self, value: Any, step: int) -> float:
        try:
            made = np.zeros(2) if value is None else np.asarray(value, np.float64)
        except (TypeError, ValueError):
            made = np.zeros(2)
        if made.shape != ():
            raise ScheduleError(
                f"the schedule of `{self.name}` gives {_kind(value)}, not a number",
                where=f"schedules, step {step}",
                fix="give a factory of a schedule: lambda total: lambda step: 0.1",
            )
        if not np.isfinite(made):
            raise ScheduleError(
                f"the schedule of `{self.name}` gives {float(made)} at step {step}",
                where="schedules",
                fix="give a finite number for every step from 0",
            )
        return float(made)


class NoHorizon:
    """Stands for the horizon of a run without an end; whoever uses it is told so."""

    def __init__(self, name: str):
        self._name = name

    def _refuse(self, *_: Any) -> Any:
        raise no_horizon(self._name)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _refuse
    __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __abs__ = __round__ = _refuse
    __int__ = __float__ = __index__ = __bool__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __array__ = __jax_array__ = _refuse


def no_horizon(name: str) -> ScheduleError:
    """The error for a schedule that needs the number of steps of an endless run."""
    return ScheduleError(
        f"the schedule of `{name}` needs the number of steps, and this run has no end",
        where="schedules, train",
        fix="Nitro(..., max_steps=1000) or max_epochs=10, or train(horizon=1000)",
    )


def curve(name: str, factory: Any, horizon: int | None) -> Curve:
    """The curve that a factory of the horizon makes.

    Raises:
        ScheduleError: It makes no schedule, or needs a horizon and there is none.
        HookError: It raises.
    """
    if isinstance(factory, bool | int | float | np.number):
        return Curve(name, float(factory))
    if not callable(factory):
        raise ScheduleError(
            f"the schedule of `{name}` is {_kind(factory)}, not a factory of one",
            where="schedules",
            fix=f'"{name}": lambda total: optax.linear_schedule(1.0, 0.0, total)',
        )
    total: Any = NoHorizon(name) if horizon is None else horizon
    with hooks_explained(f"the schedule of {name}"):
        made = factory(total)
    if not callable(made):
        raise ScheduleError(
            f"the factory of the schedule of `{name}` gives {_kind(made)}, "
            "not a function of the step",
            where="schedules",
            fix=f'"{name}": lambda total: schedule; for a constant the number itself',
        )
    return Curve(name, made)


def _kind(value: Any) -> str:
    shape = getattr(value, "shape", None)
    name = type(value).__name__
    return f"{name} of shape {tuple(shape)}" if shape is not None else name


@contextlib.contextmanager
def _on_host() -> Iterator[None]:
    """Evaluate beside the accelerator, which then waits for nothing."""
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        yield
        return
    with jax.default_device(device):
        yield
