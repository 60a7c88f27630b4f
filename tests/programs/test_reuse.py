# ruff: noqa: E501 (cells read best with one statement a line)
"""What must not compile, each with a control that must."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cells import LOSS, TINY, Outcomes, live, losses, same, tiny
from counting import count_compiles

import nitro_repl as nitro

pytestmark = pytest.mark.usefixtures("nothing_known")

TRAIN = ("forward", "loss", "backward", "optimizer")


@pytest.fixture(scope="module")
def book(nothing_known):
    """A notebook whose programs are compiled, in train and in eval."""
    book = tiny()
    book.train().handle.validate()
    return book


def train_and_validate(book, fields=None, **settings):
    run = book.train("Tiny", fields, **settings)
    return losses(run), run.handle.validate()["val_loss"]


# ---- nothing compiles


def test_setting_a_device_field_and_the_learning_rate_compiles_nothing(book):
    def change():
        run.set(smoothing=0.3)
        run.set(learning_rate=0.01)
        run.advance(2)

    with live(book) as run:
        before = run.params
        with count_compiles() as count:
            change()
        assert count.nothing_of_ours, count
        with count_compiles() as count:
            change()
            after = run.params
        assert count.total == 0, count
        assert not same(before, after), "the steps were made"
        rates = run.history()["learning_rate"]
    assert rates.tolist() == pytest.approx([0.5, 0.5, 0.01, 0.01, 0.01, 0.01])


def test_a_set_value_changes_the_numbers_of_the_very_next_step(book):
    def third_loss(**values):
        with live(book) as run:
            if values:
                run.set(**values)
            run.advance(2)
            return losses(run)[2:]

    same_as_ever = third_loss()
    assert third_loss(smoothing=0.3)[0] != same_as_ever[0]
    slower = third_loss(learning_rate=0.0)
    assert slower[0] == same_as_ever[0], "the rate acts on the update of this step"
    assert slower[1] != same_as_ever[1]


@pytest.mark.parametrize(
    "one",
    [1, 1.0, True, np.float32(1), np.float64(1), np.int64(1), np.array(1.0)],
    ids=lambda v: f"{type(v).__name__}",
)
def test_any_spelling_of_a_number_is_the_same_input(book, one):
    with live(book) as run:
        expected = run.status().values
        run.set(smoothing=1.0)
        run.advance(1)
        with count_compiles() as count:
            run.set({"smoothing": one, "learning_rate": one})
            run.set(smoothing=jnp.float32(1), learning_rate=jnp.asarray(1.0))
            run.advance(1)
        assert count.nothing_of_ours, count
        assert {row.name: row.value for row in run.status().values} == {
            **{row.name: row.value for row in expected},
            "smoothing": 1.0,
            "learning_rate": 1.0,
        }


@pytest.mark.parametrize(
    ("fields", "settings"),
    [({"note": "another"}, {}), ({}, {"seed": 7}), ({}, {"learning_rate": 0.125})],
    ids=["host field", "seed", "learning rate"],
)
def test_a_new_handle_with_another(book, fields, settings):
    with count_compiles() as count:
        first = train_and_validate(book, fields, **settings)
    assert count.nothing_of_ours, count
    with count_compiles() as count:
        second = train_and_validate(book, fields, **settings)
    assert count.total == 0, count
    assert first == second
    assert (first == train_and_validate(book)) is (fields != {}), "only Host is inert"


def test_running_unchanged_cells_again_compiles_nothing(book):
    expected = train_and_validate(book)
    for _ in range(2):
        with count_compiles() as count:
            book.cell(LOSS)
            book.cell(TINY)
            found = train_and_validate(book)
        assert count.nothing_of_ours, count
    assert count.total == 0, count
    assert found == expected


def test_running_an_unchanged_cell_again_and_swapping_compiles_nothing(book):
    with live(book) as run:
        for _ in range(2):
            with count_compiles() as count:
                book.cell(TINY)
                assert run.stale == ()
                run.swap()
                run.advance(1)
            assert count.nothing_of_ours, count
        assert count.total == 0, count


def test_a_comment_a_docstring_and_a_renamed_local_compile_nothing(book):
    expected = train_and_validate(book)
    with count_compiles() as count:
        edited = LOSS.replace("wrong", "w").replace("):\n", '):\n    "Doc."\n    # x\n')
        assert edited.count('"Doc."') == 1
        book.cell("\n\n" + edited)
        found = train_and_validate(book)
        book.cell(LOSS)
    assert count.nothing_of_ours, count
    assert found == expected


def test_loading_parameters_compiles_nothing(book):
    with live(book) as run:
        for weights in (run.params, run.model()):
            run.load(weights)
            run.advance(1)
            with count_compiles() as count:
                run.load(weights)
                run.advance(1)
            assert count.nothing_of_ours, count


def test_undoing_a_swap_compiles_nothing(book):
    with live(book) as run:
        run.swap(loss=lambda self, logits, *, y: (logits**2).mean())
        with count_compiles() as count:
            run.swap(undo=True)
            run.advance(1)
        assert count.nothing_of_ours, count


# ---- controls: what must compile, and only that

CONTROLS = {
    "a loss constant": (
        LOSS.replace(".mean()", ".mean() * 0.17"), {}, {"loss"},
    ),
    "the optimizer": (
        TINY.replace("optax.sgd(hp.learning_rate)", "optax.sgd(hp.learning_rate * 1.7)"),
        {}, {"optimizer"},
    ),
    "forward": (
        TINY.replace("return model(x)", "return jnp.sinh(model(x))"), {},
        {"forward", "backward", "eval"},
    ),
    "the model": (
        TINY.replace("nnx.relu", "nnx.tanh"), {}, {"forward", "backward", "eval"},
    ),
    "a GraphConst of the model": (
        "", {"width": 5}, {"forward", "backward", "optimizer", "eval"},
    ),
    "train_metrics": (
        TINY + "    def train_metrics(self, logits): return {'m': logits.max()}\n",
        {}, {"loss"},
    ),
    "the batch shape": (
        "ROWS = [{k: v[:3] for k, v in row.items()} for row in ROWS]", {},
        {"forward", "backward", "loss", "eval"},
    ),
    "a batch dtype": (
        "ROWS = [{**row, 'y': row['y'].astype('int8')} for row in ROWS]", {}, {"loss"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTROLS)
def test_editing_compiles_exactly_the_programs_that_hold_it(book, name):
    edit, fields, expected = CONTROLS[name]
    edited = tiny(edit)
    outcomes = Outcomes()
    with count_compiles() as count:
        first = train_and_validate(edited, fields)
    assert set(count.compiled) == expected, count
    assert outcomes.not_hits == dict.fromkeys(expected, "compiled")
    assert set(outcomes.worst) == {*TRAIN, "eval"}
    with count_compiles() as count:
        second = train_and_validate(edited, fields)
    assert count.nothing_of_ours, "the edited programs are known now"
    assert first == second


WITH_CONSTANTS = """
import dataclasses, enum

class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"

@dataclasses.dataclass
class Scale:
    up: float = 2.0

class Tiny(Tiny):
    numbers: GraphConst[list] = [1.0, 2.0]
    named: GraphConst[dict] = {"a": 0.5}
    mode: GraphConst[Mode] = Mode.MEAN
    scale: GraphConst[Scale] = Scale()
    array: GraphConst[np.ndarray] = np.arange(2.0)
    offsets: Device[jax.Array] = nitro.field(default_factory=lambda: np.zeros(2, "f"))

    def loss(self, logits, *, y):
        logits = logits * sum(self.numbers) + self.named["a"] * self.scale.up
        logits = logits + self.array + self.offsets
        losses = (logits - jax.nn.one_hot(y, 2)) ** 2
        return losses.sum() if self.mode is Mode.SUM else losses.mean()
"""
EQUAL = """
equal = dict(
    numbers=[1.0, 2.0], named={"a": 0.5}, mode=Mode.MEAN, scale=Scale(2.0),
    array=np.arange(2.0), offsets=np.ones(2),
)
"""
OTHER = {
    "numbers": "[1.0, 2.5]",
    "named": '{"a": 0.75}',
    "mode": "Mode.SUM",
    "scale": "Scale(up=5.0)",
    "array": "np.arange(2.0) + 1",
    "offsets": "np.zeros((4, 2), 'f')",  # another shape
}


@pytest.fixture(scope="module")
def constants(nothing_known):
    book = tiny(WITH_CONSTANTS, EQUAL)
    book.train()
    return book


def test_a_graph_const_compares_by_content(constants):
    with count_compiles() as count:
        constants.train(fields=constants["equal"])
        constants.cell(WITH_CONSTANTS)  # enum and dataclass are other classes now
        constants.cell(EQUAL)
        constants.train(fields=constants["equal"])
    assert count.nothing_of_ours, nitro.programs.why()


@pytest.mark.parametrize("name", OTHER)
def test_another_value_compiles_the_program_that_reads_it_once(constants, name):
    constants.cell(f"other = {OTHER[name]}")
    fields = {name: constants["other"]}
    with count_compiles() as count:
        constants.train(fields=fields)
    assert set(count.traced) == {"loss"}, count
    # A float that a case before has changed is an input by now.
    assert count.compiled in ({"loss": 1}, {}), count
    assert count.compiled or name in ("named", "scale"), count
    with count_compiles() as count:
        constants.train(fields=fields)
        constants.train()
    assert count.nothing_of_ours, count


def test_a_graph_const_changed_in_place_is_noticed(constants):
    fields = {"numbers": [4.0, 5.0]}
    before = losses(constants.train(fields=fields))
    fields["numbers"][1] = 6.0
    with count_compiles() as count:
        after = losses(constants.train(fields=fields))
    assert set(count.traced) == {"loss"}, count
    assert before != after


@pytest.mark.usefixtures("book")  # the other programs are known
def test_state_that_begins_as_a_python_number_compiles_once():
    book = tiny("""
class Tiny(Tiny):
    def optimizer(self, hp):
        def update(grads, state, params=None):
            step = jax.tree.map(lambda g: -hp.learning_rate * g * state["scale"], grads)
            return step, {"count": state["count"] + 1, "scale": state["scale"]}
        begin = lambda params: {"count": 0, "scale": 0.5}
        return optax.GradientTransformation(begin, update)
""")
    with count_compiles() as count:
        book.train(max_steps=4)
    assert dict(count.compiled) == {"optimizer": 1}, count


def test_parameters_that_share_one_buffer_train_apart():
    book = tiny("""
class Pair(nnx.Module):
    def __init__(self, rngs):
        self.one = nnx.Linear(3, 2, rngs=rngs)
        self.two = nnx.clone(self.one)
        self.kept = nnx.Variable(self.one.kernel[...])

    def __call__(self, x):
        return self.one(x) - 2 * self.two(x) + x @ self.kept[...]

class Tiny(Tiny):
    def build_model(self, rngs):
        model = Pair(rngs)
        model.two.kernel[...] = model.one.kernel[...]
        return model
""")
    run = book.train(max_steps=5)
    params = run.params
    assert not same(params["one"], params["two"])
    start = Outcomes()
    kept = run.model().kept[...]
    again = book["Tiny"]().build_model(nitro_rngs())
    assert same(kept, again.kept[...]), "what is no parameter stays"
    assert start.worst == {}


def nitro_rngs():
    from flax import nnx

    return nnx.Rngs(0)


def test_a_setting_of_jax_is_part_of_the_key(book):
    with jax.default_matmul_precision("float32"), count_compiles() as count:
        book.train()
    assert set(count.compiled) >= {"forward", "backward"}, count
    with jax.default_matmul_precision("float32"), count_compiles() as count:
        book.train()
    assert count.nothing_of_ours, count
    with count_compiles() as count:
        book.train()
    assert count.nothing_of_ours, count


def test_a_custom_rule_in_forward_leaves_backward_a_hit():
    rule = """
@jax.custom_vjp
def scaled(x):
    return x * 1.5

def keep(x):
    return scaled(x), None

def give(_, cotangent):
    return (cotangent * 2.5,)

scaled.defvjp(keep, give)
"""
    hook = """
class Tiny(Tiny):
    def forward(self, model, *, x):
        return scaled(model(x))
"""
    book = tiny(rule, hook)
    before = losses(book.train())
    book.cell(rule)
    book.cell(hook)
    outcomes = Outcomes()
    assert losses(book.train()) == before
    assert outcomes.not_hits == {}
    book.cell(rule.replace("2.5", "3.5"))
    book.cell(hook)
    outcomes = Outcomes()
    edited = losses(book.train())
    assert set(outcomes.not_hits) == {"forward", "backward"}
    assert edited[1] != pytest.approx(before[1], rel=1e-4), (
        "the rule is in the gradient"
    )
