from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
from cells import in_thread, live, tiny

from nitro_repl.testing import count_compiles


def listeners():
    from jax._src import monitoring

    return [
        *monitoring.get_event_listeners(),
        *monitoring.get_event_duration_listeners(),
    ]


def compile_new(name):
    """Compile a function that nobody compiled, under this name."""

    def run(x):
        return x + 1

    run.__name__ = name
    return jax.jit(run)(jnp.zeros(3)).block_until_ready()


def test_programs_count_by_name_and_everything_else_apart():
    with count_compiles() as count:
        compile_new("nitro_loss")
        compile_new("nitro_loss")
        compile_new("mine")
    assert count["loss"] == 2
    assert count.compiled == count.traced == {"loss": 2}
    assert count.others["mine"] == 1
    assert count["forward"] == 0
    assert count.total >= 3
    assert not count.nothing
    assert "compiled loss 2x" in repr(count)


def test_nothing_is_nothing():
    with count_compiles() as count:
        pass
    assert count.nothing
    assert count.total == 0
    assert count.compiled == {}
    assert repr(count) == "<Compiles: nothing>"


def test_each_of_two_counts_for_itself_and_leaves_no_listener():
    before = listeners()
    with count_compiles() as outer:
        compile_new("nitro_loss")
        with contextlib.suppress(ZeroDivisionError), count_compiles() as inner:
            compile_new("nitro_eval")
            raise ZeroDivisionError
        compile_new("nitro_loss")
    compile_new("nitro_eval")
    assert listeners() == before
    assert inner.compiled == {"eval": 1}
    assert outer.compiled == {"loss": 2, "eval": 1}


def test_other_threads_count():
    with count_compiles() as count:
        in_thread(lambda: compile_new("nitro_loss"))()
    assert count.compiled == {"loss": 1}


def test_it_agrees_with_the_program_cache(fresh_programs):
    book = tiny()
    with count_compiles() as count:
        book.train()
    assert count.compiled == dict.fromkeys(
        ["forward", "loss", "backward", "optimizer"], 1
    )
    with live(book) as run, count_compiles() as count:
        run.set(smoothing=0.5)
        run.advance(1)
    assert count.nothing


LOADED = """
import jax, jax.numpy as jnp
from nitro_repl.testing import count_compiles

jax.config.update("jax_compilation_cache_dir", {folder!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

def nitro_loss(x):
    return x * 2

with count_compiles() as count:
    jax.jit(nitro_loss).lower(1.0).compile()
print(dict(count.compiled), dict(count.loaded), count.total)
"""


def test_what_comes_from_disk_is_loaded_not_compiled(tmp_path):
    code = textwrap.dedent(LOADED).format(folder=str(tmp_path))

    def run():
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run() == "{'loss': 1} {} 1"
    assert run() == "{} {'loss': 1} 0"
