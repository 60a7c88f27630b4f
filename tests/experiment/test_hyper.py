from __future__ import annotations

import numpy as np
import optax
import pytest
from cells import check_error

from nitro_repl import HookError
from nitro_repl._experiment.hyper import Hyperparameters, transformation


def test_hyperparameters_are_read_by_name():
    hp = Hyperparameters({"learning_rate": 0.5})
    assert hp.learning_rate == 0.5
    with pytest.raises(HookError) as error:
        _ = hp.learning_rat
    check_error(error.value, "`hp.learning_rat`", "optimizer", "learning_rate")


def test_an_optimizer_is_made_of_optax():
    made = transformation(
        lambda hp: optax.sgd(hp.learning_rate), Hyperparameters({"learning_rate": 0.5})
    )
    assert isinstance(made, optax.GradientTransformationExtraArgs)


@pytest.mark.parametrize("returned", [None, 0.5, "adam", object()])
def test_anything_else_is_refused(returned):
    with pytest.raises(HookError) as error:
        transformation(lambda hp: returned, Hyperparameters({}))
    check_error(error.value, "`optimizer` returned", type(returned).__name__, "optax")


@pytest.mark.parametrize("factory", [optax.adam, optax.sgd])
def test_a_bare_factory_is_called_with_the_learning_rate(factory):
    hp = Hyperparameters({"learning_rate": 0.5})
    made = transformation(lambda hp: factory, hp)
    params = {"w": optax.tree.zeros_like({"w": 1.0})["w"]}
    updates, _ = made.update({"w": 1.0}, made.init(params), params)
    assert updates["w"] < 0


def test_accumulation_over_steps_is_taken_as_optax_gives_it():
    made = transformation(
        lambda hp: optax.MultiSteps(optax.sgd(hp.learning_rate), 2),
        Hyperparameters({"learning_rate": 0.5}),
    )
    state = made.init({"w": np.zeros(1)})
    first, state = made.update({"w": np.ones(1)}, state, {"w": np.zeros(1)})
    second, _ = made.update({"w": np.ones(1)}, state, {"w": np.zeros(1)})
    assert (first["w"], second["w"]) == (0, -0.5)
