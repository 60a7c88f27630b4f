"""The optimizer of a run: its numbers are optax's, its rates and decay are live."""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from cells import Notebook, check_error
from counting import count_compiles

import nitro_repl as nitro
from nitro_repl import FieldError, HookError, SettingError

pytestmark = pytest.mark.usefixtures("nothing_known")

SMALL = """
import jax, jax.numpy as jnp, numpy as np, optax
from flax import nnx
import nitro_repl as nitro

ROWS = [{"x": np.arange(6, dtype="float32").reshape(2, 3) / 6 - 0.3}] * 4

class Small(nitro.Experiment):
    strength: nitro.Device[float] = 0.0

    def build_data(self):
        return {"train": ROWS}

    def build_model(self, rngs):
        return nnx.Linear(3, 2, rngs=rngs)

    def forward(self, model, *, x):
        return model(x)

    def loss(self, out):
        return (out ** 2).mean()
"""
SGD = """
class Small(Small):
    def optimizer(self, hp):
        return optax.sgd(hp.learning_rate)
"""
STILL = """
class Small(Small):
    def loss(self, out):
        return 0 * out.sum()
"""
TWO = """
class Small(Small):
    def build_model(self, rngs):
        body, head = nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 2, rngs=rngs)
        return nnx.Dict(body=body, head=head)

    def forward(self, model, *, x):
        return model["head"](nnx.tanh(model["body"](x)))

    def param_group(self, path, leaf):
        return path[0]
"""


def small(*cells):
    return Notebook(SMALL, *cells)


def handle_of(book, **settings):
    return book.handle("Small", max_steps=None, **settings)


def begun(book, **settings):
    """A run that is paused before its first step; the caller stops it."""
    return handle_of(book, **settings).train(background=True, paused=True)


@contextlib.contextmanager
def live_small(book, **settings):
    run = begun(book, **settings)
    try:
        yield run
    finally:
        run.stop()


def loss_of(params, x):
    return jnp.mean((x @ params["kernel"] + params.get("bias", 0)) ** 2)


def expected(book, params, rates, make):
    """Parameters after a step at each rate, by optax alone."""
    x = book["ROWS"][0]["x"]

    @jax.jit
    def step(params, state, rate):
        value, grads = jax.value_and_grad(loss_of)(params, x)
        tx = optax.with_extra_args_support(make(rate))
        updates, state = tx.update(grads, state, params, value=value, grad=grads)
        return optax.apply_updates(params, updates), state

    state = make(rates[0]).init(params)
    for rate in rates:
        params, state = step(params, state, rate)
    return params


def close(got, want, **tolerance):
    tolerance = {"rtol": 1e-5, "atol": 1e-6, **tolerance}
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for one, two in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, two, **tolerance)


# ---- what is optax's


def test_with_no_optimizer_it_is_radam_at_one_thousandth():
    book = small()
    run = begun(book)
    first = run.params
    run.advance(7)
    after = run.params
    assert run.history()["learning_rate"][0] == 1e-3
    run.stop()
    close(after, expected(book, first, [1e-3] * 7, optax.radam))


ALIASES = """
adabelief adadelta adafactor adagrad adam adamax adamaxw adamw adan amsgrad fromage lamb
lars lion noisy_sgd novograd optimistic_adam optimistic_adam_v2
optimistic_gradient_descent polyak_sgd radam rmsprop rprop sgd sign_sgd signum sm3 yogi
"""
CONTRIB = """
acprop ademamix adopt cocob dadapt_adamw dog dowg galore madgrad mechanize momo
momo_adam muon prodigy schedule_free schedule_free_adamw schedule_free_sgd
simplified_ademamix
"""
ALL = """
NAMES = {names!r}.split()

def made(name, rate):
    more = {{"noisy_sgd": {{"key": 0}}, "galore": {{"rank": 2}}}}.get(name, {{}})
    if name == "schedule_free":
        return optax.contrib.schedule_free(optax.sgd(rate), rate)
    if name == "mechanize":
        return optax.contrib.mechanize(optax.sgd(rate))
    return getattr(optax, name, getattr(optax.contrib, name, None))(rate, **more)

class Small(Small):
    def build_model(self, rngs):
        layer = lambda: nnx.Linear(3, 2, use_bias=False, rngs=rngs)
        return nnx.Dict(**{{name: layer() for name in NAMES}})

    def forward(self, model, *, x):
        return [model[name](x) for name in NAMES]

    def loss(self, outs):
        return sum((out ** 2).mean() for out in outs)

    def optimizer(self, hp):
        rules = {{name: made(name, hp.learning_rate) for name in NAMES}}
        return optax.partition(rules, {{name: {{"kernel": name}} for name in NAMES}})
"""


# A first step size; a factor of a size that is found, and as good as zero at first.
NOT_MOVED = {"rprop", "dadapt_adamw", "dog", "mechanize", "prodigy"}


@pytest.mark.filterwarnings("ignore:`optimistic_adam` is deprecated")
@pytest.mark.parametrize("names", [ALIASES, CONTRIB], ids=["optax", "contrib"])
def test_setting_the_rate_of_any_optimizer_compiles_nothing_and_gives_its_numbers(
    names,
):
    book = small(ALL.format(names=names))
    with live_small(book, learning_rate=0.01) as run:
        first = run.params
        run.advance(1)
        with count_compiles() as count:
            run.set(learning_rate=0.3)
            run.advance(1)
        after = run.params
    assert count.nothing
    x = book["ROWS"][0]["x"]

    def total(params):
        return sum(loss_of(own, x) for own in params.values())

    @jax.jit
    def step(params, states, rate):
        value, grads = jax.value_and_grad(total)(params)
        stepped, after = {}, {}
        for name, own in params.items():
            tx = optax.with_extra_args_support(book["made"](name, rate))
            updates, after[name] = tx.update(
                grads[name], states[name], own, value=value, grad=grads[name]
            )
            stepped[name] = optax.apply_updates(own, updates)
        return stepped, after

    def follow(params, rates):
        states = {n: book["made"](n, rates[0]).init(params[n]) for n in params}
        for rate in rates:
            params, states = step(params, states, rate)
        return params

    wanted, control = follow(first, [0.01, 0.3]), follow(first, [0.01, 0.01])
    for name in first:
        close(after[name], wanted[name], rtol=2e-5)
        same = np.allclose(after[name]["kernel"], control[name]["kernel"], rtol=2e-5)
        assert same == (name in NOT_MOVED), name


def test_every_alias_of_optax_that_takes_a_rate_is_in_the_list():
    from optax._src import alias

    found = {
        name
        for name in dir(optax)
        if getattr(getattr(optax, name), "__module__", "") == alias.__name__
        and not isinstance(getattr(optax, name), type)
    }
    assert found - {"lbfgs"} <= set(ALIASES.split())


NOT_AUTOMATIC = {"dpsgd", "sophia"}  # gradients of each sample; the loss as a function


def test_every_optimizer_of_contrib_that_takes_a_rate_is_in_the_list():
    found = {
        name
        for name, factory in vars(optax.contrib).items()
        if callable(factory)
        and not isinstance(factory, type)
        and "learning_rate" in inspect.signature(factory).parameters
        and not name.startswith("scale_by_")
    }
    assert found - NOT_AUTOMATIC <= set(CONTRIB.split())


@pytest.mark.parametrize(
    ("made", "missing"),
    [
        ("optax.lbfgs()", "`value_fn`"),
        ("optax.chain(optax.sgd(1.0), optax.lbfgs())", "`value_fn`"),
        ("optax.contrib.sophia", "`obj_fn`"),
        ("optax.contrib.sophia(hp.learning_rate)", "`obj_fn`"),
    ],
)
def test_a_line_search_is_refused_at_set_up_and_manual_mode_is_named(made, missing):
    book = small(f"class Small(Small):\n    def optimizer(self, hp): return {made}")
    with count_compiles() as count, pytest.raises(HookError) as error:
        handle_of(book)
    check_error(error.value, missing, "line search", "train_step")
    assert count.nothing_of_ours


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("differentially_private_aggregate(1.0, 0.1, key=0)", "batch dimension"),
        ("sam(optax.sgd(0.1), optax.sgd(0.1), opaque_mode=True)", "grad_fn"),
    ],
)
def test_what_optax_refuses_at_its_first_update_is_told_in_its_words(made, words):
    rule = f"def optimizer(self, hp): return optax.contrib.{made}"
    book = small(f"class Small(Small):\n    {rule}")
    with pytest.raises(HookError) as error:
        book.train("Small", max_steps=1)
    check_error(error.value, words, "program `optimizer`")


def test_an_update_that_takes_neither_loss_nor_gradient_gets_none():
    book = small("""
def sharp(rate):
    climb = optax.chain(optax.contrib.normalize(), optax.sgd(0.05))
    return optax.contrib.sam(optax.sgd(rate), climb, sync_period=2)

class Small(Small):
    def optimizer(self, hp):
        return optax.chain(optax.identity(), sharp(hp.learning_rate))
""")
    with live_small(book, learning_rate=0.1) as run:
        first = run.params
        run.advance(4)
        after = run.params

    params, tx = first, book["sharp"](0.1)
    state = tx.init(params)
    for _ in range(4):
        grads = jax.grad(loss_of)(params, book["ROWS"][0]["x"])
        updates, state = tx.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    close(after, params)


def test_value_and_gradient_are_handed_to_every_update():
    book = small("""
class Small(Small):
    def optimizer(self, hp):
        plateau = optax.contrib.reduce_on_plateau(factor=0.5, patience=1, rtol=1.0)
        return optax.chain(optax.sgd(hp.learning_rate), plateau)
""")
    run = begun(book, learning_rate=0.1)
    first = run.params
    run.advance(6)
    after = run.params
    run.stop()

    def make(rate):
        plateau = optax.contrib.reduce_on_plateau(factor=0.5, patience=1, rtol=1.0)
        return optax.chain(optax.sgd(rate), plateau)

    close(after, expected(book, first, [0.1] * 6, make))
    plain = expected(book, first, [0.1] * 6, optax.sgd)
    assert not np.allclose(after["kernel"], plain["kernel"], rtol=1e-3)


# ---- weight decay


def test_decay_is_decoupled_live_and_leaves_vectors_alone():
    book = small(SGD, STILL)
    run = begun(book, learning_rate=0.5, weight_decay=0.2)
    first = run.params
    run.advance(3)
    third = run.params
    with count_compiles() as count:
        run.set(weight_decay=0.4)
        run.advance(2)
    after = run.params
    run.stop()
    assert count.nothing
    close(third["kernel"], first["kernel"] * 0.9**3)
    close(after["kernel"], first["kernel"] * 0.9**3 * 0.8**2)
    assert np.array_equal(after["bias"], first["bias"])


def test_adam_with_the_decay_of_the_run_is_adamw():
    book = small("class Small(Small):\n    def optimizer(self, hp): return optax.adam")
    run = begun(book, learning_rate=0.05, weight_decay=0.3)
    first = run.params
    run.advance(4)
    after = run.params
    run.stop()

    def make(rate):
        mask = {"kernel": True, "bias": False}
        return optax.adamw(rate, weight_decay=0.3, mask=mask)

    close(after, expected(book, first, [0.05] * 4, make))


OWN = {
    "optax.adamw": True,
    "optax.adamw(1.0, mask=lambda p: {'kernel': True, 'bias': False})": True,
    "optax.adamw(optax.linear_schedule(0.0, 0.1, 9))": True,
    "optax.chain(optax.add_decayed_weights(0.1), optax.sgd(hp.learning_rate))": True,
    "optax.MultiSteps(optax.adamw(hp.learning_rate), 3)": True,
    "optax.lamb(hp.learning_rate, weight_decay=0.1)": True,
    "optax.adafactor(hp.learning_rate, weight_decay_rate=0.1)": True,
    "optax.chain(optax.adam(1.0), optax.add_decayed_weights(self.strength))": True,
    "optax.lamb": False,
    "optax.adafactor": False,
    "optax.noisy_sgd(hp.learning_rate, key=0)": False,
    "optax.adamw(hp.learning_rate, weight_decay=0.0)": False,
    "optax.MultiSteps(optax.adam(hp.learning_rate), 3)": False,
}


@pytest.mark.parametrize(("made", "own"), OWN.items(), ids=lambda v: str(v)[:40])
def test_decay_is_composed_once(made, own):
    book = small(f"class Small(Small):\n    def optimizer(self, hp): return {made}")
    assert handle_of(book).plan.values.hyper["weight_decay"] == 0
    if not own:
        assert (
            handle_of(book, weight_decay=0.1).plan.values.numbers["weight_decay"] == 0.1
        )
        return
    with count_compiles() as count, pytest.raises(HookError) as error:
        handle_of(book, weight_decay=0.1)
    check_error(error.value, "pulled twice", "optax.adam", "weight_decay=0")
    assert count.nothing_of_ours


def test_a_decay_of_its_own_is_also_refused_on_a_live_run():
    book = small("class Small(Small):\n    def optimizer(self, hp): return optax.adamw")
    with live_small(book) as run:
        with pytest.raises(HookError) as error:
            run.set(weight_decay=0.1, strength=3.0)
        check_error(error.value, "pulled twice")
        assert run._loop.values.plain()["strength"] == 0.0
        run.advance(1)


def test_an_optimizer_that_reads_the_decay_applies_it_alone():
    cell = """
class Small(Small):
    def optimizer(self, hp):
        return optax.adamw(hp.learning_rate, weight_decay=hp.weight_decay)
"""
    book = small(cell)
    with live_small(book, learning_rate=0.05, weight_decay=0.3) as run:
        first = run.params
        run.advance(2)
        after = run.params
    make = lambda rate: optax.adamw(rate, weight_decay=0.3)  # noqa: E731
    close(after, expected(book, first, [0.05] * 2, make))
    book.cell("@Small.hook\ndef decay_anchor(self): return 'initial'")
    with pytest.raises(HookError) as error:
        handle_of(book)
    check_error(error.value, "hp.weight_decay", "`decay_anchor` would have no effect")


def test_decay_pulls_toward_the_initial_weights_or_a_tree():
    anchor = {"kernel": np.full((3, 2), 2.0, "float32")}
    book = small(SGD, STILL)
    start = {"kernel": np.ones((3, 2), "float32"), "bias": np.ones(2, "float32")}
    book.names["anchor"] = anchor
    module = "nnx.Linear(3, 2, rngs=nnx.Rngs(7))"
    for said in ("'initial'", "anchor", "{'default': anchor}", module):
        book.cell(f"@Small.hook\ndef decay_anchor(self): return {said}")
        with live_small(book, learning_rate=0.5, weight_decay=0.2) as run:
            toward = run.params if said == "'initial'" else anchor
            if said is module:
                toward = {"kernel": np.asarray(eval(module, book.names).kernel[...])}
            run.load(start)
            run.advance(4)
            got = run.params
        away = 0.9**4 * (start["kernel"] - toward["kernel"])
        close(got["kernel"], toward["kernel"] + away)
        assert np.array_equal(got["bias"], start["bias"])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("3", ("`decay_anchor` returned 3", "initial")),
        ("'first'", ("'first'", "zero")),
        ("{'hed': 'zero'}", ("`hed`", "no group", "default")),
        ("{'kernel': np.ones(3)}", ("`kernel`", "(3,)", "(3, 2)")),
        ("{'bias': np.ones(2)}", ("nothing for `kernel`", "no_decay")),
    ],
)
def test_an_anchor_that_does_not_fit_is_refused(said, words):
    book = small(f"class Small(Small):\n    def decay_anchor(self): return {said}")
    with pytest.raises(HookError) as error:
        handle_of(book)
    check_error(error.value, *words)


# ---- groups


def test_rates_of_groups_are_absolute_and_follow_the_base():
    book = small(TWO, SGD)
    with live_small(book, learning_rate={"body": 0.2, "head": 0.02}) as run:
        numbers = run._loop.values.numbers
        assert (numbers["learning_rate"], numbers["head.learning_rate"]) == (0.2, 0.02)
        assert step_of(run)[0] == pytest.approx((0.2, 0.02), rel=1e-4)
        with count_compiles() as count:
            run.set(learning_rate=0.4)
            assert step_of(run)[0] == pytest.approx((0.4, 0.04), rel=1e-4)
            run.set({"head.learning_rate": 0.4})
            assert step_of(run)[0] == pytest.approx((0.4, 0.4), rel=1e-4)
            run.set(learning_rate=0)
            assert step_of(run)[0] == (0, 0)
            run.set(learning_rate=0.1)
            assert step_of(run)[0] == pytest.approx((0.1, 0.1), rel=1e-4)
            run.set({"learning_rate": 0.2, "head.learning_rate": 0.1})
            run.unset("learning_rate")
        assert count.nothing_of_ours
        assert run._loop.values.numbers["head.learning_rate"] == 0.1
        with pytest.raises(FieldError) as error:
            run.set({"hed.learning_rate": 0.1})
        check_error(error.value, "`hed.learning_rate`", "head.learning_rate")
        run.set(learning_rate=0)
        with pytest.raises(FieldError) as error:
            run.set({"head.learning_rate": 0.1})
        check_error(error.value, "ratio", "learning_rate is 0")
        assert "head.learning_rate" in run.history()


def step_of(run):
    """How far each group moved along its gradient in a step, and the step."""
    before = run.params
    run.advance(1)
    after = run.params
    x = np.arange(6, dtype="float32").reshape(2, 3) / 6 - 0.3

    def loss(params):
        hidden = jnp.tanh(x @ params["body"]["kernel"] + params["body"]["bias"])
        return jnp.mean(
            (hidden @ params["head"]["kernel"] + params["head"]["bias"]) ** 2
        )

    grads = jax.grad(loss)(before)
    moved = jax.tree.map(lambda a, b: a - b, before, after)

    def rate(group):
        top = sum((m * g).sum() for m, g in pairs(moved[group], grads[group]))
        return float(top / sum((g * g).sum() for g in jax.tree.leaves(grads[group])))

    return (rate("body"), rate("head")), (moved, grads)


def pairs(one, two):
    return zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)


def test_each_group_is_as_optax_partitions_it():
    book = small(
        TWO, "class Small(Small):\n    def optimizer(self, hp): return optax.adam"
    )
    rates = {"body": 0.2, "head": 0.02}
    with live_small(book, learning_rate=rates, weight_decay={"head": 0.1}) as run:
        first = run.params
        grads = []
        for _ in range(3):
            _, (_, made) = step_of(run)
            grads.append(made)
        after = run.params
    mask = {name: {"kernel": True, "bias": False} for name in rates}
    head = optax.adamw(0.02, weight_decay=0.1, mask=mask)
    labels = {name: {"kernel": name, "bias": name} for name in rates}
    tx = optax.partition({"body": optax.adam(0.2), "head": head}, labels)
    params, state = first, tx.init(first)
    for made in grads:
        updates, state = tx.update(made, state, params)
        params = optax.apply_updates(params, updates)
    close(after, params, rtol=1e-4, atol=1e-5)


def test_a_schedule_of_the_base_moves_all_groups():
    book = small(
        TWO,
        SGD,
        """
class Small(Small):
    def schedules(self):
        return {
            "learning_rate": lambda total: optax.linear_schedule(0.0, 0.4, 4),
            "optimizer": {"wide": {"learning_rate": lambda total: lambda step: 0.3}},
        }

    def param_group(self, path, leaf):
        return "wide" if path == ("body", "kernel") else path[0]
""",
    )
    rates = {"default": 0.2, "head": 0.02}
    with live_small(book, learning_rate=rates) as run:
        run.advance(2)
        run.set({"head.learning_rate": 0.2})
        run.set(learning_rate=0.1, override=True)
        run.advance(1)
        run.unset("learning_rate")
        run.advance(2)
        rows = run.history()
    np.testing.assert_allclose(
        rows["learning_rate"], [0, 0.1, 0.1, 0.3, 0.4], rtol=1e-6
    )
    want = [0, 0.01, 0.1, 0.3, 0.4]  # its ratio is 2 when set: the base is 0.1 then
    np.testing.assert_allclose(rows["body.learning_rate"], [0, 0.1, 0.1, 0.3, 0.4])
    np.testing.assert_allclose(rows["head.learning_rate"][:2], want[:2], rtol=1e-6)
    np.testing.assert_allclose(
        rows["head.learning_rate"][2:], [0.2, 0.6, 0.8], rtol=1e-6
    )
    np.testing.assert_allclose(rows["wide.learning_rate"], 0.3, rtol=1e-6)


def test_a_group_made_on_a_live_run_goes_with_the_live_rate():
    book = small(
        TWO, SGD, "@Small.hook\ndef param_group(self, path, leaf): return 'default'"
    )
    with live_small(book, learning_rate=0.2, weight_decay=0.0) as run:
        run.set(learning_rate=0.4)
        book.cell("@Small.hook\ndef param_group(self, path, leaf): return path[0]")
        run.swap()
        assert run._loop.values.numbers["head.learning_rate"] == 0.4
        assert step_of(run)[0] == pytest.approx((0.4, 0.4), rel=1e-4)


GROUPS = [
    "path[0]",
    "'kernels' if path[-1] == 'kernel' else 'default'",
    "'head' if path == ('body', 'bias') else 'rest'",
    "'default'",
]


def test_each_parameter_keeps_its_moments_and_its_count_in_other_groups():
    adam = "class Small(Small):\n    def optimizer(self, hp): return optax.adam"
    kept, groups = small(TWO, adam), small(TWO, adam)
    for book in (kept, groups):
        book.cell("@Small.hook\ndef param_group(self, path, leaf): return 'default'")
    with live_small(kept, learning_rate=0.05) as run:
        run.advance(10)
        expected = run.params
    with live_small(groups, learning_rate=0.05) as run:
        run.advance(2)
        for said in GROUPS:
            groups.cell(
                f"@Small.hook\ndef param_group(self, path, leaf): return {said}"
            )
            told = str(run.swap())
            assert "fresh: nothing" in told, told
            run.advance(2)
        close(run.params, expected, rtol=1e-6, atol=1e-7)
        opt = run._worker.look(lambda loop: loop.carry.opt)
        counts = [int(leaf) for leaf in opt if leaf.dtype == np.int32]
        assert counts == [10]
        with count_compiles() as count:
            run.swap(undo=True)
            run.advance(1)
        assert count.nothing_of_ours


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learning_rate": {"hed": 0.1}}, ("`hed`", "head")),
        (
            {"learning_rate": {"default": 0, "head": 0.1}},
            ("head.learning_rate", "base"),
        ),
        ({"learning_rate": {"head": "fast"}}, ("`learning_rate`", "'fast'")),
        ({"weight_decay": None}, ("`weight_decay`", "None")),
        ({"clip_norm": -1}, ("clip_norm=-1", "above 0")),
        ({"clip_norm": "1"}, ("clip_norm='1'", "above 0")),
        ({"ema": 1.0}, ("ema=1.0", "below 1")),
        ({"ema": True}, ("ema=True", "below 1")),
    ],
    ids=str,
)
def test_a_setting_that_makes_no_sense_is_refused(settings, words):
    with pytest.raises(SettingError) as error:
        handle_of(small(TWO), **settings)
    check_error(error.value, *words)


@pytest.mark.parametrize(
    ("hook", "said"), [("param_group", "1"), ("frozen", "None"), ("no_decay", "'x'")]
)
def test_a_hook_that_says_no_group_or_truth_is_refused(hook, said):
    cell = f"class Small(Small):\n    def {hook}(self, path, leaf): return {said}"
    with pytest.raises(HookError) as error:
        handle_of(small(cell))
    check_error(error.value, f"`{hook}` returned {said}", "bias")


# ---- clipping


@pytest.mark.parametrize("fuse", [False, True])
def test_clipping_is_global_before_any_group(fuse):
    book = small(TWO, SGD)
    with live_small(book, learning_rate=1.0, clip_norm=0.01, fuse=fuse) as run:
        first = run.params
        run.advance(1)
        moved = [a - b for a, b in pairs(first, run.params)]
        norm = float(np.sqrt(sum((m**2).sum() for m in moved)))
        assert norm == pytest.approx(0.01, rel=1e-3)
        assert run.history()["grad_norm"][0] > 0.02  # as it was before


def test_what_is_not_asked_for_is_not_in_the_program():
    from nitro_repl._programs.update import Update

    handle = handle_of(small(SGD))
    plan = handle.plan.blueprint

    def text(recipe):
        hyper = {"learning_rate": 0.1, "weight_decay": 0.0}
        make = lambda hp: optax.sgd(hp.learning_rate)  # noqa: E731
        update = Update(plan.structure, recipe, make, hyper)
        leaves = [jnp.zeros(a.shape) for a in plan.structure.param_avals]
        state = update.initial(leaves)

        def moved(params, norm):
            return update(params, recipe.trained(params), state, norm, norm)

        return str(jax.make_jaxpr(moved)(leaves, 1.0))

    plain = text(plan.recipe)
    assert "select" not in plain
    assert " lt " not in plain
    clipped = text(replace(plan.recipe, clip_norm=1.0))
    assert "select" in clipped
    assert " lt " in clipped
    assert len(text(replace(plan.recipe, frozen=(True, False)))) < len(plain)


# ---- what an edit compiles


@pytest.mark.parametrize("fuse", [False, True])
def test_an_edit_compiles_only_what_it_is_about(fuse):
    book = small(
        TWO, SGD, "class Small(Small):\n    def optimizer(self, hp): return optax.adam"
    )
    rest = {"step"} if fuse else {"optimizer"}
    all_ = {"step"} if fuse else {"forward", "backward", "optimizer"}
    edits = [
        ("clip_norm(self): return 1.0", rest),
        ("decay_anchor(self): return 'initial'", rest),
        ("no_decay(self, path, leaf): return path[-1] == 'bias'", set()),
        ("no_decay(self, path, leaf): return False", rest),
        ("ema(self): return 0.9", rest),
        ("learning_rate(self): return 0.3", set()),
        ("weight_decay(self): return 0.3", set()),
        ("param_group(self, path, leaf): return str(path[0])", set()),
        ("frozen(self, path, leaf): return path[0] == 'body'", all_),
    ]  # fmt: skip
    edits = edits[::4] if fuse else edits
    with live_small(book, fuse=fuse) as run:
        run.advance(1)
        for edit, programs in edits:
            book.cell(f"@Small.hook\ndef {edit}")
            assert set(run.stale) == programs, edit
            with count_compiles() as count:
                said = run.swap()
            assert set(count.compiled) == programs, (edit, said)
            with count_compiles() as count:
                run.advance(1)
            assert count.nothing_of_ours
        assert "frozen of 2 parameters" in str(nitro.programs.why())
        assert run.step == 1 + len(edits)
