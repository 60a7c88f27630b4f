"""One process: which folder, what goes into it, and that no fault of it is fatal."""

from __future__ import annotations

import os
import threading
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import in_thread
from counting import count_compiles
from jax._src import monitoring

from nitro_repl._programs import cache_folder, persistent
from nitro_repl._programs.lower import lower
from nitro_repl._programs.persistent import compiling


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    """As in a new kernel, which also forgets what it knew of folders."""
    monkeypatch.setattr(persistent, "_choice", persistent._Choice())
    monkeypatch.setattr(persistent, "_usable", {})


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Our folder, not yet made."""
    monkeypatch.setenv("NITRO_CACHE_DIR", str(tmp_path / "programs"))
    return tmp_path / "programs"


@pytest.fixture
def set_jax():
    """Set one of JAX's settings until the end of the test."""
    before = {}

    def update(name, value):
        before.setdefault(name, getattr(jax.config, name))
        jax.config.update(name, value)

    yield update
    for name, value in before.items():
        jax.config.update(name, value)
    jax.experimental.compilation_cache.compilation_cache.reset_cache()


def lowered(constant=2.0, function=None):
    """A program; another constant makes another one."""
    closed = jax.make_jaxpr(function or (lambda x: jnp.sin(x) * constant))(np.ones(3))
    return lower("test", closed, (("x", 0),), frozenset())


def loads(constant=2.0, function=None):
    """Whether a program comes from disk."""
    program = lowered(constant, function)
    with compiling() as found:
        program.compile()
    return found.loaded


def entries(folder):
    return {path.name: path for path in Path(folder).glob("*-cache")}


# ---- which folder


def test_the_default_is_a_folder_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("NITRO_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert persistent.folder() == str(tmp_path / "nitro_repl" / "programs")
    assert os.stat(persistent.folder()).st_mode & 0o077 == 0, "for the user alone"


@pytest.mark.parametrize("off", ["off", "OFF", "0", ""])
def test_it_is_turned_off_by_the_environment(monkeypatch, tmp_path, off):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NITRO_CACHE_DIR", off)
    assert persistent.folder() is None
    assert [loads(), loads()] == [False, False]
    assert not list(tmp_path.iterdir())


def test_code_can_choose_another_folder_and_none(folder, tmp_path):
    persistent.enable(tmp_path / "mine")
    assert persistent.folder() == str(tmp_path / "mine")
    assert [loads(), loads()] == [False, True]
    persistent.enable(None)
    assert persistent.folder() is None
    assert not loads()
    assert entries(tmp_path / "mine")
    assert not folder.exists()


def test_it_can_be_switched_off_for_a_while(folder):
    loads()
    with persistent.switched_off():
        assert persistent.folder() is None
        assert not in_thread(loads)()
    assert persistent.folder() == str(folder)
    assert loads()


def test_a_folder_that_cannot_be_written_is_complained_about_once(
    monkeypatch, tmp_path, capfd
):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("NITRO_CACHE_DIR", str(tmp_path / "file" / "programs"))
    assert persistent.folder() is None
    assert [loads(), loads()] == [False, False]
    said = capfd.readouterr().err
    assert said.count("are not kept for the next kernel") == 1, said
    assert str(tmp_path / "file" / "programs") in said
    assert "NITRO_CACHE_DIR" in said


# ---- what is found there


def test_a_program_is_found_again_and_another_is_not(folder):
    with count_compiles() as count:
        assert not loads(2.0)
        assert loads(2.0)
        assert not loads(3.0)
    assert count.compiled == {"test": 2}
    assert count.loaded == {"test": 1}


def test_what_was_loaded_computes_the_same_bits(folder):
    compiled = lowered().compile()
    loads()
    program = lowered()
    with compiling() as found:
        loaded = program.compile()
    assert found.loaded
    x = np.linspace(0, 1, 3, dtype=np.float32)
    assert np.array_equal(loaded(x)[0], compiled(x)[0])


def test_names_of_helpers_and_lines_do_not_matter(folder):
    def first(name, before):
        names = {"jax": jax, "jnp": jnp}
        code = f"{before}@jax.jit\ndef {name}(v):\n    return jnp.cos(v) * 3\n"
        exec(compile(code, f"<{name}>", "exec"), names)
        return names[name]

    assert not loads(function=first("scaled", ""))
    assert loads(function=first("stretched", "# moved\n\n\n"))


def test_a_callback_is_the_one_of_this_kernel(folder):
    def answers(number):
        def call(x):
            shape = jax.ShapeDtypeStruct((), np.float32)
            return jax.pure_callback(lambda: np.float32(number), shape) + x[0]

        program = lowered(function=call)
        with compiling():
            return float(program.compile()(np.zeros(3, np.float32))[0])

    assert [answers(1), answers(2)] == [1, 2]


def test_compiles_of_others_neither_fill_nor_read_the_folder(folder):
    settings = dict(jax.config.values)
    loads()
    known = entries(folder)
    with count_compiles() as count:
        jax.jit(lambda x: jnp.sin(x) * 2.5)(np.ones(3))
        lowered(2.5).compile()
        lowered().compile()
    assert count.compiled == {"test": 2}
    assert entries(folder) == known
    assert jax.config.values == settings


def test_two_threads_may_compile_at_once(folder):
    both = threading.Barrier(2)

    def work(constant):
        program = lowered(constant)
        with compiling() as found:
            both.wait(60)
            program.compile()
            both.wait(60)
        return found.loaded

    for expected in (False, True):
        results = [in_thread(lambda c=c: work(c)) for c in (2.0, 3.0)]
        assert [result() for result in results] == [expected, expected]


def test_a_hit_of_another_thread_is_not_taken_for_ours(folder):
    loads(2.0)
    program = lowered(3.0)
    with compiling() as found:
        assert in_thread(lambda: loads(2.0))()
        program.compile()
    assert not found.loaded


def test_clearing_the_listeners_of_jax_does_not_hide_loads(folder):
    loads()
    kept = monitoring.get_event_listeners()
    jax.monitoring.clear_event_listeners()
    try:
        assert loads()
    finally:
        jax.monitoring.clear_event_listeners()
        for listener in kept:
            jax.monitoring.register_event_listener(listener)


# ---- the user's own settings


def test_a_cache_of_the_user_is_used_as_the_user_set_it(folder, tmp_path, set_jax):
    set_jax("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    assert persistent.folder() == str(tmp_path / "theirs")
    assert [loads(), loads()] == [False, False], "too quick for JAX's own threshold"
    assert not entries(tmp_path / "theirs")
    set_jax("jax_persistent_cache_min_compile_time_secs", 0.0)
    assert [loads(), loads()] == [False, True]
    assert entries(tmp_path / "theirs")
    assert not folder.exists()


def test_a_cache_that_the_user_sets_later_takes_over(folder, tmp_path, set_jax):
    loads()
    known = entries(folder)
    set_jax("jax_persistent_cache_min_compile_time_secs", 0.0)
    set_jax("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    assert [loads(3.0), loads(3.0)] == [False, True]
    assert len(entries(tmp_path / "theirs")) == 1
    assert entries(folder) == known


def test_a_cache_that_the_user_no_longer_wants_is_left(folder, tmp_path, set_jax):
    set_jax("jax_persistent_cache_min_compile_time_secs", 0.0)
    set_jax("jax_compilation_cache_dir", str(tmp_path / "theirs"))
    loads()
    set_jax("jax_compilation_cache_dir", None)
    assert [loads(), loads()] == [False, True]
    assert len(entries(folder)) == len(entries(tmp_path / "theirs")) == 1


def test_a_cache_that_the_user_disabled_stays_so(folder, set_jax):
    set_jax("jax_enable_compilation_cache", False)
    assert persistent.folder() is None
    assert [loads(), loads()] == [False, False]
    assert not folder.exists()


# ---- what it may grow to


def test_the_folder_is_bounded_in_bytes(folder, set_jax):
    loads(0.0)
    [entry] = entries(folder).values()
    limit = 4 * entry.stat().st_size
    set_jax("jax_compilation_cache_max_size", limit)
    for number in range(8):
        loads(float(number))
    assert sum(path.stat().st_size for path in entries(folder).values()) <= limit
    assert loads(7.0)
    assert not loads(0.0), "the oldest made room"


def test_the_folder_is_bounded_in_programs(folder, monkeypatch):
    for number in range(4):
        loads(float(number))
        for path in folder.glob("*-atime"):  # as if a minute had passed
            os.utime(path, ns=(0, path.stat().st_mtime_ns - 60 * 10**9))
    monkeypatch.setattr(cache_folder, "ENTRIES", 2)
    monkeypatch.setattr(persistent, "_usable", {})
    assert [loads(3.0), loads(2.0), loads(1.0)] == [True, True, False]


# ---- faults


@pytest.mark.parametrize("left", [0, 10, 0.5])
def test_a_truncated_entry_is_compiled_again_and_replaced(folder, left):
    loads()
    [entry] = entries(folder).values()
    whole = entry.read_bytes()
    entry.write_bytes(whole[: left if isinstance(left, int) else len(whole) // 2])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("error")
        assert not loads()
    assert ["Error reading persistent" in str(w.message) for w in said] == [True]
    assert not entry.exists()
    assert [loads(), loads()] == [False, True]


def test_an_entry_whose_writer_died_stops_nothing(folder):
    loads(2.0)
    for path in folder.glob("*-atime"):
        path.unlink()
    half = entries(folder)
    persistent._usable.clear()
    assert not loads(3.0)
    assert not half.keys() & entries(folder).keys()
    assert loads(3.0), "it was written"


def test_a_folder_deleted_meanwhile_is_made_again(folder):
    loads()
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert [loads(), loads()] == [False, True]


def test_a_folder_that_became_a_file_costs_compiles_only(folder):
    loads()
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("a file now")
    with pytest.warns(UserWarning, match="Error reading persistent"):
        assert not loads()


def test_a_failed_compile_leaves_jax_as_it_was(folder):
    settings = dict(jax.config.values)
    with pytest.raises(RuntimeError, match="no"), compiling():
        raise RuntimeError("no")
    assert jax.config.values == settings
    assert [loads(), loads()] == [False, True]
