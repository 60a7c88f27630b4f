from __future__ import annotations

import numpy as np
import pytest
from cells import check_error, going, losses, tiny

import nitro_repl as nitro
from nitro_repl import SettingError
from nitro_repl._run.settings import every


def test_a_keyword_wins_over_the_experiment_which_wins_over_the_default():
    book = tiny("""
class Tiny(Tiny):
    max_steps: int = 7
    seed: int = 3

    def log_every(self):
        return self.max_steps - 2
""")
    handle = nitro.Nitro(book["Tiny"](max_steps=6), run_dir=None, logger=None)
    assert handle.settings["max_steps"] == 6
    assert handle.settings["log_every"] == 4
    assert handle.settings["seed"] == 3
    assert handle.settings["eval_every"] == "1 epoch"
    handle = book.handle(max_steps=5, seed=1)
    assert (handle.settings["max_steps"], handle.settings["seed"]) == (5, 1)
    assert handle.settings["log_every"] == 5, "from the field, not from the keyword"


def test_the_learning_rate_is_a_keyword_a_field_or_a_hook():
    rate = {
        "hook": tiny().handle(),
        "keyword": tiny().handle(learning_rate=0.25),
        "host": tiny("class Tiny(Tiny):\n    learning_rate: float = 0.125\n").handle(),
        "device": tiny(
            "class Tiny(Tiny):\n    learning_rate: Device[float] = 0.0625\n"
        ).handle(),
    }
    found = {
        name: handle.train(background=True, paused=True)
        for name, handle in rate.items()
    }
    for run in found.values():
        run.advance(1)
        run.set(learning_rate=0.0)
        run.advance(1)
        run.stop()
    rates = {
        name: run.history()["learning_rate"].tolist() for name, run in found.items()
    }
    assert rates == {
        "hook": [0.5, 0.0],
        "keyword": [0.25, 0.0],
        "host": [0.125, 0.0],
        "device": [0.0625, 0.0],
    }


def test_the_seed_decides_the_model_and_the_run():
    book = tiny()
    one, two = losses(book.train(seed=1)), losses(book.train(seed=2))
    assert one != two
    assert losses(book.train(seed=1)) == one


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_step": 3}, ("`max_step`", "max_steps")),
        ({"max_steps": -1}, ("max_steps", "-1")),
        ({"max_steps": 1.5}, ("max_steps", "1.5")),
        ({"max_epochs": "3"}, ("max_epochs", "'3'")),
        ({"log_every": 0}, ("log_every", "0")),
        ({"seed": None}, ("seed", "None")),
        ({"seed": True}, ("seed", "True")),
        ({"eval_every": "sometimes"}, ("eval_every", "sometimes", "1 epoch")),
        ({"eval_every": 0}, ("eval_every", "0")),
        ({"checkpointer": object()}, ("checkpoint",)),
        ({"fuse": 1}, ("fuse", "True")),
        ({"logger": object()}, ("logger", "log_metrics")),
        ({"learning_rate": "fast"}, ("learning_rate", "'fast'")),
        ({"learning_rate": None}, ("learning_rate", "None")),
        ({"pad_eval": "no"}, ("pad_eval", "'no'")),
    ],
)
def test_a_setting_is_refused(settings, words):
    with pytest.raises(SettingError) as error:
        tiny().handle(**settings)
    check_error(error.value, *words)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    handle = tiny().handle(run_dir=tmp_path / "file", max_steps=1)
    with pytest.raises(SettingError) as error:
        handle.train(background=False)
    check_error(error.value, "run_dir")


@pytest.mark.parametrize(
    ("text", "due"),
    [("1 epoch", [5, 10]), ("2 epochs", [10]), ("3 steps", [3, 6, 9]), (4, [4, 8])],
)
def test_a_period_is_in_epochs_or_steps(text, due):
    period = every(text)
    found = [
        step for step in range(1, 11) if period.due(step, step // 5, step % 5 == 0)
    ]
    assert found == due


def test_no_period_is_never():
    assert every(None) is None


def test_a_setting_that_makes_an_object_makes_it_once():
    book = tiny("""
MADE = []

class Lists:
    def __init__(self): self.rows = []
    def log_metrics(self, metrics, *, step, epoch, split):
        if split == "train": self.rows.append(step)
    def log_params(self, params): pass
    def log_text(self, name, text): pass
    def finish(self): self.rows.append("end")

class Tiny(Tiny):
    def logger(self):
        MADE.append(Lists())
        return MADE[-1]
""")
    handle = nitro.Nitro(book["Tiny"](), run_dir=None, eval_every=None, max_steps=2)
    handle.train(background=False)
    handle.validate()
    handle.report()
    handle.train(background=False)
    [logger] = book["MADE"]
    assert [step for step in logger.rows if step != "end"] == [1, 2, 3, 4]


def test_a_rate_is_a_plain_value_of_the_class_too():
    handle = tiny("""
class Tiny(Tiny):
    learning_rate = 0.125
    weight_decay = {"default": 0.25, "head": 0.5}

    def param_group(self, path, leaf):
        return "head" if path[1] == 2 or "2" in path else "default"
""").handle()
    assert handle.plan.values.plain()["learning_rate"] == 0.125
    assert handle.plan.values.plain()["head.weight_decay"] == 0.5
    with pytest.raises(SettingError) as error:
        tiny("class Tiny(Tiny):\n    learning_rate = 'fast'\n").handle()
    check_error(error.value, "learning_rate", "'fast'")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("frozen = True", "def frozen(self, path, leaf): return ..."),
        ("param_group = 'x'", "def param_group(self, path, leaf): return ..."),
        ("schedules = {'learning_rate': 0.1}", "def schedules(self): return ..."),
        ("frozen: bool = True", "def frozen(self, path, leaf): return ..."),
    ],
)
def test_a_plain_value_in_place_of_a_hook_is_refused_with_what_to_write(said, words):
    book = tiny(f"class Tiny(Tiny):\n    {said}\n")
    with pytest.raises(nitro.HookError) as error:
        book.handle()
    check_error(error.value, words, "Tiny.")


def test_accumulation_is_attached_as_a_method_like_one_of_the_class_body():
    book = tiny("""
class Tiny(Tiny): pass

@Tiny.hook
def accum(self): return 5

@Tiny.hook
def accum_mode(self): return "joint"
""")
    settings = book.handle().settings
    assert (settings["accum"], settings["accum_mode"]) == (5, "joint")


def test_a_swap_says_what_a_plain_rate_is_now_and_refuses_a_plain_hook():
    plain = "class Plain(Tiny):\n    def describe(self): pass\n    "
    book = tiny(plain + "learning_rate = 0.125")
    with going(book.handle("Plain")) as run:
        book.cell(plain + "learning_rate = 0.25")
        told = str(run.swap(wait=True))
        assert "learning_rate: taken; it gives 0.25 now, the run keeps 0.125" in told
        run.unset("learning_rate")
        assert {row.name: row.value for row in run.values()}["learning_rate"] == 0.25
        book.cell(plain + "frozen = True")
        with pytest.raises(nitro.HookError) as error:
            run.swap(wait=True)
        check_error(error.value, "def frozen(self, path, leaf)")
        assert run.stale == ()


@pytest.mark.parametrize("name", ["early_stop", "save_every", "resume", "prefetch"])
def test_a_setting_of_later_versions_is_refused_as_such(name):
    with pytest.raises(SettingError) as error:
        tiny().handle(**{name: 1})
    check_error(error.value, f"`{name}` is not part of this version")


def test_numbers_of_numpy_are_settings_too():
    handle = tiny().handle(
        seed=np.int64(3), max_steps=np.int32(4), eval_every=np.int64(2)
    )
    taken = [handle.settings[name] for name in ("seed", "max_steps", "eval_every")]
    assert taken == [3, 4, 2]
    assert {type(value) for value in taken} == {int}


@pytest.mark.parametrize("rate", [float("nan"), float("inf")])
def test_a_rate_that_is_not_finite_is_refused(rate):
    with pytest.raises(SettingError) as error:
        tiny().handle(learning_rate=rate)
    check_error(error.value, "not a finite number")
