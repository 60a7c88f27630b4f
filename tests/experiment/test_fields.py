from __future__ import annotations

import enum
import typing

import jax
import pytest
from cells import Notebook, check_error

import nitro_repl as nitro
from nitro_repl import FieldError
from nitro_repl._experiment.fields import Residency

G, D, H = Residency.GRAPH_CONST, Residency.DEVICE, Residency.HOST


def residencies(cls):
    return {name: field.residency for name, field in cls.__fields__.items()}


class Mode(enum.Enum):
    FAST = 1


class AtModuleLevel(nitro.Experiment):
    """Its annotations are texts: this file has the future import."""

    width: nitro.GraphConst[int] = 3
    mode: nitro.GraphConst[Mode] = Mode.FAST
    rate: nitro.Device[float] = 0.5
    weights: nitro.Device[jax.Array] = nitro.field(default_factory=lambda: [1.0])
    path: str | None = None
    shared: typing.ClassVar[int] = 7
    _private: int = 8


def test_the_marker_decides_where_a_field_lives():
    assert residencies(AtModuleLevel) == {
        "width": G, "mode": G, "rate": D, "weights": D, "path": H,
    }  # fmt: skip
    fields = AtModuleLevel.__fields__
    assert fields["mode"].type is Mode
    assert fields["rate"].type is float
    assert fields["rate"].marker == "Device[float]"
    assert fields["width"].marker == "GraphConst[int]"


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
def test_classes_of_cells_and_of_functions_are_understood(future):
    book = Notebook(
        future
        + """
import enum
import nitro_repl
from nitro_repl import Device as D, Experiment, GraphConst, field

class Mode(enum.Enum):
    A = 1

class InCell(Experiment):
    mode: GraphConst[Mode] = Mode.A
    rate: D[float] = field(0.1, bounds=(0, 1), log=True, doc="how fast")
    size: nitro_repl.GraphConst[int] = 2
    note: str = ""

def make():
    class Local(enum.Enum):
        B = 2

    class InFunction(Experiment):
        mode: GraphConst[Local] = Local.B

    return InFunction, Local

InFunction, Local = make()
"""
    )
    assert residencies(book["InCell"]) == {"mode": G, "rate": D, "size": G, "note": H}
    rate = book["InCell"].__fields__["rate"]
    assert (rate.bounds, rate.log, rate.doc) == ((0, 1), True, "how fast")
    assert book["InFunction"].__fields__["mode"].type is book["Local"]


def test_a_type_that_cannot_be_read_matters_only_beside_a_marker():
    future = "from __future__ import annotations\nimport nitro_repl as nitro\n"
    book = Notebook(future + "class Fine(nitro.Experiment):\n    a: Undefined = 3\n")
    assert book["Fine"]().a == 3
    with pytest.raises(FieldError) as error:
        Notebook(
            future
            + "class Wrong(nitro.Experiment):\n    a: nitro.Device[Undefined] = 3\n"
        )
    check_error(error.value, "Undefined", "Wrong.a", "import")


def test_fields_are_inherited_and_overridden():
    class Base(nitro.Experiment):
        width: nitro.GraphConst[int] = 3
        rate: nitro.Device[float] = 0.5

    class Sub(Base):
        width = 5  # a plain value is a new default
        rate: nitro.GraphConst[float] = 0.25  # another marker
        note: str = "new"

    class Mixed(Sub):
        pass

    assert residencies(Sub) == {"width": G, "rate": G, "note": H}
    assert (Sub().width, Sub().rate, Sub().note) == (5, 0.25, "new")
    assert (Base().width, Base().rate) == (3, 0.5)
    assert residencies(Mixed) == residencies(Sub)
    assert Mixed(width=7).width == 7


def test_bases_are_merged_in_the_order_python_looks_them_up():
    class One(nitro.Experiment):
        a: int = 1
        b: int = 1

    class Two(nitro.Experiment):
        b: nitro.Device[float] = 2.0
        c: int = 2

    class Both(One, Two):
        pass

    both = Both()
    assert (both.a, both.b, both.c) == (1, 1, 2)
    assert residencies(Both) == {"a": H, "b": H, "c": H}


def test_field_takes_a_default_or_a_factory_and_an_interval():
    with pytest.raises(FieldError) as error:
        nitro.field(1, default_factory=list)
    check_error(error.value, "default_factory")
    with pytest.raises(FieldError) as error:
        nitro.field(1.0, bounds=(1, 0))
    check_error(error.value, "(1, 0)", "(0, 1)")


def test_a_factory_runs_once_for_each_experiment():
    made = []

    class Made(nitro.Experiment):
        items: list = nitro.field(default_factory=lambda: made.append(1) or [])

    assert not made
    one, two = Made(), Made()
    assert one.items is one.items
    assert one.items is not two.items
    assert len(made) == 2
    assert Made(items=[3]).items == [3]
    assert len(made) == 2


def test_each_experiment_has_a_default_of_its_own():
    class Sizes(nitro.Experiment):
        sizes: nitro.GraphConst[list] = [64, 64]  # noqa: RUF012
        groups: dict = {"a": [1], "b": ({2},)}  # noqa: RUF012
        names: nitro.GraphConst[tuple] = ("x", "y")
        late: int = 0

    one, two = Sizes(), Sizes()
    one.sizes.append(8)
    one.groups["a"].append(3)
    one.groups["b"][0].add(5)
    assert one.sizes == [64, 64, 8]
    for other in (two, Sizes()):
        assert other.sizes == [64, 64]
        assert other.groups == {"a": [1], "b": ({2},)}
    assert Sizes.sizes == [64, 64]
    assert one.names is two.names, "what cannot be changed is shared"

    replaced = one.replace(late=1)  # keeps what was changed in it, in its own copy
    assert replaced.sizes == [64, 64, 8]
    replaced.sizes.append(9)
    assert one.sizes == [64, 64, 8]
    assert one.replace(sizes=[1]).sizes == [1]

    class Wider(Sizes):
        sizes = [1, 2]  # noqa: RUF012

    Wider().sizes.append(3)
    assert Wider().sizes == [1, 2]
    given = [5]
    assert Sizes(sizes=given).sizes is given, "what is given is the user's own"
