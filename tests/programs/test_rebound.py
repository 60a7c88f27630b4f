# ruff: noqa: E501 (cells read best with one statement a line)
"""A constant that is tweaked becomes an input; values and gradients stay exact.

Every "no compile" has its control: the first edit compiles, and so does what must stay
part of the program.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import jax
import numpy as np
import pytest
from cells import Outcomes, by_hand, losses, same, tiny
from counting import count_compiles
from formulas import FORWARD, LOSS

import nitro_repl as nitro


class Case(NamedTuple):
    """A cell with X where the number stands, and the programs that it is in."""

    cell: str
    programs: frozenset[str] = frozenset({"loss"})


def loss(*lines: str, before: str = "") -> Case:
    return Case(before + LOSS.format("\n        ".join(lines)))


def forward(*lines: str, before: str = "") -> Case:
    cell = before + FORWARD.format("\n        ".join(lines))
    return Case(cell, frozenset({"forward", "backward"}))


LIFTED = {
    "a literal": loss("return X * (logits * logits).mean()"),
    "two places of one literal": loss(
        "return (X * logits).mean() + X * (logits ** 2).mean()"
    ),
    "a global": loss("return (logits * GAIN).mean()", before="GAIN = X"),
    "a captured float": loss(
        "return helper(logits).mean()",
        before="def make(gain):\n    return lambda x: x * gain\nhelper = make(X)\n",
    ),
    "a numpy float": loss("return (logits * np.float32(X)).mean()"),
    "a default argument": loss(
        "return helper(logits).mean()",
        before="def helper(x, gain=X):\n    return x * gain\n",
    ),
    "under an inner jit": loss(
        "return helper(logits).mean()",
        before="@jax.jit\ndef helper(x):\n    return jnp.clip(x * X, -9.0, 9.0)\n",
    ),
    "under two jits": loss(
        "return jax.jit(helper)(logits).mean()",
        before="@jax.jit\ndef inner(x):\n    return x * X\ndef helper(x):\n    return inner(x) + inner(x * X)\n",
    ),
    "under a checkpoint": loss(
        "return helper(logits).mean()",
        before="@jax.checkpoint\ndef helper(x):\n    return jnp.sin(x * X)\n",
    ),
    "under vmap": loss("return jax.vmap(lambda row: (row * X).sum())(logits).mean()"),
    "an operand of a loop": loss(
        "return jax.lax.scan(lambda c, r: (c + r.sum(), None), X * logits[0, 0], logits)[0]"
    ),
    "in smoothed labels": loss(
        "labels = optax.smooth_labels(jax.nn.one_hot(y, 2), X)",
        "return optax.softmax_cross_entropy(logits, labels).mean()",
    ),
    "beside a key of its own": loss(
        "return (logits + X * jax.random.normal(jax.random.key(0), logits.shape)).mean()"
    ),
    "next to a bfloat16": loss(
        "return (logits.astype('bfloat16') * X).mean().astype('float32')"
    ),
    "in forward": forward("return model(x) * X"),
    "in forward, as a factor that is a residual": forward(
        "return X * jnp.tanh(model(x) * X)"
    ),
    "in forward, under a jit": forward(
        "return helper(model(x))",
        before="@jax.jit\ndef helper(x):\n    return X * jnp.sin(x)\n",
    ),
    "in forward, under a checkpoint": forward(
        "return jax.checkpoint(lambda z: jnp.sin(z * X))(model(x))"
    ),
}


@pytest.mark.parametrize("name", LIFTED)
def test_the_second_tweak_compiles_nothing_and_is_exact(name, fresh_programs):
    case = LIFTED[name]
    book = tiny(case.cell.replace("X", "0.5"))
    book.train()
    for number in ("0.75", "0.9375", "0.40625"):
        book.cell(case.cell.replace("X", number))
        outcomes = Outcomes()
        with count_compiles() as count:
            run = book.train()
        if number == "0.75":  # the control: once it is part of the program
            assert count.compiled, "the first edit compiles"
            assert set(count.compiled) <= case.programs
        else:
            assert not count.compiled, number
            assert outcomes.not_hits == dict.fromkeys(case.programs, "rebound")
        assert losses(run) == pytest.approx(by_hand(book), rel=2e-5)
    again = Outcomes()
    book.train()
    assert again.not_hits == {}, "a value seen before is a hit"


FIXED = {
    "an exponent": loss("return (jnp.abs(logits) ** X).mean()"),
    "an exponent by a jitted function": loss(
        "return jnp.power(jnp.abs(logits), X).mean()"
    ),
    "a loop body": loss(
        "return jax.lax.scan(lambda c, r: (c * X + r.sum(), None), 0.0, logits)[0]"
    ),
    "a branch body": loss(
        "return jax.lax.cond(logits.sum() > 0, lambda z: z.mean() * X, lambda z: z.mean() - X, logits)"
    ),
    "a custom rule's body, where only the value is asked": loss(
        "return helper(logits).mean()",
        before="@jax.custom_vjp\ndef helper(x):\n    return jnp.stack([x * X] * 2)\n"
        "helper.defvjp(lambda x: (helper(x), None), lambda _, g: (g.sum(0) * X,))\n",
    ),
    "a number that steers Python": loss(
        "return logits.mean() if X > 0.8 else (logits if X > 0.7 else -logits).sum()"
    ),
    "an integer": loss("return (logits * (y * int(X * 100))[:, None]).mean()"),
    "a boolean": loss("return jnp.where(X > 0.8, logits, -logits).mean() * (X > 0.7)"),
    "an array": loss("return (logits * np.array([X, 1.0], 'f')).mean()"),
    "a shape": loss("return jnp.ones(int(X * 100)).mean() * logits.mean()"),
}


@pytest.mark.parametrize("name", FIXED)
def test_what_must_stay_part_of_the_program_compiles_and_is_exact(name, fresh_programs):
    cell = FIXED[name].cell
    book = tiny(cell.replace("X", "0.5"))
    book.train()
    for number in ("0.75", "0.9375"):
        book.cell(cell.replace("X", number))
        with count_compiles() as count:
            found = losses(book.train())
        if "custom rule" not in name:  # in `loss` the rule itself is what is traced
            assert dict(count.compiled) == {"loss": 1}, number
        assert found == pytest.approx(by_hand(book), rel=2e-5)


def test_the_constants_of_the_optimizer_become_inputs(fresh_programs):
    cell = """
class Tiny(Tiny):
    def optimizer(self, hp):
        return optax.chain(
            optax.clip_by_global_norm(X), optax.scale_by_adam(b1=X), optax.scale(-X),
        )
"""
    book = tiny(cell.replace("X", "0.5"))
    book.train(max_steps=3)
    for number, compiled in (("0.75", {"optimizer": 1}), ("0.625", {})):
        book.cell(cell.replace("X", number))
        with count_compiles() as count:
            run = book.train(max_steps=3)
        assert dict(count.compiled) == compiled, number
    fresh_programs.clear()
    assert_close(run.params, book.train(max_steps=3).params)


def test_the_constants_of_train_metrics_become_inputs(fresh_programs):
    cell = """
class Tiny(Tiny):
    def train_metrics(self, logits, *, y):
        return {"size": X * jnp.abs(logits).mean()}
"""
    book = tiny(cell.replace("X", "1.0"))
    first = book.train().history("train")["size"]
    for number, compiled in (("2.0", {"loss": 1}), ("3.0", {})):
        book.cell(cell.replace("X", number))
        with count_compiles() as count:
            found = book.train().history("train")["size"]
        assert dict(count.compiled) == compiled
        assert found == pytest.approx(first * float(number), rel=1e-6)


def test_evaluation_follows(fresh_programs):
    cell = FORWARD.format("return model(x) * X")
    book = tiny(cell.replace("X", "1.0"))
    outputs = book.handle().predict({"x": book["ROWS"][0]["x"]})
    for number, compiled in (("2.0", {"eval": 1}), ("3.0", {})):
        book.cell(cell.replace("X", number))
        with count_compiles() as count:
            found = book.handle().predict({"x": book["ROWS"][0]["x"]})
        assert dict(count.compiled) == compiled
        assert found == pytest.approx(outputs * float(number), rel=1e-6)


def test_only_the_constants_that_changed_are_inputs(fresh_programs):
    cell = LOSS.format("return A * logits.mean() + B * (logits * logits).mean()")

    def edit(a: str, b: str) -> dict[str, int]:
        book.cell(cell.replace("A", a).replace("B", b))
        with count_compiles() as count:
            found = losses(book.train())
        assert found == pytest.approx(by_hand(book), rel=2e-5)
        return dict(count.compiled)

    book = tiny(cell.replace("A", "0.5").replace("B", "0.25"))
    book.train()
    assert edit("0.75", "0.25") == {"loss": 1}
    assert edit("0.875", "0.25") == {}
    assert edit("0.875", "0.375") == {"loss": 1}, "the other one is not an input yet"
    assert edit("0.125", "0.625") == {}, "now both are"
    assert edit("0.5", "0.25") == {}
    # The gradient of a product holds its factor twice.
    assert inputs("loss") == set(), "the program of before is a hit"
    edit("0.0625", "0.03125")
    assert {text.split()[0] for text in inputs("loss")} >= {"0.0625", "0.03125"}


def inputs(name: str) -> set[str]:
    program = next(p for p in reversed(nitro.programs.latest()) if p.name == name)
    return set(program.lifted)


def test_another_program_is_never_taken_for_one_that_takes_constants(fresh_programs):
    cells = (
        LOSS.format("return 0.5 * logits.mean()"),
        LOSS.format("return 0.75 * logits.sum()"),
        LOSS.format("return 0.75 * logits.mean(0).sum()"),
        LOSS.format("return 0.75 + logits.mean()"),
        LOSS.format("return 0.75 * logits.mean() + 0.75"),
        LOSS.format("return 0.75 * logits.mean() + y[0]"),
        LOSS.format("return 0.75 * jnp.where(logits > 0, logits, 0).mean()"),
        LOSS.format("return 0.75 * jnp.where(logits < 0, logits, 0).mean()"),
        LOSS.format("return 0.75 * jnp.where(logits > 0, logits, 1).mean()"),
    )
    book = tiny("", cells[0])
    book.train()
    for cell in cells[1:]:
        book.cell(cell)
        with count_compiles() as count:
            found = losses(book.train())
        assert dict(count.compiled) == {"loss": 1}, cell
        assert found == pytest.approx(by_hand(book), rel=2e-5), cell


def test_many_constants_of_one_place_share_an_input(fresh_programs):
    cell = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return sum((logits * X * scale).mean() for scale in range(1, 30))
"""
    book = tiny(cell.replace("X", "0.5"))
    book.train()
    for number, compiled in (("0.75", {"loss": 1}), ("0.875", {})):
        book.cell(cell.replace("X", number))
        with count_compiles() as count:
            found = losses(book.train())
        assert dict(count.compiled) == compiled
        assert found == pytest.approx(by_hand(book), rel=2e-5)
    program = next(p for p in reversed(nitro.programs.latest()) if p.name == "loss")
    assert len(program.lifted) <= 2


def test_what_computes_the_same_shares_the_program_whatever_it_is_called(
    fresh_programs,
):
    book = tiny(LOSS.format("return (logits * 0.5).mean()"))
    book.train()
    book.cell("def scaled(x):\n    print('tracing')\n    return x * 0.5\n")
    book.cell(LOSS.format("return scaled(logits).mean()"))
    outcomes = Outcomes()
    with count_compiles() as count:
        book.train()
    assert outcomes.not_hits == {"loss": "rebound"}
    assert not count.compiled


def test_a_program_with_a_callback_is_never_shared(fresh_programs):
    cell = LOSS.format(
        "jax.debug.callback(print, X)\n        return logits.mean() * 0.5"
    )
    book = tiny(cell.replace("X", "0.5"))
    book.train()
    with count_compiles() as count:
        book.train()
    assert dict(count.compiled) == {"loss": 1}


def test_a_swap_takes_new_constants_as_inputs_and_the_run_records_it(
    fresh_programs, tmp_path
):
    cell = LOSS.format("return (logits * X).mean()")
    book = tiny(cell.replace("X", "0.5"))
    run = book.handle(max_steps=6, run_dir=tmp_path).train(background=True, paused=True)
    run.advance(1)
    book.cell(cell.replace("X", "0.75"))
    run.swap()
    run.advance(1)
    book.cell(cell.replace("X", "0.875"))
    with count_compiles() as count:
        said = run.swap()
    assert not count.compiled
    assert any("rebound" in line and "0.75 -> 0.875" in line for line in said), said
    run.advance(1)
    assert "0.875" in repr(nitro.programs), "the table says which constants are inputs"
    run.stop()
    (path,) = tmp_path.glob("*/*/run.json")
    variant = json.loads(path.read_text())["programs"]
    assert any("0.875" in text for text in variant["loss train"]["inputs"]), variant
    fresh = book.handle(max_steps=3).train(background=True, paused=True)
    for number in ("0.5", "0.75", "0.875"):
        book.cell(cell.replace("X", number))
        fresh_programs.clear()  # so that each number is part of its program
        fresh.swap()
        fresh.advance(1)
    fresh.wait()
    assert losses(run) == pytest.approx(losses(fresh), rel=1e-6)


def assert_close(one, two):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_the_first_step_after_a_tweak_equals_that_of_a_fresh_process(fresh_programs):
    cell = FORWARD.format("return X * model(x)")
    book = tiny(cell.replace("X", "0.5"))
    book.train()
    for number in ("0.75", "0.8125"):
        book.cell(cell.replace("X", number))
        lifted = book.train()
    fresh_programs.clear()
    baked = book.train()
    assert_close(lifted.params, baked.params)
    assert not same(lifted.params, tiny(cell.replace("X", "0.5")).train().params)


def test_constants_of_two_dtypes_share_no_input(fresh_programs):
    cell = """
class Tiny(Tiny):
    def forward(self, model, *, x):
        a, b = model(x).astype("float16"), model(x).astype("bfloat16")
        for _ in range(10): a, b = jnp.sin(a) + X, jnp.sin(b) + X
        return (a + b).astype("float32") * Y
"""
    book = tiny()
    for first, second in (("0.1", "1.1"), ("0.0", "1.1"), ("0.0", "1.2")):
        book.cell(cell.replace("X", first).replace("Y", second))
        assert losses(book.train()) == pytest.approx(by_hand(book), rel=2e-2)


def test_a_key_does_not_change_when_jax_forgets_what_it_had_cached(fresh_programs):
    cell = LOSS.format("return X * (logits * logits).mean()")
    book = tiny(cell.replace("X", "0.5"))
    book.train()
    book.cell(cell.replace("X", "0.75"))
    book.train()
    jax.clear_caches()
    book.cell(cell.replace("X", "0.875"))
    with count_compiles() as count:
        book.train()
    assert not count.compiled
