"""`render`: samples of a split drawn by `visualize`, the first or the worst of them.

A loss ranks samples only where that of a batch is made of theirs; else it is refused.
"""

from __future__ import annotations

import heapq
import itertools
import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._experiment.hooks import missing
from .._programs.explain import hooks_explained
from ..errors import HookError, SettingError
from .evaluation import At, Evaluation, State
from .feed import close_iterator, open_epoch
from .picture import Picture, Pictures, close, show_inline
from .samples import Batch, Sample

FIRST = 8


@dataclass(frozen=True)
class Wish:
    """What to draw.

    Attributes:
        split: Name of the split.
        predictions: Whether `visualize` gets outputs; else it gets None.
        worst: How many samples with the highest loss.
        first: How many of the first samples, if not the worst are asked for.
    """

    split: str = "val"
    predictions: bool = True
    worst: int | None = None
    first: int = FIRST

    def check(self) -> None:
        """Refuse what cannot be drawn.

        Raises:
            SettingError: A number is not positive, or the worst are asked for without
                predictions.
        """
        for name, value in (("worst", self.worst), ("first", self.first)):
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (whole and value > 0):
                raise SettingError(
                    f"render({name}={value!r}): not a number of samples",
                    where="render",
                    fix=f"{name}={FIRST}",
                )
        if self.worst is not None and not self.predictions:
            raise SettingError(
                "the worst samples are found by their loss, which needs predictions",
                where="render(worst=..., predictions=False)",
                fix=f"render(worst={self.worst}), or render(predictions=False)",
            )


def render(
    evaluation: Evaluation, state: State, loader: Any, wish: Wish, folder: Path | None
) -> Pictures:
    """Draw samples, show them and save them.

    Args:
        evaluation: Of the run or handle.
        state: One boundary's numbers.
        loader: The split.
        wish: Which samples.
        folder: Where files go, None for nowhere.

    Raises:
        HookError: There is no `visualize`, or it returns nothing, or the loss cannot
            rank samples.
        DataError: The batches lack a field that `visualize` needs.
    """
    wish.check()
    _check_hook(evaluation)
    _check_loss(evaluation, wish)
    samples = _samples(evaluation, state, loader, wish)
    try:
        if wish.worst is None:
            chosen = list(itertools.islice(samples, wish.first))
        else:
            chosen = heapq.nlargest(wish.worst, samples)
    finally:
        samples.close()
    drawing = _Drawing(evaluation, evaluation.host(state), wish.split, folder)
    stem = f"{wish.split}-step{state.step}"
    return Pictures(wish.split, [drawing(sample, stem) for sample in chosen])


class _Drawing:
    """Draws, shows and saves one sample after the other."""

    def __init__(
        self, evaluation: Evaluation, host: Any, split: str, folder: Path | None
    ):
        self._hooks, self._host = evaluation.hooks, host
        self._split, self._folder = split, folder

    def __call__(self, sample: Sample, stem: str) -> Picture:
        what = f"visualize, sample {sample.index} of `{self._split}`"
        with hooks_explained(what):
            figure = self._hooks.call(
                self._host, "visualize", sample.outputs, **sample.fields
            )
        if figure is None:
            raise HookError(
                "`visualize` returned None", where=what, fix="return the figure"
            )
        path = None
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._saved(figure, self._folder / f"{stem}-{sample.index:05}")
        picture = Picture(sample.index, figure, sample.loss, path)
        show_inline(picture, self._split)
        close(figure)
        return picture

    def _saved(self, figure: Any, stem: Path) -> Path | None:
        with hooks_explained("save_figure"):
            made = self._hooks.call(self._host, "save_figure", figure, stem)
        if made is None or isinstance(made, str | os.PathLike):
            return None if made is None else Path(made)
        raise HookError(
            f"`save_figure` returned {type(made).__name__}, not a path",
            where=type(self._host).__name__,
            fix="return the path of the file, or None if there is none",
        )


def _check_hook(evaluation: Evaluation) -> None:
    name = type(evaluation.experiment).__name__
    if not evaluation.hooks.defines("visualize"):
        raise HookError(
            "the hook `visualize` is not defined, so there is nothing to draw",
            where=name,
            fix="def visualize(self, outputs, *, image): ... return a figure",
        )
    wanted = evaluation.programs.blueprint.route("visualize")
    if wanted.wants_key:
        raise HookError(
            "`visualize` asks for a random `key`, which only compiled hooks get",
            where=f"visualize, {wanted.place}",
            fix="draw in `forward`, or use numpy's random numbers",
        )


def _check_loss(evaluation: Evaluation, wish: Wish) -> None:
    if wish.worst is not None and not evaluation.hooks.defines("loss"):
        raise HookError(
            "the hook `loss` is not defined, so no sample is worse than another",
            where=f"{type(evaluation.experiment).__name__}, render(worst=...)",
            fix="write `loss`, which evaluation uses too, or render(first=8)",
        )


def _samples(
    evaluation: Evaluation, state: State, loader: Any, wish: Wish
) -> Generator[Sample]:
    """The samples of a split, in order; with their loss, if the worst are wanted."""
    plan = evaluation.programs.blueprint
    if wish.worst is not None and not plan.hooks.defines("loss"):
        raise missing("loss", type(plan.experiment).__name__)
    hooks = ("forward",) if wish.predictions else ()
    hooks = (*hooks, "loss") if wish.worst is not None else hooks
    with hooks_explained(f"the loader of `{wish.split}`"):
        iterator, index, start = open_epoch(loader, 0), 0, 0
    try:
        while (batch := evaluation.next_batch(iterator, wish.split)) is not None:
            made = Batch(evaluation, state, batch, At(wish.split, index), hooks)
            if wish.worst is not None and index == 0:
                made.check_loss()
            yield from made.samples(start)
            index, start = index + 1, start + made.rows
    finally:
        close_iterator(iterator)
