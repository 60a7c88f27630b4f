"""A name is one column: what a hook reports may not hide what a row has anyway."""

from __future__ import annotations

import pytest
from cells import check_error, tiny

from nitro_repl import HookError, MetricError
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")


def reporting(names: str) -> str:
    return f"""
class Tiny(Tiny):
    def train_metrics(self, logits, *, y):
        return {{name: logits.sum() for name in {names}}}
"""


@pytest.mark.parametrize(
    "name", ["step", "loss", "grad_norm", "learning_rate", "weight_decay", "smoothing"]
)
@pytest.mark.parametrize("settings", [{}, {"fuse": True}], ids=str)
def test_a_train_metric_may_not_be_called_as_another_column(name, settings):
    book = tiny(reporting([name]))
    with count_compiles() as count, pytest.raises(HookError) as error:
        book.train(**settings)
    check_error(error.value, f"`{name}`", "train_metrics", f"`{name}_metric`")
    assert count["loss"] == count["step"] == 0


def test_a_rate_of_a_group_is_a_column_too():
    groups = """
class Tiny(Tiny):
    def param_group(self, path, leaf): return path[-1]
"""
    assert "kernel.learning_rate" in tiny(groups).train().history()
    with pytest.raises(HookError) as error:
        tiny(groups, reporting(["kernel.learning_rate"])).train()
    check_error(error.value, "kernel.learning_rate")


def test_a_program_that_is_known_is_refused_beside_a_new_field():
    fine = tiny(reporting(["heat"]))
    assert "heat" in fine.train().history()
    with pytest.raises(HookError) as error:
        tiny(
            reporting(["heat"]), "class Tiny(Tiny):\n    heat: Device[float] = 1.0"
        ).train()
    check_error(error.value, "`heat`")


def test_loss_and_train_metrics_may_not_report_the_same_name():
    both = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return super().loss(logits, y=y), {"mean": 1.0}
"""
    assert tiny(both).train().history()["mean"].tolist() == [1, 1]
    with pytest.raises(HookError) as error:
        tiny(both, reporting(["mean"])).train()
    check_error(error.value, "`loss` and `train_metrics` both report `mean`")


@pytest.mark.parametrize("residency", ["host", "device"])
def test_a_metric_may_not_be_called_as_the_loss_of_its_split(residency):
    book = tiny("""
class Tiny(Tiny):
    def metrics(self, logits, *, y):
        return {"val_loss": Sum(len(y))}
""")
    handle = book.handle(metrics_residency=residency)
    with pytest.raises(MetricError) as error:
        handle.validate()
    check_error(error.value, "`val_loss`", "split `val`")
    assert handle.evaluate("train")["val_loss"] == 20  # no column of that row


def test_two_metrics_that_are_one_when_flat_are_refused():
    book = tiny("""
class Tiny(Tiny):
    def metrics(self, logits, *, y):
        return {"a": {"b": Sum(1)}, "a/b": Sum(2)}

    def finalize_metrics(self, totals, split):
        return totals if split == "val" else {3: 1.0}
""")
    with pytest.raises(MetricError) as error:
        book.handle().validate()
    check_error(error.value, "`a/b`", "split `val`")
    with pytest.raises(MetricError) as error:
        book.handle().evaluate("train")
    check_error(error.value, "3", "split `train`")
