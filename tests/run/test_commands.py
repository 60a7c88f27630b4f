from __future__ import annotations

import random
import threading
from collections import Counter

import numpy as np
import pytest
from cells import in_thread, live, losses, tiny

import nitro_repl as nitro
from nitro_repl._run.commands import LATER, Command, Mailbox

COMMANDS, THREADS = 2000, 4


def command(name="x", *, urgent=False):
    return Command(name, lambda loop, command: None, urgent=urgent)


@pytest.fixture
def mailbox():
    box = Mailbox()
    box.open()
    return box


def test_commands_are_taken_in_order(mailbox):
    given = [command(str(n)) for n in range(3)]
    assert all(map(mailbox.put, given))
    assert [mailbox.take() for _ in range(4)] == [*given, None]
    assert not mailbox


def test_an_urgent_command_overtakes_only_those_that_are_not(mailbox):
    for name, urgent in (("set", False), ("pause", True), ("stop", True)):
        mailbox.put(command(name, urgent=urgent))
    assert mailbox.take(urgent=True).name == "pause"
    assert mailbox.take(urgent=True).name == "stop"
    assert mailbox.take(urgent=True) is None
    assert mailbox.take().name == "set"


def test_taking_waits_until_there_is_a_command(mailbox):
    taking = in_thread(lambda: mailbox.take(block=True))
    late = command("late")
    mailbox.put(late)
    assert taking() is late


def test_a_closed_mailbox_refuses_what_is_left_and_what_comes(mailbox):
    left = command("left")
    mailbox.put(left)
    mailbox.close(lambda verb: nitro.RunError(f"too late to {verb}"))
    with pytest.raises(nitro.RunError, match="too late to left"):
        left.reply.result()
    assert mailbox.put(command()) is False
    mailbox.open()
    assert mailbox.put(command()) is True


def test_a_command_is_answered_once():
    asked = command()
    asked.answer(1)
    asked.answer(2)
    asked.refuse(ValueError("too late"))
    assert asked.reply.result() == 1
    assert LATER is not None


class Thrower:
    """One of the threads that throw commands at a run."""

    NAMES = ("pause", "resume", "set", "advance", "params", "status", "model")
    RARE = ((24, "predict"), (49, "swap"))  # turns out of 50

    def __init__(self, run, book, seed):
        self.run, self.book = run, book
        self.dice = random.Random(seed)
        self.done, self.failures = Counter(), Counter()

    def throw(self):
        for turn in range(COMMANDS // THREADS):
            name = dict(self.RARE).get(turn % 50) or self.dice.choice(self.NAMES)
            try:
                getattr(self, name, getattr(self.run, name, None))()
                self.done[name] += 1
            except BaseException as error:
                self.failures[f"{name}: {error!r}"] += 1

    def set(self):
        value = self.dice.choice([0.0, 0.1, 0.2])
        self.run.set(smoothing=value, learning_rate=value / 10)

    def advance(self):
        self.run.advance(self.dice.randint(1, 3))

    def params(self):
        assert all(np.isfinite(leaf).all() for leaf in leaves(self.run.params))

    def status(self):
        assert str(self.run.status())

    def predict(self):
        assert self.run.handle.predict(self.book["ROWS"][0]).shape == (4, 2)

    def swap(self):
        other = {"loss": self.book["other_loss"]} if self.dice.random() < 0.5 else {}
        try:
            self.run.swap(**other)
        except nitro.SwapError as error:
            if "newer swap" not in str(error):
                raise


OTHER_LOSS = """
def other_loss(self, logits, *, y):
    return (logits * logits).mean() + self.smoothing
"""


def test_two_thousand_commands_of_four_threads():
    """No exception, each command answered, the last values hold."""
    book = tiny(OTHER_LOSS)
    with live(book, eval_every=3) as run:
        throwers = [Thrower(run, book, seed) for seed in range(THREADS)]
        threads = [threading.Thread(target=one.throw) for one in throwers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in threads), "one hangs"
        failures = sum((one.failures for one in throwers), Counter())
        assert not failures, failures.most_common(5)
        done = sum((one.done for one in throwers), Counter())
        assert done.total() == COMMANDS
        last = {"smoothing": 0.125, "learning_rate": 0.25, "weight_decay": 0.0}
        run.set(last)
        assert {row.name: row.value for row in run.status().values} == last
        run.swap(undo=True)
        run.advance(1)
        run.swap()
        run.advance(1)
        assert {row.name: row.value for row in run.status().values} == last
        assert run.history()["learning_rate"][-2:].tolist() == [0.25, 0.25]
        written = Counter(entry["command"] for entry in run.journal.entries)
        for name in ("pause", "resume"):
            assert written[name] == done[name]
        assert written["set"] == done["set"] + 1
        assert run.exception is None
    assert run.history()["step"].tolist() == list(range(1, run.step + 1))
    assert np.isfinite(losses(run)).all()


def leaves(tree):
    import jax

    return jax.tree.leaves(tree)


def test_readers_that_come_while_a_run_ends_and_begins_again_are_answered():
    handle = tiny().handle(max_steps=3)
    handle.train(background=False)
    over, failures = threading.Event(), []

    def read():
        while not over.is_set():
            try:
                assert len(leaves(handle.run.params)) == 4
                handle.run.model()
                handle.predict(handle.data["train"][0])
            except BaseException as error:
                failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(40):
        handle.train(background=False)
    over.set()
    for reader in readers:
        reader.join(60)
    assert not failures, Counter(map(repr, failures)).most_common(3)
    assert handle.run.step == 123
