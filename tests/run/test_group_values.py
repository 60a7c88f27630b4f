"""Values of groups beside their base: set, scheduled, given back, in every order."""

from __future__ import annotations

import numpy as np
import pytest
from cells import live, tiny
from counting import count_compiles
from reported import rows

pytestmark = pytest.mark.usefixtures("nothing_known")

RATE, HEAD, NECK = "learning_rate", "head.learning_rate", "neck.learning_rate"
DECAY, PULL = "weight_decay", "head.weight_decay"

PLAIN = """
class Tiny(Tiny):
    def build_model(self, rngs):
        one, two = (nnx.Linear(3, 3, rngs=rngs) for _ in range(2))
        return nnx.Dict(body=one, neck=two, head=nnx.Linear(3, 2, rngs=rngs))

    def forward(self, model, *, x):
        for name in ("body", "neck", "head"):
            x = nnx.tanh(model[name](x))
        return x

    def param_group(self, path, leaf):
        return path[0] if path[0] != "body" else "default"

    def learning_rate(self):
        return {"default": 0.5, "head": 0.5, "neck": 0.125}

    def weight_decay(self):
        return {"default": 0.25, "head": 0.25, "neck": 0.75}

    def optimizer(self, hp):
        return optax.adam(hp.learning_rate)
"""
OF_BASE = """
class Tiny(Tiny):
    def schedules(self):
        return {"learning_rate": lambda total: lambda step: (step + 1) / 64}
"""
OF_HEAD = """
class Tiny(Tiny):
    def schedules(self):
        return {"head.learning_rate": lambda total: lambda step: (step + 1) / 64}
"""


@pytest.fixture(scope="module")
def plain():
    return tiny(PLAIN)


@pytest.fixture(scope="module")
def of_base():
    return tiny(PLAIN, OF_BASE)


@pytest.fixture(scope="module")
def of_head():
    return tiny(PLAIN, OF_HEAD)


def do(run, command):
    if isinstance(command, str):
        run.unset(command)
    else:
        run.set(command, override=True)


def check(book, table, names=(RATE, HEAD, NECK)):
    """Do each row of a table in one run, with a step and all given back after it."""
    with live(book, steps=1) as run, count_compiles() as count:
        now = run._loop.values
        at_first = [now.numbers[name] for name in names]
        for commands, want in table:
            for command in commands:
                do(run, command)
            assert tuple(now.numbers[name] for name in names) == want, commands
            run.advance(1)
            assert tuple(run.history()[name][-1] for name in names) == want, commands
            for name in names:
                run.unset(name)
            assert [now.numbers[name] for name in names] == at_first, commands
    assert count.nothing_of_ours


def check_scheduled(book, table):
    """Do each row of a table in a run of its own, with a step after each command."""
    for commands, want in table:
        with live(book, steps=1) as run:
            with count_compiles() as count:
                for command in commands:
                    do(run, command)
                    run.advance(1)
            last = run.history()
            assert tuple(last[n][-1] for n in (RATE, HEAD, NECK)) == want, commands
            assert count.nothing_of_ours


BASE, OWN = {RATE: 0.25}, {HEAD: 1.0}
TABLE = [
    ([], (0.5, 0.5, 0.125)),
    ([BASE], (0.25, 0.25, 0.0625)),
    ([OWN], (0.5, 1.0, 0.125)),
    ([BASE, OWN], (0.25, 1.0, 0.0625)),
    ([OWN, BASE], (0.25, 0.5, 0.0625)),
    ([{**BASE, **OWN}], (0.25, 1.0, 0.0625)),
    ([OWN, HEAD], (0.5, 0.5, 0.125)),
    ([BASE, OWN, HEAD], (0.25, 0.25, 0.0625)),
    ([OWN, BASE, HEAD], (0.25, 0.25, 0.0625)),
    ([BASE, OWN, RATE], (0.5, 1.0, 0.125)),
    ([OWN, BASE, RATE], (0.5, 1.0, 0.125)),
    ([BASE, OWN, RATE, {RATE: 1.0}], (1.0, 2.0, 0.25)),
    ([BASE, OWN, RATE, HEAD], (0.5, 0.5, 0.125)),
    ([BASE, OWN, HEAD, RATE], (0.5, 0.5, 0.125)),
    ([OWN, BASE, RATE, HEAD], (0.5, 0.5, 0.125)),
    ([OWN, HEAD, BASE], (0.25, 0.25, 0.0625)),
    ([BASE, HEAD], (0.25, 0.25, 0.0625)),
    ([OWN, RATE], (0.5, 1.0, 0.125)),
    ([OWN, {RATE: 0}, HEAD], (0, 0, 0)),
    ([OWN, {RATE: 0}, RATE], (0.5, 1.0, 0.125)),
]


def test_a_rate_that_is_given_back_goes_with_the_base(plain):
    check(plain, TABLE)


OF_BASE_TABLE = [
    ([OWN, HEAD], (3 / 64, 3 / 64, 3 / 256)),
    ([BASE, OWN, HEAD], (16 / 64, 16 / 64, 4 / 64)),
    ([BASE, OWN, RATE], (4 / 64, 16 / 64, 1 / 64)),  # a schedule moves what was set too
    ([BASE, OWN, HEAD, RATE], (5 / 64, 5 / 64, 5 / 256)),
    ([OWN, BASE, HEAD, RATE], (5 / 64, 5 / 64, 5 / 256)),
]


def test_a_group_goes_with_a_scheduled_base_again(of_base):
    check_scheduled(of_base, OF_BASE_TABLE)


OF_HEAD_TABLE = [
    ([OWN, HEAD], (1 / 2, 3 / 64, 1 / 8)),
    ([BASE, OWN, HEAD, RATE], (1 / 2, 5 / 64, 1 / 8)),
    ([OWN, BASE, RATE, HEAD], (1 / 2, 5 / 64, 1 / 8)),
]


def test_a_scheduled_group_is_given_back_to_its_schedule(of_head):
    check_scheduled(of_head, OF_HEAD_TABLE)


LESS, PULLED = {DECAY: 0.5}, {PULL: 1.0}


DECAYS = [
    ([LESS], (0.5, 0.5, 0.75)),
    ([PULLED, LESS], (0.5, 1.0, 0.75)),
    ([LESS, PULLED, PULL], (0.5, 0.5, 0.75)),
    ([PULLED, LESS, PULL], (0.5, 0.5, 0.75)),
    ([PULLED, PULL, LESS], (0.5, 0.5, 0.75)),
    ([LESS, PULLED, DECAY], (0.25, 1.0, 0.75)),
    ([PULLED, PULL, LESS, DECAY], (0.25, 0.25, 0.75)),
    ([LESS, {"neck.weight_decay": 1.0}, "neck.weight_decay"], (0.5, 0.5, 0.75)),
]


def test_a_decay_that_is_given_back_goes_with_the_base(plain):
    check(plain, DECAYS, (DECAY, PULL, "neck.weight_decay"))


def test_a_group_that_goes_with_the_base_is_not_called_set(plain):
    def changed():
        found = {row.name for row in run.status().values if row.changed}
        return found & {RATE, HEAD, NECK}

    with live(plain) as run:
        assert changed() == set()
        run.set(learning_rate=0.25)
        assert changed() == {RATE}
        assert "head.learning_rate=0.25 (default" not in repr(run.status())
        run.set({HEAD: 1.0})
        assert changed() == {RATE, HEAD}
        run.unset(HEAD)
        assert changed() == {RATE}
        assert rows(run.in_force())[HEAD] == (0.25, "set at step 2")
        run.unset(RATE)
        assert changed() == set()
        assert rows(run.in_force())[HEAD] == (0.5, "method")


def test_what_was_set_is_known_after_a_swap(plain):
    book = tiny(PLAIN)
    with live(book) as run:
        run.set(learning_rate=0.25)
        run.set({HEAD: 1.0, PULL: 1.0})
        book.cell("@Tiny.hook\ndef optimizer(self, hp): return optax.sgd")
        run.swap()
        run.set(weight_decay=0.5)
        run.advance(1)
        assert run._loop.values.numbers[PULL] == 1.0
        run.unset(HEAD)
        run.unset(PULL)
        numbers = run._loop.values.numbers
        assert (numbers[HEAD], numbers[PULL]) == (0.25, 0.5)
        assert np.isfinite(run.history()["loss"]).all()


def test_a_rate_of_a_frozen_group_waits_until_it_is_trained():
    book = tiny(PLAIN)
    book.cell("""
@Tiny.hook
def frozen(self, path, leaf): return path[0] == "head"
""")
    with live(book) as run:
        assert HEAD not in run.history()
        book.cell("""
@Tiny.hook
def frozen(self, path, leaf): return False
""")
        run.swap()
        run.advance(1)
        assert run.history()[HEAD][-1] == 0.5
