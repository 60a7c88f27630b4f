from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import pytest

from nitro_repl._run.lines import read_lines
from nitro_repl._run.loggers import JsonLines, Logger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_json_lines_is_a_logger_and_so_is_any_object_with_the_verbs(path):
    class Mine:
        def log_metrics(self, metrics, *, step, epoch, split): ...
        def log_params(self, params): ...
        def log_text(self, name, text): ...
        def finish(self): ...

    assert isinstance(JsonLines(path), Logger)
    assert isinstance(Mine(), Logger)
    assert not isinstance(object(), Logger)


def test_each_line_describes_itself(path):
    logger = JsonLines(path)
    logger.log_params({"width": 128})
    logger.log_metrics({"loss": 0.5}, step=3, epoch=1, split="train")
    logger.log_metrics(
        {"acc": jnp.float32(0.5), "by": {"class": np.array([1.0, 2.0])}},
        step=np.int64(3),
        epoch=1,
        split="val",
    )
    logger.log_text("note", "a\nb")
    logger.finish()
    assert read_lines(path) == [
        {"params": {"width": 128}},
        {"split": "train", "step": 3, "epoch": 1, "loss": 0.5},
        {"split": "val", "step": 3, "epoch": 1, "acc": 0.5, "by": {"class": [1, 2]}},
        {"name": "note", "text": "a\nb"},
    ]
    assert path.read_text().splitlines()[1].startswith('{"split": "train", "step": 3')


def test_a_metric_cannot_hide_the_step(path):
    logger = JsonLines(path)
    logger.log_metrics({"step": 9, "loss": 1.0}, step=3, epoch=0, split="train")
    logger.finish()
    assert read_lines(path)[0]["step"] == 3


def test_numbers_that_json_lacks_stay_valid_json(path):
    logger = JsonLines(path)
    metrics = {"a": float("nan"), "b": float("inf"), "c": -float("inf")}
    logger.log_metrics(metrics, step=0, epoch=0, split="train")
    logger.finish()

    def refuse(name):
        raise AssertionError(name)

    line = json.loads(path.read_text(), parse_constant=refuse)
    assert {name: float(line[name]) for name in "bc"} == {"b": np.inf, "c": -np.inf}
    assert np.isnan(float(line["a"]))


def test_lines_reach_the_disk_once_a_second_and_at_a_flush(path):
    class Clock:
        now = 0.0

        def __call__(self):
            return self.now

    clock = Clock()
    logger = JsonLines(path, clock)
    for step in range(3):
        clock.now = step * 0.5
        logger.log_metrics({"loss": 0.0}, step=step, epoch=0, split="train")
    assert len(read_lines(path)) == 3
    logger.log_metrics({"loss": 0.0}, step=3, epoch=0, split="train")
    assert len(read_lines(path)) == 3
    logger.flush()
    assert len(read_lines(path)) == 4


def test_a_disk_that_fails_does_not_stop_the_run(tmp_path):
    (tmp_path / "file").write_text("")
    logger = JsonLines(tmp_path / "file" / "metrics.jsonl")
    logger.log_metrics({"loss": 0.0}, step=0, epoch=0, split="train")
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        logger.finish()
