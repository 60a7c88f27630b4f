"""Cells of classes that run again: content stays, `is` and isinstance must not lie."""

from __future__ import annotations

import pytest
from cells import by_hand, losses, tiny
from counting import count_compiles

import nitro_repl as nitro

pytestmark = pytest.mark.usefixtures("nothing_known")

ENUM = """
import enum

class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"
"""
DATACLASS = """
import dataclasses

@dataclasses.dataclass
class Config:
    up: float = 2.0
    more: list = dataclasses.field(default_factory=list)
"""
BRANCHES = """
class Tiny(Tiny):
    mode: GraphConst[Mode] = Mode.SUM
    modes: GraphConst[list] = [Mode.SUM]
    config: GraphConst[Config] = Config()
    attribute = Mode.SUM

    def loss(self, logits, *, y):
        squares = logits * logits * FACTOR
        if not isinstance(self.config, Config):
            return squares.max()
        if self.mode is Mode.SUM and self.modes[0] is Mode.SUM:
            return squares.sum() if self.attribute is Mode.SUM else squares.min()
        return squares.mean()
"""


def factor(value):
    return f"FACTOR = {value}\n"


def fresh(value):
    return tiny(ENUM, DATACLASS, factor(value), BRANCHES)


def test_a_live_run_takes_the_same_branch_after_its_enum_ran_again():
    book = fresh(1.0)
    run = book.handle(max_steps=2).train(background=True, paused=True)
    run.advance(1)
    model, batch = run.model(), book["ROWS"][1]
    for cell in (ENUM, DATACLASS):
        book.cell(cell)
    assert run.stale == ()
    book.cell(factor(1.25))
    run.swap()
    run.advance(1)
    run.wait()
    squares = model(batch["x"]) ** 2 * 1.25
    assert losses(run)[1] == pytest.approx(float(squares.sum()), rel=1e-5)
    later = fresh(1.25)
    assert losses(later.train()) == pytest.approx(by_hand(later), rel=1e-5)


def test_only_the_identity_is_renewed():
    book = fresh(1.0)
    experiment = book["Tiny"]()
    book.cell(DATACLASS.replace("2.0", "3.0"))
    book.cell(ENUM)
    hooks = nitro.Nitro(experiment, run_dir=None, logger=None).hooks
    config = hooks.renewed(experiment.config)
    assert type(config) is book["Config"]
    assert config.up == 2.0, "the value is the user's, not the new default"
    assert hooks.renewed([1, {"a": experiment.mode}]) == [1, {"a": book["Mode"].SUM}]
    assert hooks.renewed(experiment.mode) is book["Mode"].SUM
    kept = (1, "a", [2.0])
    assert hooks.renewed(kept) is kept


def test_renewed_values_hit_the_programs_that_are_there():
    book = fresh(1.5)
    book.train()
    book.cell(ENUM)
    book.cell(DATACLASS)
    with count_compiles() as count:
        book.train()
    assert count.nothing_of_ours, nitro.programs.why()


GLOBAL = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        squares = logits * logits * FACTOR
        return squares.sum() if CHOSEN is Mode.SUM else squares.mean()
"""


def test_a_trace_with_values_of_an_older_class_is_never_kept():
    book = tiny(ENUM, "CHOSEN = Mode.SUM", factor(1.75), GLOBAL)
    book.train()
    book.cell(ENUM)  # CHOSEN is of the older class now, as Python has it
    book.cell(factor(1.875))
    mixed = losses(book.train())
    assert "older class `Mode`" in unsound()
    later = tiny(ENUM, "CHOSEN = Mode.SUM", factor(1.875), GLOBAL)
    found = losses(later.train())
    assert found == pytest.approx(by_hand(later), rel=1e-5)
    assert found != pytest.approx(mixed, rel=1e-2)


def unsound():
    programs = [p for p in nitro.programs.latest() if p.name == "loss"]
    return " ".join(reason for program in programs for reason in program.unsound)


def test_classes_of_one_name_with_other_content_are_no_matter():
    book = tiny("""
class One:
    class Scale:
        gain = 2.0

class Two:
    class Scale:
        gain = 3.0

class Tiny(Tiny):
    def loss(self, logits, *, y):
        return (logits * One.Scale.gain * Two.Scale.gain).mean()
""")
    book.train()
    with count_compiles() as count:
        book.train()
    assert count.nothing_of_ours
