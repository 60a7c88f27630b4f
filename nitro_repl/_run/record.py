"""All that a run writes down: its directory, journal, history and logger.

A logger that fails is warned about once and dropped; the run never notices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._text import said, warn
from .history import History
from .journal import Journal
from .log import Log
from .loggers import JsonLines
from .rundir import RunDir
from .settings import DEFAULT_LOGGER


class Record:
    """The record of one run.

    Args:
        experiment: Class name.
        settings: As resolved; `run_dir`, `logger`, `log_every` and `seed` matter here.
        fields: Fields of the experiment by name.
        values: First values of the hyperparameters.
    """

    def __init__(
        self,
        experiment: str,
        settings: Mapping[str, Any],
        fields: Mapping[str, Any],
        values: Mapping[str, float],
    ):
        self.directory = RunDir(settings["run_dir"], experiment)
        self.id = self.directory.id
        self.journal = Journal(self.directory.file("journal.jsonl"))
        self.history = History()
        self.log = Log()
        self._every = settings["log_every"]
        self._logger = self._open(settings["logger"])
        shown = {**settings, **values}
        self.directory.begin(
            fields=fields, settings=shown, seed=settings["seed"], experiment=experiment
        )
        self._log("log_params", {**fields, **shown})

    def row(self, split: str, row: dict[str, float]) -> None:
        """Keep the numbers of a step or evaluation, with their step and epoch."""
        self.history.append(split, row)
        step = int(row["step"])
        if split != "train" or step % self._every == 0:
            epoch = int(row["epoch"])
            self._log("log_metrics", row, step=step, epoch=epoch, split=split)

    def describe(self, text: str, **about: Any) -> None:
        """Write down what the run was set up with, as a text for people too."""
        self.directory.update(**about)
        self._log("log_text", "setup", text)

    def variant(self, programs: Mapping[str, Any]) -> None:
        """Write down the programs in use: variants differ in the last bits."""
        kind = (
            "fused"
            if any(name.startswith(("step ", "grad ")) for name in programs)
            else "split"
        )
        self.directory.update(programs={"variant": kind, **programs})

    def flush(self) -> None:
        """Have the logger write what it holds, if it can be asked to."""
        if hasattr(self._logger, "flush"):
            self._log("flush")

    def end(self, phase: str, step: int) -> None:
        """Write down how the run ended."""
        self.flush()
        self.directory.finish(phase, step=step)

    def close(self) -> None:
        """Tell the logger that nothing more comes."""
        self._log("finish")

    def _open(self, logger: Any) -> Any:
        if logger != DEFAULT_LOGGER:
            return logger
        path = self.directory.file("metrics.jsonl")
        return None if path is None else JsonLines(path)

    def _log(self, verb: str, *arguments: Any, **keywords: Any) -> None:
        if self._logger is None:
            return
        try:
            getattr(self._logger, verb)(*arguments, **keywords)
        except Exception as error:
            name, self._logger = type(self._logger).__name__, None
            warn(
                f"the logger {name} raised in {verb} {said(error)}; "
                "it is dropped, the run goes on"
            )
