"""`Nitro`: an experiment set up, ready to train, validate and predict.

A handle is a fixed point: settings, data, model and hooks are those of the moment it
was made, and it says so when the code has moved on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .._code.arrays import light_look
from .._experiment.base import Experiment
from .._experiment.hooks import Hooks
from .._programs import disk
from .._programs.cache import ProgramCache, programs
from .._programs.explain import hooks_explained
from .._programs.key import Source
from ..errors import DataError, RunError, SettingError, suggest
from .asking import in_ipython
from .binding import Binding, audience, set_up
from .boundary import evaluating
from .call import call
from .data import check_accum, check_splits
from .derive import derived
from .evaluation import Evaluation, State
from .loading import starting_from
from .manual import check_settings
from .options import compile_options
from .outlook import Outlook, Reminder, outlook
from .padding import Padding
from .picture import Pictures
from .pictures import FIRST, Wish, render
from .plan import Plan
from .prepared import prepare
from .run import Run
from .rundir import folder_of
from .schedules import check_horizon
from .settings import resolve, with_derived
from .setup import build, check
from .start import check_ends, check_start, followed

_SHOWN = (
    "call", "data", "evaluate", "experiment", "predict", "render", "report", "run",
    "settings", "train", "validate",
)  # fmt: skip


class Nitro:
    """A handle on one experiment: set-up only, until `train` is called.

    Args:
        experiment: An instance, or a class whose fields all have defaults.
        data: Splits to use instead of those of `build_data`, which is not called then:
            `other.data` of another handle, or {} for a handle that needs none.
        **settings: `seed=0`, `run_dir="runs"` (None for no files), `max_epochs`,
            `max_steps`, `eval_every="1 epoch"`, `log_every=1`, `logger` (default: JSON
            lines in the run's directory; None for none), `checkpointer=None`,
            `learning_rate`, `weight_decay`, `clip_norm`, `ema`, `pad_eval=True`,
            `fuse=False`, `metrics_residency="host"` ("device": `metrics` is compiled),
            `accum=1` (micro-batches of a step), `accum_mode="mean"` or "joint" (one
            loss over all of them), `on_nonfinite="pause"` (in IPython), "stop"
            (elsewhere) or "skip", `compile_options` (XLA flags by name), `weights` (to
            start from: another handle, a run, a module or nested dicts like
            `run.params`; a keyword only).
            A keyword wins over a method or field of the experiment of that name, which
            wins over the default.

    Raises:
        NitroError: Something is wrong with the experiment; nothing was compiled.

    Example:
        >>> handle = Nitro(Digits(width=256), max_epochs=40)
        >>> run = handle.train()
        >>> handle.evaluate("test")["acc"]
    """

    def __dir__(self) -> list[str]:
        """What Tab shows; the rest is for our own threads and views."""
        return list(_SHOWN)

    def __init__(
        self,
        experiment: Experiment | type[Experiment],
        *,
        data: Mapping[str, Any] | None = None,
        **settings: Any,
    ):
        disk.refresh()
        if isinstance(experiment, type) and issubclass(experiment, Experiment):
            experiment = experiment()
        if not isinstance(experiment, Experiment):
            raise SettingError(
                f"Nitro takes an Experiment, not {type(experiment).__name__}",
                where="Nitro(...)",
                fix="class Mine(nitro.Experiment): ..., then Nitro(Mine())",
            )
        self.experiment = experiment
        self.cache: ProgramCache = programs
        self.hooks = Hooks.of(type(experiment))
        self.given = dict(settings)
        weights = settings.pop("weights", None)
        self._settings = resolve(experiment, self.hooks, settings)
        self.options = compile_options(self._settings["compile_options"])
        check(Source(experiment, self.hooks, {}))
        check_settings(self.hooks, self._settings)
        if data is None:
            with hooks_explained("build_data"):
                data = self.hooks.call(experiment, "build_data")
        self.data = check_splits(data)
        self.derived = derived(experiment, self.hooks, self.data)
        if self.derived:
            experiment = self.experiment = experiment.replace(**self.derived)
            self._settings = with_derived(self._settings, settings, self.derived)
            check(Source(experiment, self.hooks, {}))
        check_accum(self.data, self._settings["accum"])
        if self._settings["on_nonfinite"] is None:
            self._settings["on_nonfinite"] = "pause" if in_ipython() else "stop"
        self.built = build(experiment, self.hooks, self._settings["seed"])
        if weights is not None:
            self.built = starting_from(self.built, _model_of(weights))
            self._settings["weights"] = _words(weights)
        self.prepared = prepare(self)
        rows = self.prepared.first.rows
        self.padding = Padding(rows) if self._settings["pad_eval"] else None
        self._run: Run | None = None
        self._begins = threading.RLock()  # one run, whoever calls `train` at once
        self._reminder = Reminder()
        for show in audience:
            show(self.set_up)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Every setting by name, as resolved."""
        return MappingProxyType(self._settings)

    @property
    def run(self) -> Run | None:
        """The latest run of this handle."""
        return self._run

    def report(self) -> Binding:
        """What is in force, and where each value comes from.

        Before any run that is what the handle was set up with; then what its latest
        run steps with now, after each `set`, `unset` and swap.
        """
        return self.set_up if self._run is None else self._run.in_force()

    def train(
        self,
        background: bool | None = None,
        paused: bool = False,
        fresh: bool = False,
        horizon: int | None = None,
    ) -> Run:
        """Train; a second call goes on where the first ended.

        A run that was stopped or failed goes on to its end; one that has done all its
        epochs or steps does as many again.

        Args:
            background: Return at once and train in a thread. By default so in IPython,
                and not in a plain script.
            paused: Wait before the first step.
            fresh: Begin a new run from the initial state.
            horizon: Optimizer steps that schedules are made for. By default all those
                of the first `train`; a later one keeps them unless it is given.

        Raises:
            DataError: There is no split "train".
            ScheduleError: `schedules` is refused, or needs the number of steps.
            NitroError: In the foreground, what ended the run.
        """
        check_horizon(horizon)
        background = in_ipython() if background is None else background
        check_start(self, background=background, paused=paused)
        with self._begins:
            run = self._begun(
                horizon, fresh=fresh, paused=paused, background=background
            )
        if not background:
            run.in_foreground()
        return run

    def validate(self, params: str | None = None) -> dict[str, Any]:
        """`evaluate("val")`."""
        return self.evaluate("val", params)

    def evaluate(self, split: str, params: str | None = None) -> dict[str, Any]:
        """Loss and metrics over a split, with the latest run's state of one boundary.

        Args:
            split: Its name.
            params: "live" for the parameters being trained, "ema" for their average;
                by default the average where there is one.

        Returns:
            Floats by name: `<split>_loss` and what `metrics` reports.

        Raises:
            DataError: There is no such split, or a batch lacks a field.
            SettingError: There is no average.
        """
        loader = self.loader(split)
        with self._evaluating(params) as (state, evaluation):
            return evaluation.evaluate(state, loader, split)

    def predict(self, batch: Any, params: str | None = None) -> Any:
        """Outputs of `forward` in eval mode, as numpy arrays.

        Args:
            batch: A dict of arrays, or a loader of them; only the fields that `forward`
                names are needed.
            params: As in `evaluate`.

        Returns:
            The outputs; of a loader, joined over all batches on the first axis.
        """
        if not isinstance(batch, Iterable) or hasattr(batch, "__array__"):
            raise DataError(
                f"predict() got {type(batch).__name__}",
                where="predict",
                fix='give a dict of arrays, {"image": x}, or a loader of such dicts',
            )
        with self._evaluating(params) as (state, evaluation):
            if isinstance(batch, Mapping):
                return evaluation.predict(state, batch)
            return evaluation.predict_all(state, batch)

    def call(self, name: str, /, **inputs: Any) -> Any:
        """Run a `@nitro.program` method on the latest run's state of one boundary.

        Args:
            name: Of the method.
            **inputs: What it gets: arrays, numbers and pytrees of them, or texts.
                `key` is a random key; without it one of the run's seed and step.

        Returns:
            What the method returns, arrays as numpy arrays.

        Raises:
            HookError: There is no such method, or it cannot take these inputs.

        Example:
            >>> handle.call("sample", prompt=x, temperature=0.8)
        """
        with self._evaluating() as (state, evaluation):
            return call(state, evaluation.programs, name, inputs)

    def render(
        self,
        split: str = "val",
        *,
        predictions: bool = True,
        worst: int | None = None,
        first: int = FIRST,
    ) -> Pictures:
        """Draw samples of a split with the hook `visualize`.

        They show under the cell in a notebook, and are saved in the folder `figures`
        of the latest run; before any, in that of the experiment. Figures of pyplot are
        closed, and can be used all the same.

        Args:
            split: Name of the split.
            predictions: Give `visualize` outputs of the model; without them it gets
                None, and nothing is compiled.
            worst: Draw so many samples with the highest loss, the highest first.
            first: Draw so many of the first samples, if the worst are not asked for.

        Raises:
            HookError: There is no `visualize`, or the loss cannot rank samples.
            DataError: There is no such split, or a batch lacks a field.

        Example:
            >>> handle.render(predictions=False)  # look at the data before training
            >>> handle.render("test", worst=4)[0].index
        """
        wish = Wish(split, predictions, worst, first)
        loader = self.loader(split)
        with self._evaluating() as (state, evaluation):
            return render(evaluation, state, loader, wish, self._figures())

    def __repr__(self) -> str:
        name = type(self.experiment).__name__
        splits = ", ".join(
            f"{split} {len(loader)} batches" for split, loader in self.data.items()
        )
        progress = self._run.progress() if self._run else "not trained yet"
        return f"<Nitro {name}: {splits}; {progress}>"

    # ---- for runs

    @cached_property
    def set_up(self) -> Binding:
        """The report of set-up, which its runs write down when they begin."""
        return set_up(self)

    def loader(self, split: str) -> Any:
        """The loader of a split.

        Raises:
            DataError: There is none.
        """
        if not isinstance(split, str) or split not in self.data:
            raise DataError(
                f"there is no split `{split}`",
                where="build_data",
                fix=suggest(str(split), self.data),
            )
        return self.data[split]

    def budget(self) -> int | None:
        """Steps that one `train` does at most."""
        epochs, steps = self._settings["max_epochs"], self._settings["max_steps"]
        limits = [] if steps is None else [steps]
        if epochs is not None:
            batches = epochs * len(self.data["train"])
            limits.append(batches // self._settings["accum"])
        return min(limits, default=None)

    @property
    def plan(self) -> Plan:
        """What its runs begin to step with."""
        return self.prepared.plan

    # ---- parts

    def _begun(
        self, horizon: int | None, *, fresh: bool, paused: bool, background: bool
    ) -> Run:
        """The run that `train` gives, which has begun or goes on."""
        run = self._run
        if run is None or (fresh and not run.live):
            run = self._run = self._new_run(horizon, background=background)
            horizon = None
        elif fresh:
            raise RunError(
                f"run {run.id} is live",
                where="train(fresh=True)",
                fix="run.stop() first",
            )
        elif run.phase == "done":
            run.extend(self.budget())
        if horizon is not None:
            run.reschedule(horizon)
        self._say_if_stale()
        run.begin(paused=paused, foreground=not background)
        return run

    def _new_run(self, horizon: int | None, *, background: bool) -> Run:
        check_ends(self, background=background)
        if not self.prepared.fits_here:
            self.prepared = prepare(self)
        return Run(self, followed(self, horizon or self.budget()))

    def _evaluating(
        self, params: str | None = None
    ) -> AbstractContextManager[tuple[State, Evaluation]]:
        """The latest run's numbers, or the initial ones, and what evaluates them."""
        self._say_if_stale()
        latest = self.prepared if self._run is None else self._run
        return evaluating(latest, self.padding, params)

    def _figures(self) -> Path | None:
        """Where pictures go."""
        if self._run is not None:
            return self._run.figures
        root, name = self._settings["run_dir"], type(self.experiment).__name__
        return None if root is None else folder_of(root, name) / "figures"

    def _say_if_stale(self) -> None:
        with light_look():
            self._reminder.say(
                self._run.outlook() if self._run else self._initial_outlook()
            )

    def _initial_outlook(self) -> Outlook:
        """What the newest code means for a handle that has not trained."""
        plan, programs = self.prepared.plan, self.prepared.programs
        return outlook(plan, plan.values, self._settings, programs, {})


def _model_of(weights: Any) -> Any:
    """The module that a handle or run has now, its average where there is one."""
    if isinstance(weights, Nitro):
        built = weights.built
        if weights.run is None:
            return built.structure.merge(built.params, built.state, training=False)
        weights = weights.run
    return weights.model() if isinstance(weights, Run) else weights


def _words(weights: Any) -> str:
    """What a run started from, for its record; arrays would fill it."""
    run = weights.run if isinstance(weights, Nitro) else weights
    if isinstance(run, Run):
        return f"run {run.id} at step {run.step}"
    return type(weights).__name__
