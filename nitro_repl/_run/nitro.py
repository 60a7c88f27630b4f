"""`Nitro`: an experiment set up, ready to train, validate and predict.

A handle is a fixed point: settings, data, model and hooks are those of the moment it was
made, and it says so when the code has moved on.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from .._experiment.base import Experiment
from .._experiment.hooks import Hooks
from .._programs.cache import ProgramCache, programs
from .._programs.program_set import ProgramSet
from .._programs.spec import Asker
from .._programs.step import Carry
from ..errors import DataError, RunError, SettingError, suggest
from .batches import batch_arrays
from .data import check_splits, first_batch
from .evaluation import Evaluation, State
from .failure import tell
from .feed import Feed
from .history import History
from .live import Values, hyperparameters
from .loggers import JsonLines
from .loop import Loop
from .run import Run
from .rundir import RunDir
from .settings import DEFAULT_LOGGER, every, resolve
from .setup import (
    Built,
    blueprint,
    build,
    check,
    hooks_explained,
    optimizer_state,
    place,
)
from .ticker import terminal_line


class Nitro:
    """A handle on one experiment: set-up only, until `train` is called.

    Args:
        experiment: An instance, or a class whose fields all have defaults.
        **settings: `seed=0`, `run_dir="runs"` (None for no files), `max_epochs`,
            `max_steps`, `eval_every="1 epoch"`, `log_every=1`, `logger` (default: JSON
            lines in the run's directory; None for none), `checkpointer=None`,
            `learning_rate`, `pad_eval=True`, `fuse=False`. A keyword wins over a method
            or field of the experiment of that name, which wins over the default.

    Raises:
        NitroError: Something is wrong with the experiment; nothing was compiled.

    Example:
        >>> handle = Nitro(Digits(width=256), max_epochs=40)
        >>> run = handle.train()
        >>> handle.evaluate("test")["acc"]
    """

    def __init__(self, experiment: Experiment | type[Experiment], **settings: Any):
        if isinstance(experiment, type) and issubclass(experiment, Experiment):
            experiment = experiment()
        if not isinstance(experiment, Experiment):
            raise SettingError(
                f"Nitro takes an Experiment, not {type(experiment).__name__}",
                where="Nitro(...)",
                fix="class MyExperiment(nitro.Experiment): ..., then Nitro(MyExperiment())",
            )
        self.experiment = experiment
        self.cache: ProgramCache = programs
        self.hooks = Hooks.of(type(experiment))
        self._settings = resolve(experiment, self.hooks, settings)
        check(experiment, self.hooks)
        with hooks_explained("build_data"):
            made = self.hooks.call(experiment, "build_data")
        self.data = check_splits(made)
        self.built = build(experiment, self.hooks, self._settings["seed"])
        hyper = hyperparameters(experiment, self.hooks, self._settings)
        self._values = Values(experiment, hyper)
        self._plan = blueprint(
            experiment, self.hooks, self.built.structure, self._values
        )
        self._programs = ProgramSet(self._plan, self.cache, self._asker)
        self._first = self._check_batches()
        self._evaluation = self._new_evaluation(self._programs)
        self._logger: Any = None
        self._run: Run | None = None

    @property
    def settings(self) -> Mapping[str, Any]:
        """Every setting by name, as resolved."""
        return MappingProxyType(self._settings)

    @property
    def run(self) -> Run | None:
        """The latest run of this handle."""
        return self._run

    def train(
        self, background: bool | None = None, paused: bool = False, fresh: bool = False
    ) -> Run:
        """Train; a second call goes on where the first ended.

        Args:
            background: Return at once and train in a thread. By default so in IPython,
                and not in a plain script.
            paused: Wait before the first step.
            fresh: Begin a new run from the initial state.

        Raises:
            DataError: There is no split "train".
            NitroError: In the foreground, what ended the run.
        """
        background = _in_ipython() if background is None else background
        if paused and not background:
            raise SettingError(
                "a paused foreground run would never begin", where="train",
                fix="train(background=True, paused=True)",
            )  # fmt: skip
        if "train" not in self.data:
            raise DataError(
                "there is no split `train`",
                where="build_data",
                fix='return {"train": loader, ...}',
            )
        run = self._run
        if run is None or (fresh and not run.live):
            self._check_endless(background)
            run = self._run = Run(self)
        elif fresh:
            raise RunError(
                f"run {run.id} is live",
                where="train(fresh=True)",
                fix="run.stop() first",
            )
        elif run.phase == "done":
            run.extend(self.budget())
        self._say_if_stale()
        run.begin(paused=paused, foreground=not background)
        if not background:
            with terminal_line(run):
                run.in_foreground()
        return run

    def validate(self) -> dict[str, Any]:
        """`evaluate("val")`."""
        return self.evaluate("val")

    def evaluate(self, split: str) -> dict[str, Any]:
        """Loss and metrics over a split, with the latest run's state of one boundary.

        Returns:
            Floats by name: `<split>_loss` and what `metrics` reports.

        Raises:
            DataError: There is no such split, or a batch lacks a field.
        """
        if split not in self.data:
            raise DataError(
                f"there is no split `{split}`",
                where="build_data",
                fix=suggest(split, self.data),
            )
        self._say_if_stale()
        state, evaluation = self._moment()
        return evaluation.evaluate(state, self.data[split], split)

    def predict(self, batch: Any) -> Any:
        """Outputs of `forward` in eval mode, as numpy arrays.

        Args:
            batch: A dict of arrays, or a loader of them; only the fields that `forward`
                names are needed.

        Returns:
            The outputs; of a loader, joined over all batches on the first axis.
        """
        self._say_if_stale()
        state, evaluation = self._moment()
        if isinstance(batch, Mapping):
            return evaluation.predict(state, batch)
        return evaluation.predict_all(state, batch)

    def __repr__(self) -> str:
        name = type(self.experiment).__name__
        splits = ", ".join(
            f"{split} {len(loader)} batches" for split, loader in self.data.items()
        )
        return f"<Nitro {name}: {splits}; {self._run.progress() if self._run else 'not trained yet'}>"

    # ---- for runs

    def new_directory(self) -> RunDir:
        """A directory for a run."""
        return RunDir(self._settings["run_dir"], type(self.experiment).__name__)

    def new_loop(self, run: Run) -> Loop:
        """What a run steps with, from the initial state."""
        built = self.built
        values = Values(
            self.experiment, {n: float(v) for n, v in self._values.numbers.items()}
        )
        params = place(built.params, values.device)
        opt = optimizer_state(self._plan, params, values)
        carry = Carry(
            params, place(built.state, values.device), place(tuple(jax.tree.leaves(opt)), values.device),
            jax.device_put(jnp.uint32(0), values.device), jax.device_put(jnp.zeros((), bool), values.device),
        )  # fmt: skip
        self._open_logger(run)
        self._begin_record(run)
        loop = Loop(
            carry=carry, programs=ProgramSet(self._plan, self.cache, run.asker), values=values,
            feed=Feed(self.data["train"]), first=self._first, key=_key(self._settings["seed"], values.device),
            mailbox=run._mailbox, history=History(), on_row=self._log, on_phase=run._set_phase,
            evaluate_every=every(self._settings["eval_every"]) if "val" in self.data else None,
            max_steps=self.budget(), log_every=self._settings["log_every"],
        )  # fmt: skip
        loop.evaluate = self._evaluate_live
        return loop

    def budget(self) -> int | None:
        """Steps that one `train` does at most."""
        epochs, steps = self._settings["max_epochs"], self._settings["max_steps"]
        limits = [] if steps is None else [steps]
        if epochs is not None:
            limits.append(epochs * len(self.data["train"]))
        return min(limits, default=None)

    def flush_logger(self) -> None:
        """Have our logger write what it holds."""
        flush = getattr(self._logger, "flush", None)
        if callable(flush):
            flush()

    # ---- parts

    def _moment(self) -> tuple[State, Evaluation]:
        """The numbers to evaluate with, and the evaluation that fits them."""
        if self._run is None:
            values = self._values
            key = _key(self._settings["seed"], values.device)
            params, state = (
                place(self.built.params, values.device),
                place(self.built.state, values.device),
            )
            return State(
                params, state, values.field_leaves, key, values.device
            ), self._evaluation
        state, programs = self._run.state()
        return state, self._new_evaluation(programs)

    def _new_evaluation(self, programs: ProgramSet) -> Evaluation:
        rows = (
            max((_rows(avals) for avals in (self._first,)), default=0)
            if self._first
            else 0
        )
        plan = programs.blueprint
        return Evaluation(
            plan.experiment, plan.hooks, programs, self._settings["pad_eval"], rows
        )

    def _evaluate_live(self, loop: Loop) -> None:
        """Evaluate "val" between two steps, on the worker."""
        loop.on_phase("evaluating")
        evaluation = self._new_evaluation(loop.programs)

        def between() -> None:
            while (command := loop.mailbox.take(urgent=True)) is not None:
                loop.obey(command)
            loop.rest()
            if loop.stopping:
                raise _Stopped
            loop.on_phase("evaluating")

        evaluation.between = between
        carry = loop.carry
        state = State(
            carry.params,
            carry.state,
            loop.values.field_leaves,
            loop.key,
            loop.values.device,
        )
        try:
            result = evaluation.evaluate(state, self.data["val"], "val")
        except _Stopped:
            return
        row = {
            "step": loop.step,
            "epoch": loop.epoch,
            **{k: float(v) for k, v in result.items() if jnp.ndim(v) == 0},
        }
        loop.history.append("val", row)
        self._log("val", row, loop.step, loop.epoch)

    def _check_batches(self) -> dict[str, Any]:
        """Read one batch of each split that is trained or validated on."""
        first: dict[str, Any] = {}
        for split in ("train", "val"):
            if split not in self.data:
                continue
            with hooks_explained(f"the loader of `{split}`"):
                arrays = batch_arrays(first_batch(self.data[split], split), split)
            if split == "train":
                first = {
                    name: arrays[name] for name in self._programs.train_names(arrays)
                }
                first = {
                    n: jax.ShapeDtypeStruct(a.shape, a.dtype) for n, a in first.items()
                }
            else:
                for hook in ("forward", "loss", "metrics"):
                    self._programs.eval_names(hook, arrays, split)
        return first

    def _check_endless(self, background: bool) -> None:
        if self.budget() is None and not background:
            raise SettingError(
                "a foreground run without an end would never return", where="train",
                fix="Nitro(..., max_epochs=10) or max_steps=1000, or train(background=True)",
            )  # fmt: skip

    def _open_logger(self, run: Run) -> None:
        logger = self._settings["logger"]
        if logger == DEFAULT_LOGGER:
            path = run.directory.file("metrics.jsonl")
            logger = JsonLines(path) if path is not None else None
        self._logger = logger
        if logger is not None:
            logger.log_params({**self._fields(), **self._shown_settings()})

    def _log(self, split: str, row: dict[str, float], step: int, epoch: int) -> None:
        if self._logger is not None:
            self._logger.log_metrics(row, step=step, epoch=epoch, split=split)

    def _begin_record(self, run: Run) -> None:
        run.directory.begin(
            fields=self._fields(), settings=self._shown_settings(), seed=self._settings["seed"],
            experiment=type(self.experiment).__qualname__,
        )  # fmt: skip

    def _fields(self) -> dict[str, Any]:
        return {
            name: getattr(self.experiment, name)
            for name in type(self.experiment).__fields__
        }

    def _shown_settings(self) -> dict[str, Any]:
        return {**self._settings, **self._values.numbers}

    def _asker(self) -> Asker:
        return Asker(type(self.experiment).__name__)

    def _say_if_stale(self) -> None:
        if self._run is not None and self._run.stale:
            tell(f"nitro: code has moved on since this handle was built: {', '.join(self._run.stale)}; "
                 "run.swap() or a new Nitro takes it")  # fmt: skip


class _Stopped(Exception):
    """The run is to stop in the middle of an evaluation."""


def _key(seed: int, device: Any) -> Any:
    return jax.device_put(jax.random.key(seed), device)


def _rows(avals: Mapping[str, Any]) -> int:
    return max((aval.shape[0] for aval in avals.values() if aval.shape), default=0)


def _in_ipython() -> bool:
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get is not None and get() is not None
