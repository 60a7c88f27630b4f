"""Random code under random edits: never a stale program, never one compile too many.

One session lives through all edits of an example. After each edit its losses and
parameters are those of a new namespace in which only the final source ran, evaluated
by plain eager JAX; programs that cannot reach the edit, and code seen before, are hits.

`NITRO_RANDOM_EDITS=500` runs that many examples of each test instead of a few.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from dataclasses import replace

import pytest
from cells import QUIET, losses
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from random_code import (
    EXPRESSIONS,
    KINDS,
    PROGRAMS,
    ROOTS,
    Node,
    World,
    in_new_process,
    steps,
)
from random_session import CHANGES, REPEATS, STEPS, Session, close, leaves, train

import nitro_repl as nitro
from nitro_repl.testing import count_compiles

LONG = int(os.environ.get("NITRO_RANDOM_EDITS", "0"))
EXAMPLES = LONG or 3
EDITS = 12 if LONG else 5
FRESH_PROCESS = LONG // 5 or 1
PROFILE = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=not LONG,
    phases=(Phase.explicit, Phase.generate, Phase.shrink)
    if LONG
    else (Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
_processes = itertools.count(1)


@st.composite
def worlds(draw):
    """Up to seven helpers, some in a module, called by three hooks."""
    names = [f"h{i}" for i in range(draw(st.integers(3, 7)))]
    in_file = draw(st.integers(0, len(names) - 1))
    nodes = {}
    for at, name in enumerate(names):
        # What stands in the module calls nothing outside of it.
        inner = draw(st.lists(st.sampled_from(names[:at]), max_size=2)) if at else []
        nodes[name] = draw(made(name, draw(st.sampled_from(list(KINDS))), inner))
    for root in ROOTS:
        inner = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2))
        nodes[root] = draw(made(root, root, inner))
    return World(nodes, in_file)


@st.composite
def made(draw, name, kind, inner):
    return Node(name, kind, tuple(inner), draw(constants), draw(variants))


constants = st.integers(20, 120).map(lambda n: n / 64)
variants = st.integers(0, len(EXPRESSIONS) - 1)
edits = st.tuples(
    st.integers(0, 20),  # which node
    st.sampled_from(CHANGES * 2 + REPEATS),
    constants,
    st.integers(1, len(EXPRESSIONS) - 1),
)


@contextlib.contextmanager
def exactly_what_must_be_traced(session):
    """Programs known are hits; others are traced, once each at most."""
    known = session.must_be_known()
    since = len(nitro.programs.events())
    with count_compiles() as count:
        yield
    outcomes = {}
    for seen in nitro.programs.events()[since:]:
        outcomes.setdefault(seen.program, set()).add(seen.outcome)
    for root, programs in PROGRAMS.items():
        for program in programs:
            if root in known:
                assert outcomes.get(program, {"hit"}) == {"hit"}, (program, outcomes)
                assert count.traced[program] == count[program] == 0, (program, count)
            else:
                assert count[program] <= 1, (program, count)
        if root not in known:
            assert "hit" not in outcomes[root], (root, outcomes)
            assert count.traced[root] >= 1, (root, count)
    session.learn()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("random_module_")]:
        del sys.modules[name]


@PROFILE
@given(world=worlds(), changes=st.lists(edits, min_size=EDITS, max_size=EDITS))
def test_a_new_handle_computes_what_a_fresh_session_would(world, changes, folder):
    nitro.programs.clear()  # so that an example repeats
    session = Session(world, folder)
    for change in [None, *changes]:
        if change is not None:
            session.edit(*change)
        with exactly_what_must_be_traced(session):
            run = train(session)
        expected_losses, expected = steps(session.fresh(), 0, STEPS)
        close(losses(run), expected_losses)
        close(leaves(run), expected)
    if next(_processes) <= FRESH_PROCESS:
        there = in_new_process(session.world.cells, session.world.file, STEPS)
        close([expected_losses, *expected], [there[0], *there[1]])


@PROFILE
@given(world=worlds(), changes=st.lists(edits, min_size=EDITS, max_size=EDITS))
def test_a_swap_goes_on_as_a_fresh_session_would(world, changes, folder):
    nitro.programs.clear()  # so that an example repeats
    session = Session(world, folder)
    handle = nitro.Nitro(session.book["Exp"](), max_steps=None, **QUIET)
    run = handle.train(background=True, paused=True)
    try:
        run.advance(1)
        session.learn()
        for step, change in enumerate(changes, 1):
            before = run.params
            session.edit(*change)
            with exactly_what_must_be_traced(session):
                run.swap()
            run.advance(1)
            expected_losses, expected = steps(session.fresh(), step, 1, before)
            close(losses(run)[-1:], expected_losses)
            close(leaves(run), expected)
    finally:
        run.stop()


def test_a_session_that_is_not_told_of_an_edit_would_be_caught(folder):
    calls = {root: Node(root, root, ("h0",)) for root in ROOTS}
    session = Session(World({"h0": Node("h0", "plain", ()), **calls}), folder)
    with exactly_what_must_be_traced(session):
        run = train(session)
    session.world.put(replace(session.world.nodes["h0"], constant=1.5))
    with pytest.raises(AssertionError), exactly_what_must_be_traced(session):
        run = train(session)
    with pytest.raises(AssertionError):
        close(losses(run), steps(session.fresh(), 0, STEPS)[0])
