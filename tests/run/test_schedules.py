from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from cells import check_error, live, losses, tiny

import nitro_repl as nitro
from nitro_repl._run.curve import Curve
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

COSINE = """
class Tiny(Tiny):
    count: Device[int] = 2
    on: Device[bool] = True
    weights: Device[jax.Array] = nitro.field(default_factory=lambda: np.ones(2, "f"))

    def loss(self, logits, *, y):
        value = super().loss(logits * self.weights, y=y) * self.count
        return jnp.where(self.on, value, 0.0)

    def schedules(self):
        return {
            "learning_rate": lambda total: optax.cosine_decay_schedule(0.5, total),
            "smoothing": lambda total: lambda step: 0.001 * (step + 1),
        }
"""
COSINE_AT = optax.cosine_decay_schedule(0.5, 400)


@pytest.fixture(scope="module")
def book():
    return tiny(COSINE)


def scheduled(book, source, **settings):
    """A run of two steps whose `schedules` returns this."""
    book.cell(f"""
class Other(Tiny):
    def schedules(self):
        return {source}
""")
    return book.train("Other", **settings)


def values(run):
    return {row.name: row.value for row in run.status().values}


# ---- curves

OPTAX = {
    "constant_schedule": (0.1,),
    "cosine_decay_schedule": (0.1, 60, 0.1),
    "cosine_onecycle_schedule": (60, 0.1),
    "join_schedules": ([optax.linear_schedule(0.0, 0.1, 20), lambda _: 0.5], [30]),
    "linear_onecycle_schedule": (60, 0.1),
    "linear_schedule": (0.0, 0.1, 40, 7),
    "piecewise_constant_schedule": (0.1, {20: 0.5, 50: 0.1}),
    "piecewise_interpolate_schedule": ("cosine", 0.1, {20: 0.5, 50: 0.1}),
    "polynomial_schedule": (0.1, 0.01, 2, 50),
    "sgdr_schedule": (
        [
            {"init_value": 0.0, "peak_value": 0.1, "decay_steps": 30,
             "warmup_steps": 10, "end_value": 0.0},
            {"init_value": 0.0, "peak_value": 0.05, "decay_steps": 40,
             "warmup_steps": 10, "end_value": 0.0},
        ],
    ),
    "warmup_constant_schedule": (0.0, 0.1, 20),
    "warmup_cosine_decay_schedule": (0.0, 0.1, 20, 60),
    "warmup_exponential_decay_schedule": (0.0, 0.1, 20, 10, 0.5),
    "exponential_decay": (0.1, 10, 0.5, 5, True),
}  # fmt: skip
STEPS = range(72)
NO_CURVES = {"scale_by_schedule", "inject_stateful_hyperparams", "schedules"}


def test_the_table_holds_every_schedule_that_optax_exports():
    names = {n for n in dir(optax) if n.endswith(("schedule", "schedules"))}
    assert names - NO_CURVES <= OPTAX.keys()


@pytest.mark.parametrize("name", OPTAX)
def test_every_schedule_of_optax_is_its_scalar_value_at_every_step(name):
    function = getattr(optax, name)(*OPTAX[name])
    curve = Curve("rate", function)
    found = curve.at(0, 256)[: len(STEPS)]
    expected = np.array([float(function(step)) for step in STEPS])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * 0.5)


def followed(curve, steps=256):
    """The values of so many steps, as a run asks for them."""
    found = []
    while len(found) < steps:
        found += curve.at(len(found), steps).tolist()
    return found


@pytest.mark.parametrize(
    "function",
    [
        lambda step: 0.5 if step < 100 else 0.1,
        lambda step: {0: 1.0, 3: 2.0}.get(step, 0.5),
        lambda step: 0.1 * 0.9 ** (step // 10),
        lambda step: float(np.interp(step, [0, 100], [0, 1])),
        lambda step: jnp.array([1.0, 0.5])[jnp.minimum(step // 128, 1)],
        lambda step: jnp.arange(256)[step],
    ],
    ids=["if", "dict", "power", "interp", "table", "rows"],
)
def test_a_schedule_may_be_any_function_of_the_step(function):
    expected = [float(function(step)) for step in range(256)]
    np.testing.assert_allclose(followed(Curve("rate", function)), expected, 1e-6)


def test_a_function_that_arrays_of_steps_confuse_is_called_with_each_step():
    def confused(step):
        return np.max(step) * 1.0  # one number for all steps of an array

    assert followed(Curve("rate", confused)) == list(map(float, range(256)))


def test_a_table_that_ends_is_followed_to_its_end():
    table = [0.5, 0.4, 0.3]
    curve = Curve("rate", lambda step: table[step])
    assert followed(curve, 3) == table
    with pytest.raises(nitro.HookError) as error:
        curve.at(3, 256)
    check_error(error.value, "rate", "list index out of range")


# ---- in a run


def test_the_history_has_the_value_of_every_step_and_nothing_compiles(
    book, monkeypatch
):
    monkeypatch.setattr("nitro_repl._run.schedules.BLOCK", 16)
    book.train()  # makes the programs
    with live(book, steps=1, max_steps=400) as run:
        with count_compiles() as count:
            run.advance(34)
        assert count.total == 0, count
        rates = run.history()["learning_rate"]
        expected = [float(COSINE_AT(step)) for step in range(35)]
        np.testing.assert_allclose(rates, expected, 1e-6)
        smoothing = run.history()["smoothing"]
        np.testing.assert_allclose(smoothing, 0.001 * np.arange(1, 36), 1e-6)


def test_scheduled_values_are_what_the_programs_compute_with(book):
    run = book.train(max_steps=4)
    history = run.history()
    plain = tiny(COSINE.split("    def schedules", maxsplit=1)[0])
    with live(plain, steps=0) as other:
        for step in range(4):
            rate = float(history["learning_rate"][step])
            other.set(learning_rate=rate, smoothing=float(history["smoothing"][step]))
            other.advance(1)
        assert losses(other) == losses(run)
        assert "smoothing" not in other.history(), "a column of what is scheduled only"


def test_adding_changing_and_dropping_a_schedule_compiles_nothing(book):
    scheduled(book, "{}")
    with count_compiles() as count:
        scheduled(book, '{"learning_rate": 0.25}')
        scheduled(
            book, '{"learning_rate": lambda total: lambda step: 1 / (step + total)}'
        )
        scheduled(book, '{"device": {"count": lambda total: lambda step: step}}')
        scheduled(book, "{}", learning_rate=0.125)
    assert count.nothing, count
    with count_compiles() as count:
        book.train("Other", fields={"width": 5})
    assert count["forward"] == 1, "the control"


def test_a_constant_is_placed_once(book, monkeypatch):
    from nitro_repl._run.live import Values

    taken = []
    follow = Values.follow
    monkeypatch.setattr(
        Values, "follow", lambda self, new: (taken.append(set(new)), follow(self, new))
    )
    run = scheduled(
        book,
        """{"learning_rate": 0.125,
            "smoothing": lambda total: lambda step: 0.5 + step / 8}""",
        max_steps=5,
    )
    assert taken == [{"learning_rate", "smoothing"}, *[{"smoothing"}] * 5]
    assert run.history()["learning_rate"].tolist() == [0.125] * 5
    assert run.history()["smoothing"].tolist() == [0.5, 0.625, 0.75, 0.875, 1.0]


def test_a_value_of_another_type_is_cast(book):
    run = scheduled(
        book,
        """{"count": lambda total: lambda step: step + 0.75,
            "on": lambda total: lambda step: step % 2,
            "learning_rate": lambda total: lambda step: np.float64(step)}""",
        max_steps=3,
    )
    history = run.history()
    assert history["count"].tolist() == [1, 2, 3]
    assert history["on"].tolist() == [0, 1, 0]
    assert (history["loss"] == 0).tolist() == [True, False, True]
    assert values(run)["count"] == 3
    assert values(run)["on"] is False


# ---- set and unset


def test_a_scheduled_value_is_set_with_override_only_and_given_back(book):
    with live(book, steps=5, max_steps=400) as run:
        with pytest.raises(nitro.FieldError) as error:
            run.set(count=3, learning_rate=1e-4)
        check_error(error.value, "`learning_rate`", "override=True", "unset")
        assert values(run)["count"] == 2, "nothing has changed"
        run.set(learning_rate=1e-4, override=True)
        run.advance(3)
        assert "set, not scheduled" in str(run.status())
        run.set(learning_rate=2e-4)  # it is no longer followed
        run.advance(1)
        run.unset("learning_rate")
        assert values(run)["learning_rate"] == pytest.approx(float(COSINE_AT(9)))
        run.advance(2)
        expected = [float(COSINE_AT(step)) for step in range(11)]
        expected[5:9] = [1e-4, 1e-4, 1e-4, 2e-4]
        np.testing.assert_allclose(run.history()["learning_rate"], expected, 1e-6)
        assert "(scheduled)" in str(run.status())
        said = [e["command"] for e in run.journal.entries]
        assert said.count("set") == 2
        assert said.count("unset") == 1
        run.set(count=7)
        run.unset("count")
        assert values(run)["count"] == 2


def test_a_swap_takes_new_schedules_and_keeps_what_was_set(book):
    with live(book, steps=2, max_steps=400) as run:
        run.set(smoothing=0.0, override=True)
        book.cell("""
@Tiny.hook
def schedules(self):
    return {"learning_rate": lambda total: lambda step: (total + step) / 8192,
            "smoothing": lambda total: lambda step: 9.0, "count": 1}
""")
        with count_compiles() as count:
            said = str(run.swap())
            run.advance(2)
        assert count.nothing, count
        assert "schedules: taken" in said
        now = run.history()
        assert now["learning_rate"][2:].tolist() == [402 / 8192, 403 / 8192]
        assert now["smoothing"][2:].tolist() == [0, 0]
        assert now["count"][2:].tolist() == [1, 1]
        run.unset("smoothing")
        run.swap(undo=True)
        run.advance(1)
        assert run.history()["learning_rate"][4] == pytest.approx(float(COSINE_AT(4)))
        assert run.history()["smoothing"][4] == pytest.approx(0.005)
        book.cell("Tiny.schedules = lambda self: {'learning_rat': 1.0}")
        with pytest.raises(nitro.ScheduleError, match="learning_rat"):
            run.swap()
        run.advance(1)
    book.cell(COSINE.replace("(Tiny)", "(Tiny.__base__)"))


# ---- the horizon


def test_the_horizon_is_that_of_the_first_train_unless_it_is_given_again(book):
    book.cell("""
class Total(Tiny):
    def schedules(self):
        return {"smoothing": lambda total: lambda step: total / 64}
""")
    handle = book.handle("Total", max_steps=2)
    run = handle.train(background=False)
    assert handle.train(background=False) is run
    assert run.history()["smoothing"].tolist() == [2 / 64] * 4
    handle.train(background=False, horizon=7)
    assert run.history()["smoothing"].tolist() == [2 / 64] * 4 + [7 / 64] * 2
    (entry,) = [e for e in run.journal.entries if e["command"] == "horizon"]
    assert (entry["before"], entry["after"], entry["step"]) == (2, 7, 4)
    run = book.train("Total", max_steps=None, max_epochs=2)
    assert run.history()["smoothing"].tolist() == [10 / 64] * 10
    with pytest.raises(nitro.ScheduleError) as error:
        handle.train(background=False, horizon=0)
    check_error(error.value, "horizon=0")


@pytest.mark.parametrize(
    "schedule",
    [
        "lambda total: optax.cosine_decay_schedule(0.5, total)",
        "lambda total: lambda step: step / total",
        "lambda total: optax.linear_schedule(0, 1, total // 2)",
    ],
)
def test_a_run_without_an_end_needs_a_horizon(book, schedule, tmp_path):
    book.cell(f"Tiny.schedules = lambda self: {{'learning_rate': {schedule}}}")
    handle = book.handle(run_dir=str(tmp_path))
    with pytest.raises(nitro.ScheduleError) as error:
        handle.train(background=True)
    check_error(error.value, "`learning_rate`", "max_steps", "max_epochs")
    assert not list(tmp_path.iterdir())
    run = handle.train(background=True, paused=True, horizon=10)
    run.advance(1)
    run.stop()
    book.cell("Tiny.schedules = lambda self: {'smoothing': lambda total: lambda s: s}")
    with live(book, steps=1):
        pass
    book.cell(COSINE.replace("(Tiny)", "(Tiny.__base__)"))


# ---- refusals

REFUSED = [
    ("{'learning_rat': 1.0}", ("`learning_rat`", "learning_rate", '{"optimizer"')),
    ("{'device': {'smoothin': 1.0}}", ("`smoothin`", "smoothing", '{"device"')),
    ("{'optimizer': {'smoothing': 1.0}}", ("`smoothing` to schedule in `optimizer`",)),
    ("{'device': {'learning_rate': 1.0}}", ("`learning_rate`", '{"optimizer"')),
    ("{'width': 8}", ("`width`", "GraphConst", "Device[float]")),
    ("{'note': 1}", ("`note`", "Host")),
    ("{'weights': 1.0}", ("`weights`", "no single number")),
    ("{'learning_rate': 'fast'}", ("`learning_rate`", "str", "lambda total")),
    ("{'learning_rate': lambda total: 0.1}", ("not a function of the step", "float")),
    (
        "{'learning_rate': optax.cosine_decay_schedule(1.0, 10)}",
        ("not a function of the step", "lambda total"),
    ),
    ("{'learning_rate': lambda t: lambda s: None}", ("NoneType", "step 0")),
    ("{'learning_rate': lambda t: lambda s: np.ones(2)}", ("(2,)", "step 0")),
    ("{'learning_rate': lambda t: lambda s: float('nan')}", ("nan", "step 0")),
    ("{'smoothing': 1, 'device': {'smoothing': 2}}", ("`smoothing` has two",)),
    ("[1]", ("list", "not a dict")),
]


@pytest.mark.parametrize(("source", "words"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_cannot_be_scheduled_is_refused_before_a_compile(book, source, words):
    with count_compiles() as count, pytest.raises(nitro.ScheduleError) as error:
        scheduled(book, source, max_steps=10)
    check_error(error.value, *words)
    assert count.nothing


def test_a_name_in_both_spaces_needs_its_qualified_form(book):
    book.cell("""
class Both(Tiny):
    learning_rate: Device[float] = 0.5
    def schedules(self):
        return {"learning_rate": 0.25}
""")
    with pytest.raises(nitro.ScheduleError) as error:
        book.train("Both")
    check_error(error.value, '{"device": {"learning_rate"', '{"optimizer": {"learning')
    book.cell("Both.schedules = lambda self: {'optimizer': {'learning_rate': 0.125}}")
    assert book.train("Both").history()["learning_rate"].tolist() == [0.125] * 2


def test_a_schedule_that_fails_on_its_way_stops_the_run_with_its_state(book):
    with pytest.raises(nitro.HookError) as error:
        scheduled(
            book, "{'smoothing': lambda t: lambda s: [.1, .2, .3][s]}", max_steps=9
        )
    check_error(error.value, "smoothing", "list index out of range")
    run = nitro.current()
    assert (run.step, run.phase) == (3, "failed")
    np.testing.assert_allclose(run.history()["smoothing"], [0.1, 0.2, 0.3])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(run.params))


def test_a_setting_that_a_schedule_replaces_is_named(book, capsys):
    scheduled(book, "{'learning_rate': 0.25}", learning_rate=0.75)
    assert "learning_rate=0.75 is not used" in capsys.readouterr().out


def test_a_jitted_helper_of_a_schedule_is_as_it_is_when_the_run_takes_it():
    book = tiny(
        "PEAK = 0.5\n@jax.jit\ndef warm(step):\n    return PEAK / (1 + step)",
        "class Warm(Tiny):\n    def schedules(self):\n"
        "        return {'learning_rate': lambda total: warm}",
    )
    first = book.train("Warm", max_steps=3).history()["learning_rate"]
    np.testing.assert_allclose(first, [0.5, 0.25, 0.5 / 3], rtol=1e-6)
    book.cell("PEAK = 1.0")
    second = book.train("Warm", max_steps=3).history()["learning_rate"]
    np.testing.assert_allclose(second, [1.0, 0.5, 1 / 3], rtol=1e-6)


def test_a_value_whose_schedule_is_swapped_away_stays_in_the_history():
    book = tiny("""
class Tiny(Tiny):
    def schedules(self):
        return {"smoothing": lambda total: lambda step: 0.25 * step}
""")
    with live(book, steps=3, max_steps=400) as run:
        book.cell("@Tiny.hook\ndef schedules(self): return {}")
        run.swap()
        run.advance(2)
        run.set(smoothing=0.125)
        run.advance(1)
        found = run.history()["smoothing"].tolist()
    assert found == [0.0, 0.25, 0.5, 0.5, 0.5, 0.125]


def test_a_swap_that_leaves_schedules_alone_evaluates_none_anew():
    book = tiny(
        "TOP = 0.5",
        "class Tiny(Tiny):\n    def schedules(self):\n        return {'learning_rate': "
        "lambda total: optax.linear_schedule(TOP, 0.0, 100)}",
    )
    with live(book) as run:
        book.cell("@Tiny.hook\ndef train_metrics(self, logits, *, y):\n    return {}")
        with count_compiles() as count:
            run.swap()
        assert not count.others, "nor compiles anything for them"
        book.cell("TOP = 0.25")
        with count_compiles() as count:
            run.swap()
        assert count.others, "another global is another schedule"
        run.advance(1)
        rates = run.history()["learning_rate"]
    np.testing.assert_allclose(rates, [0.5, 0.495, 0.25 * 0.98], rtol=1e-6)
