"""What a handle is set up with: derived fields, presets, data, options, the report."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest
from cells import check_error, losses, same, tiny
from flax import nnx

import nitro_repl as nitro
from nitro_repl import DataError, ExperimentError, FieldError, HookError, SettingError
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

DERIVED = """
built = []
class Tiny(Tiny):
    smoothing: Device[float] = nitro.field(0.1, bounds=(0, 1), log=True, doc="how soft")
    center: Device[float] = 0.0
    width: GraphConst[int] = 4
    max_epochs: int = 1
    presets = {"wide": {"width": 6, "note": "from preset"}}

    def build_data(self):
        built.append(self)
        return {"train": nitro.ArrayLoader(
            {"x": np.ones((10, 3), "f"), "y": np.zeros(10, int)}, 4, drop_last=True)}

    def derive(self, data):
        return {"center": len(data["train"]) / 4, "width": 5, "max_epochs": 3}

    def forward(self, model, *, x):
        return model(x - self.center)

    def schedules(self):
        return {"smoothing": lambda total: optax.constant_schedule(0.2)}
"""


@pytest.fixture(scope="module")
def book():
    return tiny(DERIVED)


def sources(handle):
    report = handle.report()
    return {row.name: (row.value, row.source) for row in report.fields}


# ---- derive


def test_derived_fields_are_there_before_the_model_and_the_run(book):
    handle = book.handle()
    assert handle.experiment.center == 0.5
    assert handle.built.structure.param_avals[0].shape == (5,)
    run = handle.train(background=False)
    assert run.step == 6  # of max_epochs=3, with 2 batches
    found = sources(handle)
    assert found["center"] == (0.5, "derive")
    assert found["note"] == ("host", "default")


def test_a_value_that_was_given_wins_over_a_derived_one(book):
    handle = book.handle(fields={"width": 7}, max_epochs=2)
    assert handle.experiment.width == 7
    assert handle.settings["max_epochs"] == 2
    assert sources(handle)["width"] == (7, "keyword")


DERIVE_REFUSED = {
    "no dict": ("return 3", HookError, ("`derive`", "int", "dict")),
    "no field": ("return {'centre': 1}", FieldError, ("`centre`", "center")),
    "a text": ("return {'center': 'a'}", FieldError, ("`center`", "'a'")),
    "no setting": ("return {'max_epochs': -1}", SettingError, ("max_epochs",)),
    "it raises": ("return data['none']", HookError, ("derive", "KeyError")),
}


@pytest.mark.parametrize("name", DERIVE_REFUSED)
def test_a_derive_is_refused_before_any_compile(name):
    body, kind, words = DERIVE_REFUSED[name]
    book = tiny(DERIVED, f"@Tiny.hook\ndef derive(self, data): {body}")
    with count_compiles() as count, pytest.raises(kind) as refused:
        book.handle()
    check_error(refused.value, *words)
    assert count.nothing


# ---- presets


def test_a_preset_gives_fields_and_keywords_win(book, tmp_path):
    made = book["Tiny"].from_preset("wide", note="mine")
    assert (made.width, made.note) == (6, "mine")
    assert made.replace(center=1.0).width == 6
    handle = book.handle(fields={}, run_dir=None)
    assert handle.report().preset == ""
    handle = nitro.Nitro(made, run_dir=str(tmp_path), eval_every=None, max_epochs=1)
    found = sources(handle)
    assert found["width"] == (6, "preset")
    assert found["note"] == ("mine", "keyword")
    run = handle.train(background=False)
    written = json.loads((run.record.directory.path / "run.json").read_text())
    assert written["preset"] == "wide"
    assert written["metadata"]["smoothing"] == {
        "marker": "Device[float]", "doc": "how soft", "bounds": [0, 1], "log": True,
    }  # fmt: skip
    lines = (run.record.directory.path / "metrics.jsonl").read_text()
    assert '"name": "setup"' in lines
    assert "Device[float]" in lines


def test_a_preset_may_come_from_a_class_method():
    book = tiny(
        "class Tiny(Tiny):\n    @classmethod\n    def presets(cls):\n"
        "        return {'slim': {'width': 2}}"
    )
    assert book["Tiny"].from_preset("slim").width == 2
    with pytest.raises(FieldError) as refused:
        book["Tiny"].from_preset("slin")
    check_error(refused.value, "`slin`", "slim")


def test_a_preset_of_unknown_fields_is_refused():
    book = tiny("class Tiny(Tiny):\n    presets = {'odd': {'with': 2}}")
    with pytest.raises(FieldError) as refused:
        book["Tiny"].from_preset("odd")
    check_error(refused.value, "`odd`", "`with`", "width")
    with pytest.raises(ExperimentError, match="presets"):
        tiny("class Tiny(Tiny):\n    presets: int = 3")


# ---- data


def test_data_of_another_handle_is_used_again_and_none_need_be_built(book):
    first = book.handle()
    built = len(book["built"])
    again = nitro.Nitro(book["Tiny"](), data=first.data, run_dir=None, max_epochs=1)
    assert again.data["train"] is first.data["train"]
    assert again.experiment.center == 0.5
    bare = nitro.Nitro(book["Tiny"](width=5, center=0.5), data={}, run_dir=None)
    assert len(book["built"]) == built
    batch = {"x": np.ones((4, 3), "f")}
    assert same(bare.predict(batch), first.predict(batch))
    with pytest.raises(DataError, match="train"):
        bare.train(background=False)
    assert "Tiny" in repr(bare.report())


# ---- report


def test_the_report_says_where_each_value_comes_from(book):
    handle = book.handle(seed=3, learning_rate=0.2)
    report = handle.report()
    found = {row.name: (row.value, row.source) for row in report.settings}
    assert found["seed"] == (3, "keyword")
    assert found["learning_rate"] == (pytest.approx(0.2), "keyword")
    assert found["fuse"] == (False, "default")
    assert sources(handle)["max_epochs"] == (3, "derive")
    assert report.splits == {"train": "2 batches of 4, 10 samples, 2 dropped"}
    [group] = report.groups
    assert (group.name, group.parameters, group.numbers) == ("default", 4, 32)
    assert [row.name for row in report.schedules] == ["smoothing"]
    assert found["ema"] == (None, "default")
    text = repr(report)
    for word in ("how soft", "0 to 1, log", "GraphConst[int]", "2 dropped", "keyword"):
        assert word in text
    assert "<script" not in report._repr_html_()
    method = {row.name: row.source for row in book.handle().report().settings}
    assert method["learning_rate"] == "method"


# ---- compile options


def test_compile_options_are_part_of_the_key_and_reach_xla(book):
    plain = book.handle(max_steps=2).train(background=False)
    option = {"xla_cpu_enable_fast_math": True}
    handle = book.handle(max_steps=2, compile_options=option)
    with count_compiles() as count:
        fast = handle.train(background=False)
    assert set(count.compiled) == {"forward", "loss", "backward", "optimizer"}
    np.testing.assert_allclose(losses(fast), losses(plain), rtol=1e-4)
    with count_compiles() as count:
        book.handle(max_steps=2, compile_options=dict(option)).train(background=False)
        book.handle(max_steps=2).train(background=False)
    assert count.nothing


@pytest.mark.parametrize(
    "options",
    [{"xla_no_such": True}, {"xla_cpu_enable_fast_math": "maybe"}, [1], {3: 4}],
)
def test_unknown_compile_options_are_refused_before_the_data_is_built(book, options):
    built = len(book["built"])
    with pytest.raises(SettingError) as refused:
        book.handle(compile_options=options)
    check_error(refused.value, "compile_options")
    assert len(book["built"]) == built


# ---- Host fields and frozen modules

BACKBONE = """
class Body(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(3, 3, rngs=rngs)
        self.norm = nnx.BatchNorm(3, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
    def __call__(self, x):
        return self.drop(self.norm(self.linear(x))) * 1.0

body = Body(nnx.Rngs(7))

class Tuned(Tiny):
    body: Device[nnx.Module] = nitro.field(default_factory=lambda: body)
    def forward(self, model, *, x):
        return model(self.body(x))
"""


def test_a_device_module_is_frozen_and_transferred_once():
    book = tiny(BACKBONE)
    handle = book.handle("Tuned", max_steps=3)
    names = handle.built.structure.names
    assert not any("norm" in name or "body" in name for name in names)
    assert len(handle.plan.blueprint.opt_avals) <= len(names)
    before = jax.tree.map(np.array, nnx_arrays(book["body"]))
    run = handle.train(background=True, paused=True)
    try:
        placed = jax.tree.leaves(run._loop.values.fields["body"])
        run.advance(1)
        run.set(smoothing=0.2)
        run.advance(1)
        assert all(
            a is b
            for a, b in zip(
                placed, jax.tree.leaves(run._loop.values.fields["body"]), strict=True
            )
        )
        assert same(before, nnx_arrays(book["body"]))
        book.cell("other = Body(nnx.Rngs(8))")
        with count_compiles() as count:
            run.set(body=book["other"])
            run.advance(1)
        assert count.nothing
        x = book["ROWS"][0]["x"]
        model, other = run.model(), book["other"]
        other.eval()
        by_hand = np.asarray(model(other(x)))
        outputs = run.handle.predict({"x": x})
        np.testing.assert_allclose(outputs, by_hand, rtol=1e-5, atol=1e-6)
        book.cell(BACKBONE.replace("* 1.0", "* jnp.exp(0.5)").partition("body =")[0])
        again = book.handle("Tuned", fields={"body": book["Body"](nnx.Rngs(9))})
        with count_compiles() as count:
            again.predict({"x": x})
        assert set(count.compiled) == {"eval"}  # its structure is in the key
    finally:
        run.stop()


def nnx_arrays(module):
    return jax.tree.leaves(nnx.state(module, nnx.Any(nnx.Param, nnx.BatchStat)))


HOST = """
class Untouched(np.ndarray):
    '''An array that nothing may read, copy or transfer.'''
    def __array__(self, *given, **named):
        raise AssertionError("it was read")
    def __array_ufunc__(self, *given, **named):
        raise AssertionError("it was computed with")

class Tiny(Tiny):
    corpus: np.ndarray = None
"""


def test_a_host_field_of_any_size_costs_no_compile_and_is_never_read():
    book = tiny(HOST)
    book.train(fields={"corpus": np.zeros(2**17)})
    # Pages that nobody touches take no memory: 1 GB costs nothing unless it is read.
    big = np.lib.stride_tricks.as_strided(np.zeros(1), (2**27,), (0,))
    assert big.nbytes == 2**30
    with count_compiles() as count:
        run = book.train(fields={"corpus": big.view(book["Untouched"])})
    assert count.nothing
    assert run.step == 2
    book.cell("class Tiny(Tiny):\n    smoothing: GraphConst[float] = 0.1")
    with count_compiles() as count:  # the control: this is another program
        book.train(fields={"corpus": big.view(book["Untouched"]), "smoothing": 0.7})
    assert count["loss"]
