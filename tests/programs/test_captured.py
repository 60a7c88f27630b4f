# ruff: noqa: E501 (cells read best with one statement a line)
"""Large arrays that a program would hold as constants are told, and nothing else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from cells import Outcomes, by_hand, live, losses, tiny

from nitro_repl._code import arrays
from nitro_repl._code.fingerprint import Fingerprint
from nitro_repl._experiment.view import Reads
from nitro_repl._programs import captured, training
from nitro_repl._programs.key import Source
from nitro_repl._programs.trace import trace

pytestmark = pytest.mark.usefixtures("nothing_told")

FLOATS = 2_500_000  # 10 MB
UNSAMPLED = 1


@pytest.fixture
def nothing_told():
    captured.forget()


def warn(book, capsys, program="loss"):
    """What is told of one program's trace."""
    plan = book.handle().plan.blueprint
    batch = {
        name: jax.ShapeDtypeStruct(array.shape, array.dtype)
        for name, array in sorted(book["ROWS"][0].items())
    }
    if program == "forward":
        spec = training.forward(plan, batch)
    else:
        outputs = jax.ShapeDtypeStruct((4, 2), jnp.float32)
        spec = training.loss(plan, outputs, batch)
    traced = trace(spec.name, spec.function, spec.arguments, Reads())
    source = Source(plan.experiment, plan.hooks, plan.fields)
    found = [source.content(read) for read in traced.reads]
    found += [spec.model()] if spec.model else []
    prints = [content for content in found if isinstance(content, Fingerprint)]
    capsys.readouterr()
    captured.warn_of(spec.name, prints, captured.constants_of(traced.jaxpr))
    return capsys.readouterr().err


def reading(expression, setup=""):
    """A notebook whose loss adds this."""
    return tiny(
        f"""
{setup}
def looked_up(y):
    return {expression}

class Tiny(Tiny):
    def loss(self, logits, *, y):
        return squared_error(logits, y, self.smoothing) + looked_up(y)
"""
    )


TABLE = f"TABLE = np.ones({FLOATS}, np.float32)"


def test_a_captured_array_is_named_with_its_size_and_reader(capsys):
    book = reading("jnp.asarray(TABLE)[y].sum()", TABLE)
    said = warn(book, capsys)
    assert len(said.splitlines()) <= 6
    for words in (
        "`TABLE`", f"float32[{FLOATS}]", "10 MB", "`loss`", "looked_up(), In [5]",
        "loss()", "fix: make it a Device field",
    ):  # fmt: skip
        assert words in said


def test_it_is_told_once_a_program(capsys):
    book = reading("jnp.asarray(TABLE)[y].sum()", TABLE)
    assert warn(book, capsys)
    assert not warn(book, capsys)
    book.cell("TABLE = np.ones(3_000_000, np.float32)")
    assert "3000000" in warn(book, capsys)


@pytest.mark.parametrize(
    ("name", "setup", "expression"),
    [
        ("TABLE", f"TABLE = jnp.ones({FLOATS})", "TABLE[y].sum()"),
        ("TABLE", "TABLE = np.ones((1500, 1000))", "jnp.asarray(TABLE)[y].sum()"),
        ("TABLES", "TABLES = [np.ones((1000, 500 + i), np.float32) for i in range(6)]", "sum(jnp.asarray(t)[y].sum() for t in TABLES)"),
        ("NET", "NET = nnx.Linear(1500, 1500, rngs=nnx.Rngs(0))", "NET(jnp.ones(1500) * y[0]).sum()"),
        ("TABLE", TABLE + "\n@jax.jit\ndef inner(y): return jnp.asarray(TABLE)[y].sum()", "inner(y)"),
        ("default table of sum_up()", TABLE + "\ndef sum_up(y, table=TABLE): return jnp.asarray(table)[y].sum()", "sum_up(y)"),
        ("argument 0 of a partial", TABLE + "\ndef sum_of(table, y): return jnp.asarray(table)[y].sum()\nsum_up = functools.partial(sum_of, TABLE)", "sum_up(y)"),
    ],
    ids=["jax", "double", "list", "module", "jit", "default", "partial"],
)  # fmt: skip
def test_whatever_holds_the_array(name, setup, expression, capsys):
    assert f"`{name}`" in warn(reading(expression, setup), capsys)


def test_the_array_of_a_model_is_named(capsys):
    book = tiny(f"""
{TABLE}
class Net(nnx.Module):
    def __init__(self, rngs): self.a = nnx.Linear(3, 2, rngs=rngs)
    def __call__(self, x): return self.a(x) + jnp.asarray(TABLE)[0]

class Tiny(Tiny):
    def build_model(self, rngs): return Net(rngs)
""")
    said = warn(book, capsys, "forward")
    assert "`TABLE`" in said
    assert "Net.__call__()" in said


def test_a_graph_const_is_named(capsys):
    book = tiny(f"""
{TABLE}
class Tiny(Tiny):
    table: GraphConst[np.ndarray] = nitro.field(default_factory=lambda: TABLE)
    def loss(self, logits, *, y):
        return logits.mean() + jnp.asarray(self.table)[y].sum()
""")
    assert "`GraphConst table`" in warn(book, capsys)


def test_a_constant_that_numpy_computes_is_told(capsys):
    said = warn(reading("jnp.asarray(np.eye(1700, dtype='float32'))[y].sum()"), capsys)
    assert "float32[1700, 1700]" in said
    assert "perhaps" not in said
    said = warn(reading("jnp.asarray(TABLE[1:])[y].sum()", TABLE), capsys)
    assert f"float32[{FLOATS - 1}]" in said
    assert "perhaps from TABLE" in said


SILENT = {
    "a small array": ("jnp.asarray(TABLE)[y].sum()", "TABLE = np.ones(1000)"),
    "one element": ("TABLE[0]", TABLE),
    "what numpy sums up": ("TABLE.sum()", TABLE),
    "held only": ("0.0", TABLE),
}


@pytest.mark.parametrize("name", SILENT)
def test_what_the_program_does_not_hold_is_not_told(name, capsys):
    assert not warn(reading(*SILENT[name]), capsys)


def test_a_device_field_is_not_told(capsys):
    book = tiny(f"""
class Tiny(Tiny):
    table: Device[jax.Array] = nitro.field(default_factory=lambda: jnp.ones({FLOATS}))
    def loss(self, logits, *, y):
        return logits.mean() + self.table[y].sum()
""")
    assert not warn(book, capsys)


def test_a_batch_is_not_told(capsys):
    book = tiny(
        f"ROWS = [dict(row, y=np.zeros({FLOATS}, np.int32)) for row in ROWS]",
        "class Tiny(Tiny):\n  def loss(self, logits, *, y): return logits.mean() + y.sum()",
    )
    assert not warn(book, capsys)


# ---- large arrays in runs


ELEMENT = (f"TABLE[{UNSAMPLED}]", TABLE)


@pytest.fixture
def large_reads(monkeypatch):
    """How often a large array was read."""
    seen = []
    read = arrays._read

    def counted(array):
        if array.nbytes > arrays.LARGE:
            seen.append(array.shape)
        return read(array)

    monkeypatch.setattr(arrays, "_read", counted)
    return seen


def test_a_new_handle_sees_one_element_change_in_place():
    book = reading(*ELEMENT)
    book.train()
    book["TABLE"][UNSAMPLED] = 3.25
    outcomes = Outcomes()
    run = book.train()
    assert set(outcomes.not_hits) == {"loss"}
    assert losses(run) == pytest.approx(by_hand(book))


def test_a_swap_sees_one_element_change_in_place():
    book = reading(*ELEMENT)
    with live(book) as run:
        book["TABLE"][UNSAMPLED] = 4.25
        outcomes = Outcomes()
        run.swap()
        assert set(outcomes.not_hits) == {"loss"}
        before = losses(run)[-1]
        run.advance(1)
        assert losses(run)[-1] > before + 2


def test_stale_does_not_read_a_large_array(large_reads):
    book = reading(*ELEMENT)
    with live(book) as run:
        assert large_reads
        large_reads.clear()
        assert run.stale == ()
        assert large_reads == []
        book["TABLE"][:] += 1
        assert run.stale == ("loss",)
        run.swap()
        assert run.stale == ()
        assert large_reads


def test_an_edit_is_stale_beside_a_large_array(large_reads):
    book = reading(*ELEMENT)
    with live(book) as run:
        large_reads.clear()
        book.cell(f"def looked_up(y): return 2 * TABLE[{UNSAMPLED}]")
        assert run.stale == ("loss",)
        assert large_reads == []


def test_a_static_list_of_a_model_is_read_each_time():
    book = tiny("""
class Net(nnx.Module):
    def __init__(self, rngs):
        self.a = nnx.Linear(3, 2, rngs=rngs)
        self.gains = nnx.static(GAINS)
    def __call__(self, x): return self.a(x) * sum(self.gains)

GAINS = [0.5]

class Tiny(Tiny):
    def build_model(self, rngs): return Net(rngs)
""")
    with live(book) as run:
        assert run.stale == ()
        book["GAINS"].append(0.25)
        assert set(run.stale) >= {"forward", "backward"}
