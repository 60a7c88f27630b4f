"""Samples drawn by `visualize`: the first or the worst, in files and in a notebook."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from cells import check_error, live, tiny

import nitro_repl as nitro
from nitro_repl.testing import count_compiles

DRAWN = """
class Figure:
    def __init__(self, **seen):
        self.__dict__.update(seen)

    def savefig(self, path, format="png"):
        if hasattr(path, "write"):
            path.write(b"png")
        else:
            with open(path, "wb") as file:
                file.write(b"png")

class Tiny(Tiny):
    note: str = "host"

    def visualize(self, outputs, *, x, y, name=None):
        return Figure(outputs=outputs, x=x, y=y, name=name, note=self.note,
                      smoothing=self.smoothing)
"""


@pytest.fixture(scope="module")
def book():
    return tiny(DRAWN)


def split(book, name):
    return {k: np.concatenate([r[k] for r in book["ROWS"]]) for k in ("x", "y")}[name]


def sample_losses(handle, x, y, smoothing=0.1):
    logits = handle.predict({"x": x})
    wrong = (logits - np.eye(2)[y]) ** 2
    return wrong.mean(-1) + smoothing * (logits**2).mean(-1)


# ---- which samples


def test_the_data_shows_before_training_without_a_compile(book, tmp_path):
    handle = book.handle(run_dir=str(tmp_path))
    with count_compiles() as count:
        found = handle.render(predictions=False, first=5)
    assert count.total == 0, count
    assert [picture.index for picture in found] == [0, 1, 2, 3, 4]
    x, y = split(book, "x"), split(book, "y")
    for picture in found:
        assert picture.figure.outputs is None
        np.testing.assert_array_equal(picture.figure.x, x[picture.index])
        assert picture.figure.y == y[picture.index]
        assert picture.figure.note == "host"
        assert picture.path.read_bytes() == b"png"
        assert picture.path.parent == tmp_path / "Tiny" / "figures"
    assert len({picture.path for picture in found}) == 5


def test_each_sample_gets_its_own_outputs_also_of_a_ragged_batch(book):
    handle = book.handle()
    rows = book["ROWS"]
    handle.data["val"] = [*rows[:2], {k: v[:3] for k, v in rows[2].items()}]
    found = handle.render(first=100)
    x = split(book, "x")[:11]
    assert [picture.index for picture in found] == list(range(11))
    seen = np.stack([picture.figure.outputs for picture in found])
    np.testing.assert_allclose(seen, handle.predict({"x": x}), rtol=1e-5)
    assert all(picture.path is None for picture in found), "this run has no files"


def test_the_worst_are_those_with_the_highest_loss_in_order(book):
    handle = book.handle()
    x, y = split(book, "x"), split(book, "y")
    losses = sample_losses(handle, x, y)
    found = handle.render("train", worst=4)
    assert [picture.index for picture in found] == losses.argsort()[::-1][:4].tolist()
    for picture in found:
        assert picture.loss == pytest.approx(losses[picture.index], rel=1e-5)
    with count_compiles() as count:
        handle.render("train", worst=3)
    assert count.total == 0, count


def test_a_mean_with_weights_ranks_samples_and_masked_ones_come_last():
    book = tiny(
        DRAWN,
        """
class Tiny(Tiny):
    def loss(self, logits, *, y, weight):
        wrong = ((logits - jax.nn.one_hot(y, 2)) ** 2).mean(-1)
        return Mean((wrong * weight).sum(), weight.sum())

ROWS = [{**row, "weight": np.array([1, 2, 0, 1], "f")} for row in ROWS]
""",
    )
    handle = book.handle()
    losses = sample_losses(handle, split(book, "x"), split(book, "y"), 0.0)
    kept = [i for i in losses.argsort()[::-1] if i % 4 != 2]
    found = handle.render("train", worst=20)
    assert [picture.index for picture in found[:15]] == kept
    assert all(np.isnan(picture.loss) for picture in found[15:])


def test_a_run_draws_its_live_state_into_its_folder(book, tmp_path):
    with live(book, run_dir=str(tmp_path)) as run:
        run.set(smoothing=0.25)
        found = run.render("train", worst=2)
        x, y = split(book, "x"), split(book, "y")
        losses = sample_losses(run.handle, x, y, 0.25)
        assert found[0].loss == pytest.approx(losses.max(), rel=1e-5)
        assert found[0].figure.smoothing == 0.25
        folder = tmp_path / "Tiny" / run.id / "figures"
        assert {picture.path for picture in found} == set(folder.iterdir())
        again = run.handle.render("train", worst=2)
        assert [p.index for p in again] == [p.index for p in found]
        assert "step2" in found[0].path.name


def test_pictures_are_a_sequence_that_shows_as_a_table(book, tmp_path):
    found = book.handle(run_dir=str(tmp_path)).render(worst=3)
    assert len(found[:2]) == 2
    assert found[-1].loss < found[0].loss
    text = repr(found)
    assert "val sample" in text
    assert "loss" in text
    assert "val-step0-" in text.replace("\n", "")


# ---- how they show and are saved


class Shell:
    """What of a notebook's shell shows figures."""

    kernel = "there is a front end"

    def __init__(self):
        self.shown = []
        self.display_formatter = types.SimpleNamespace(
            format=lambda figure: ({"text/plain": repr(figure)}, {})
        )
        self.display_pub = types.SimpleNamespace(
            publish=lambda data, metadata=None: self.shown.append(data)
        )


def test_figures_show_inline_in_a_notebook(book, monkeypatch):
    shell = Shell()
    module = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)
    book.handle().render(predictions=False, first=2)
    titles, figures = shell.shown[::2], shell.shown[1::2]
    assert [t["text/plain"] for t in titles] == ["val sample 0", "val sample 1"]
    assert [figure["image/png"] for figure in figures] == [b"png", b"png"]


def test_a_terminal_shows_no_line_for_each_figure(book, monkeypatch, capsys):
    shell = types.SimpleNamespace()
    module = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)
    book.handle().render(predictions=False, first=2)
    assert capsys.readouterr().out == ""


def test_a_figure_of_pyplot_is_closed_there_once_it_is_saved(book, monkeypatch):
    closed = []
    pyplot = types.SimpleNamespace(close=closed.append)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    monkeypatch.setattr(book["Figure"], "__module__", "matplotlib.figure")
    found = book.handle().render(predictions=False, first=2)
    assert closed == [picture.figure for picture in found]


@pytest.mark.parametrize("verb", ["save", "write_image", "savefig"])
def test_whatever_can_save_itself_is_saved(verb, tmp_path):
    def write(path):
        with open(path, "w") as file:
            file.write(verb)

    figure = types.SimpleNamespace(**{verb: write})
    path = nitro.Experiment.save_figure(None, figure, tmp_path / "a.b")
    assert path == tmp_path / "a.b.png"
    assert path.read_text() == verb


def test_axes_are_saved_as_the_figure_that_they_are_in(tmp_path):
    figure = types.SimpleNamespace(savefig=lambda path: open(path, "w").close())
    axes = types.SimpleNamespace(figure=figure)
    assert nitro.Experiment.save_figure(None, axes, tmp_path / "a").exists()


def test_save_figure_may_be_ones_own(tmp_path):
    book = tiny(
        DRAWN,
        """
class Tiny(Tiny):
    def visualize(self, outputs, *, x):
        return f"x = {x[0]:.3f}"

    def save_figure(self, figure, stem):
        path = stem.with_suffix(".txt")
        path.write_text(figure)
        return path
""",
    )
    found = book.handle(run_dir=str(tmp_path)).render(predictions=False, first=1)
    assert found[0].path.suffix == ".txt"
    assert found[0].path.read_text() == f"x = {book['ROWS'][0]['x'][0, 0]:.3f}"


def test_an_edit_of_visualize_is_drawn_after_a_swap_and_compiles_nothing():
    book = tiny(DRAWN)
    with live(book) as run:
        run.render(first=1)
        book.cell("""
@Tiny.hook
def visualize(self, outputs, *, y):
    return Figure(new=True)
""")
        assert run.stale == ()
        with count_compiles() as count:
            run.swap()
            assert run.render(first=1)[0].figure.new
        assert count.total == 0, count


# ---- refusals


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        ("def other(self): ...", ("`visualize` is not defined",)),
        ("def visualize(self, outputs, *, z): ...", ("`z`", "`x`, `y`")),
        ("def visualize(self, outputs, *, x): ...", ("None", "sample 0 of `val`")),
        ("def visualize(self, outputs, *, key): return 1", ("`key`",)),
        ("def visualize(self, outputs, *, x): return x[0]", ("float32", "savefig")),
        ("def visualize(self, outputs, *, x): return nothing", ("nothing",)),
        (
            "def visualize(self, outputs, *, x): return Figure()\n"
            "    def save_figure(self, figure, stem): return 3",
            ("`save_figure` returned int",),
        ),
    ],
)
def test_a_hook_that_cannot_draw_is_refused(hook, words, tmp_path):
    head = DRAWN.split("class Tiny", maxsplit=1)[0]
    book = tiny(head, f"class Tiny(Tiny):\n    {hook}\n")
    with pytest.raises(nitro.NitroError) as error:
        book.handle(run_dir=str(tmp_path)).render(predictions=False)
    check_error(error.value, *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"split": "vall"}, ("`vall`", "val")),
        ({"worst": 0}, ("worst=0",)),
        ({"first": 1.5}, ("first=1.5",)),
        ({"worst": 2, "predictions": False}, ("worst", "predictions")),
    ],
)
def test_what_cannot_be_drawn_is_refused(book, arguments, words):
    with pytest.raises(nitro.NitroError) as error:
        book.handle().render(**arguments)
    check_error(error.value, *words)


def test_a_loss_that_compares_samples_cannot_rank_them():
    book = tiny(
        DRAWN,
        """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return -jax.nn.log_softmax(logits @ logits.T).diagonal().mean()
""",
    )
    with pytest.raises(nitro.HookError) as error:
        book.handle().render(worst=2)
    check_error(error.value, "loss", "rank", "Mean")
    assert len(book.handle().render(first=2)) == 2


def test_without_a_loss_no_sample_is_the_worst():
    book = tiny(
        DRAWN,
        """
class Manual(nitro.Experiment):
    build_data, build_model = Tiny.build_data, Tiny.build_model
    forward, smoothing, note, width = Tiny.forward, 0.1, "", 4

    def setup_optimizers(self, model):
        return nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)

    def train_step(self, model, optimizer, *, x):
        loss, grads = nnx.value_and_grad(lambda model: model(x).mean())(model)
        optimizer.update(model, grads)
        return {"loss": loss}

    def metrics(self, outputs, *, x):
        return {"n": Sum(len(x))}

    def visualize(self, outputs, *, x):
        return Figure(outputs=outputs)
""",
    )
    handle = book.handle("Manual")
    assert handle.render(first=1)[0].figure.outputs.shape == (2,)
    with pytest.raises(nitro.HookError) as error:
        handle.render(worst=1)
    check_error(error.value, "`loss`", "worse")


def test_outputs_that_are_not_one_row_for_each_sample_are_refused():
    book = tiny(
        DRAWN,
        """
class Tiny(Tiny):
    def forward(self, model, *, x):
        return {"mean": model(x).mean(0)}

    def loss(self, outputs, *, y):
        return outputs["mean"].sum()
""",
    )
    with pytest.raises(nitro.DataError) as error:
        book.handle().render()
    check_error(error.value, "mean", "(2,)", "predictions=False")
    assert len(book.handle().render(predictions=False, first=2)) == 2
