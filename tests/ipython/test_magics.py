from __future__ import annotations

import numpy as np
import pytest

SETUP = """
import numpy as np, optax
from flax import nnx
import nitro_repl as nitro
rng = np.random.default_rng(0)
rows = [{"x": rng.normal(size=(8, 4)).astype("float32"),
         "y": rng.integers(0, 3, 8).astype("int32")} for _ in range(4)]

class Tiny(nitro.Experiment):
    width: nitro.GraphConst[int] = 8
    scale: nitro.Device[float] = 1.0
    note: str = ""
    def build_data(self):
        return {"train": rows, "val": rows[:2]}
    def build_model(self, rngs):
        return nnx.Linear(4, 3, rngs=rngs)
    def forward(self, model, *, x):
        return model(x)
    def loss(self, logits, *, y):
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return self.scale * losses.mean()
"""


@pytest.fixture
def nitro(shell, tmp_path, monkeypatch):
    """Runs a `%nitro` line and gives its value; `Tiny` is defined."""
    monkeypatch.chdir(tmp_path)
    shell.run_cell(SETUP).raise_error()

    def run(line):
        done = shell.run_cell(f"_value = %nitro {line}")
        done.raise_error()
        return shell.user_ns["_value"]

    yield run
    shell.run_cell("for run in list(nitro.runs.values()):\n    run.stop()")


@pytest.fixture
def usage(shell, capsys):
    """Runs a line that is refused and gives the error that is printed."""

    def run(line):
        capsys.readouterr()
        shell.run_cell(f"%nitro {line}")
        return capsys.readouterr().err.strip()

    return run


def test_each_verb_returns_what_its_python_method_returns(nitro, shell):
    run = nitro("train Tiny width=4 note=hello --max-epochs 3 --logger None")
    assert type(run) is shell.user_ns["nitro"].Run
    assert run.handle.experiment.note == "hello"
    assert run.handle.settings["max_epochs"] == 3
    assert nitro("wait") is True
    assert type(nitro("status")) is type(run.status())
    assert nitro("programs") is shell.user_ns["nitro"].programs
    assert list(nitro("why")) == list(shell.user_ns["nitro"].programs.why())
    assert nitro("validate") == pytest.approx(run.handle.validate())
    assert nitro("evaluate val") == pytest.approx(run.handle.evaluate("val"))
    assert list(nitro("history")["step"]) == list(range(1, 13))
    assert [row.run for row in nitro("runs").rows][-1] == run.id
    shell.user_ns["batch"] = {"x": np.zeros((2, 4), "float32")}
    assert nitro("predict batch").shape == (2, 3)


def test_a_live_run_obeys_the_verbs(nitro):
    run = nitro("train Tiny --max-epochs 100_000 --paused --logger None")
    assert nitro("advance 3") is None
    assert (run.step, run.phase) == (3, "paused")
    nitro("set scale=0.5 learning_rate=1e-4")
    nitro("set scale 0.25")
    values = {row.name: row.value for row in nitro("status").values}
    assert values["scale"] == 0.25
    assert values["learning_rate"] == pytest.approx(1e-4)
    nitro("unset scale")
    assert {r.name: r.value for r in run.status().values}["scale"] == 1.0
    nitro("resume")
    nitro("pause")
    assert run.phase == "paused"
    nitro(f"stop --run {run.id}")
    assert run.phase == "stopped"
    assert not run.live


def test_a_scheduled_value_is_set_with_the_flag_override(nitro, shell, usage):
    shell.run_cell("Tiny.schedules = lambda self: {'scale': lambda _: lambda s: 1.0}")
    nitro("train Tiny --paused --horizon 9 --logger None")
    run = shell.user_ns["nitro"].current()
    shell.run_cell("%nitro set scale 0.5")
    assert run.status().values[0].value == 1.0
    nitro("set scale 0.5 --override")
    assert run.status().values[0].value == 0.5
    nitro("unset scale")
    assert run.status().values[0].value == 1.0


def test_train_without_a_name_goes_on_with_the_current_run(nitro):
    run = nitro("train Tiny --max-epochs 100_000 --paused --logger None")
    nitro("stop")
    again = nitro("train --paused")
    assert again.handle is run.handle


def test_verbs_act_on_the_run_that_is_named(nitro):
    first = nitro("train Tiny --max-epochs 100_000 --paused --logger None")
    second = nitro("train Tiny --max-epochs 100_000 --paused --logger None")
    nitro(f"advance 2 --run {first.id}")
    assert (first.step, second.step) == (2, 0)


def test_swap_takes_an_edited_hook(nitro, shell):
    run = nitro("train Tiny --max-epochs 100_000 --paused --logger None")
    nitro("advance 2")
    shell.run_cell(
        "@Tiny.hook\ndef loss(self, logits, *, y):\n    return (logits ** 2).mean()"
    ).raise_error()
    assert "loss" in run.stale
    nitro("swap --wait")
    assert run.stale == ()
    assert any(line.startswith("loss") for line in nitro("why"))


def test_an_expression_in_braces_is_computed_by_ipython(nitro, shell):
    shell.user_ns["w"] = 3
    run = nitro("train Tiny width={w * 2} --paused --logger None")
    assert run.handle.experiment.width == 6


def test_a_trailing_semicolon_silences_and_a_comment_is_ignored(nitro, shell):
    assert shell.run_cell("%nitro help;").result is None
    assert shell.run_cell("%nitro help  # the verbs").result is not None
    assert nitro("help train  # one").text.startswith("%nitro train")


def test_usage_errors_are_one_line(nitro, usage):
    wrong = {
        "trian": "UsageError: there is no verb `trian`: did you mean `train`?",
        "train tiny": "UsageError: there is no experiment `tiny`: did you mean `Tiny`?",
        "train Tiny with=3": "UsageError: `Tiny` has no field `with`: did you mean",
        "help trian": "UsageError: there is no verb `trian`",
        "predict nothing": "UsageError: there is no variable `nothing`",
    }
    for line, message in wrong.items():
        shown = usage(line)
        assert message in shown
        assert len(shown.splitlines()) == 1


def test_a_refused_verb_shows_what_where_and_fix(nitro, shell, capsys):
    run = nitro("train Tiny --paused --logger None")
    capsys.readouterr()
    shell.run_cell("%nitro set scael=2.0")
    shown = capsys.readouterr().out
    assert "FieldError" in shown
    assert "scael" in shown
    assert "fix:" in shown
    assert "Traceback" not in shown
    assert len(shown.strip().splitlines()) <= 6
    assert run.live


def test_unloading_says_that_a_run_is_live_and_lets_it_go_on(nitro, shell, capsys):
    run = nitro("train Tiny --max-epochs 100_000 --logger None")
    capsys.readouterr()
    shell.run_line_magic("unload_ext", "nitro_repl")
    assert run.id in capsys.readouterr().out
    assert run.live
    shell.run_line_magic("load_ext", "nitro_repl")
    nitro("pause")
    assert run.phase == "paused"


def test_question_mark_shows_the_generated_help(shell, capsys):
    shell.run_cell("%nitro?")
    shown = capsys.readouterr().out
    assert "start training in the background" in shown


def test_call_runs_a_method_on_literals_and_on_variables(nitro, usage, shell):
    shell.run_cell(
        "class Tiny(Tiny):\n"
        "    @nitro.program\n"
        "    def times(self, model, *, x, by=1.0): return model(x) * by\n"
        "one = rows[0]['x']\n"
    ).raise_error()
    nitro("train Tiny --max-steps 2 --run-dir None")
    nitro("wait")
    shell.run_cell("row = rows[0]").raise_error()
    made = nitro("call times x=one by=2.0")
    np.testing.assert_allclose(made, 2 * nitro("predict row"), rtol=1e-6)
    assert nitro("call times x=[[1,2,3,4]]").shape == (1, 3)
    assert "`call` needs a method" in usage("call")
    assert "is the value of a variable" in usage("call times x=two")


def test_the_rate_of_a_group_is_set_by_its_full_name(nitro, shell):
    shell.run_cell("Tiny.param_group = lambda self, path, leaf: path[-1]").raise_error()
    run = nitro("train Tiny --paused --logger None --weight-decay 0.1")
    nitro("set kernel.learning_rate=1e-4")
    values = {row.name: row.value for row in run.status().values}
    assert values["kernel.learning_rate"] == 1e-4
    assert values["bias.weight_decay"] == 0.1
    assert values["bias.learning_rate"] == values["learning_rate"]


def test_the_report_of_a_new_handle_is_shown_once_under_its_cell(nitro, shell, capsys):
    capsys.readouterr()
    nitro("train Tiny width=4 --max-steps 2 --run-dir None")
    shown = capsys.readouterr().out
    assert shown.count("GraphConst[int]") == 1
    assert "keyword" in shown
    nitro("wait")
    assert "GraphConst[int]" not in capsys.readouterr().out
    report = nitro("report")
    assert report.progress.phase == "done"
    first = report.in_force
    assert first.moment.endswith("at step 2")
    nitro("train Tiny --paused --max-steps 2 --run-dir None")
    nitro("set scale=0.25")
    assert "set at step 0" in repr(nitro("report"))
    old = first.moment.split()[1]
    assert nitro(f"report --run {old}").in_force.moment == first.moment
    nitro("stop")


def test_in_a_notebook_it_is_folded_so_that_the_panel_stays_in_sight(
    nitro, shell, monkeypatch
):
    published = []
    kinds = ["text/plain", "text/html"]
    monkeypatch.setattr(shell.display_formatter, "active_types", kinds)
    monkeypatch.setattr(
        shell.display_pub, "publish", lambda data, *_, **__: published.append(data)
    )
    cell = "handle = nitro.Nitro(Tiny(), run_dir=None)"
    shell.run_cell(cell).raise_error()
    (data,) = [data for data in published if "GraphConst[int]" in data["text/plain"]]
    assert data["text/html"].startswith("<details><summary")
    assert "Tiny: fields, settings and data</summary>" in data["text/html"]
    assert "<details>" not in shell.user_ns["handle"].report()._repr_html_()


def test_runs_are_compared_by_a_metric(nitro, usage, shell):
    shell.run_cell(
        "Tiny.metrics = lambda self, o, *, y: {'acc': ((o.argmax(-1) == y).sum(), 8)}"
    ).raise_error()
    made = [nitro(f"train Tiny width={n} --max-steps 4 --run-dir None") for n in (2, 3)]
    for run in made:
        run.wait()
    one, other = (run.id for run in made)
    assert nitro(f"compare {one} {other}").fields == {"width": (2, 3)}
    assert nitro("compare").runs[-2:] == (one, other)
    found = nitro(f'compare {one} {other} --metric "val acc" --mode max')
    assert (found.metric, found.mode) == ("val acc", "max")
    shell.run_cell(f"_found = %nitro compare {one} nothing")


def test_without_a_screen_that_can_change_the_dashboard_is_printed_once(nitro, capsys):
    run = nitro("train Tiny --max-steps 4 --run-dir None")
    run.wait()
    capsys.readouterr()
    assert nitro("dash") is None
    shown = capsys.readouterr().out
    assert shown.count(f"Tiny {run.id}") == 1
    assert "programs" in shown
