"""Metrics that need all samples, on real data, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from cells import IMPORTS, QUIET, Notebook
from sklearn.metrics import confusion_matrix, f1_score, r2_score, roc_auc_score

TUMOURS = """
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

class Tumours(nitro.Experiment):
    def build_data(self):
        x, y = load_breast_cancer(return_X_y=True)
        x = ((x - x.mean(0)) / x.std(0)).astype("float32")
        def loader(rows):
            return nitro.ArrayLoader({"x": x[rows], "y": y[rows]}, 64)
        return {"train": loader(slice(0, 384)), "val": loader(slice(384, None))}

    def build_model(self, rngs):
        return nnx.Linear(30, 1, rngs=rngs)

    def forward(self, model, *, x):
        return model(x)[:, 0]

    def loss(self, logit, *, y):
        return optax.sigmoid_binary_cross_entropy(logit, y).mean()

    def metrics(self, logit, *, y):
        yes, table = logit > 0, 2 * y + (logit > 0)
        return {
            "roc": nitro.Concat({"score": logit, "label": y}),
            "table": Sum((table[:, None] == np.arange(4)).sum(0)),
        }

    def finalize_metrics(self, totals, split):
        roc, (tn, fp, fn, tp) = totals["roc"], totals["table"]
        return {
            "auroc": roc_auc_score(roc["label"], roc["score"]),
            "f1": 2 * tp / (2 * tp + fp + fn),
            "table": totals["table"],
        }
"""
DIABETES = """
from sklearn.datasets import load_diabetes
from sklearn.metrics import r2_score

class Diabetes(nitro.Experiment):
    def build_data(self):
        x, y = load_diabetes(return_X_y=True)
        arrays = {"x": (x * 20).astype("float32"), "y": (y / 100).astype("float32")}
        loader = nitro.ArrayLoader(arrays, 100)
        return {"train": loader, "val": loader}

    def build_model(self, rngs):
        return nnx.Linear(10, 1, rngs=rngs)

    def forward(self, model, *, x):
        return model(x)[:, 0]

    def loss(self, out, *, y):
        return ((out - y) ** 2).mean()

    def metrics(self, out, *, y):
        return {"both": nitro.Concat((y, out)), "mae": Mean(abs(out - y).sum(), len(y))}

    def finalize_metrics(self, totals, split):
        return {"r2": r2_score(*totals["both"]), "mae": totals["mae"]}
"""


@pytest.mark.parametrize("residency", ["host", "device"])
def test_auroc_and_f1_on_tumours_are_those_of_scikit_learn(residency):
    book = Notebook(IMPORTS, TUMOURS)
    settings = {**QUIET, "max_epochs": 3, "learning_rate": 0.05}
    handle = book.handle("Tumours", metrics_residency=residency, **settings)
    handle.train(background=False)
    found = handle.validate()
    logit = handle.predict(handle.data["val"])
    label = np.concatenate([batch["y"] for batch in handle.data["val"]])
    assert len(logit) == len(label) == 185
    assert len(label) % 64, "the last batch is ragged"
    assert found["auroc"] == pytest.approx(roc_auc_score(label, logit), abs=1e-12)
    assert found["auroc"] > 0.95
    assert found["f1"] == pytest.approx(f1_score(label, logit > 0), abs=1e-12)
    table = confusion_matrix(label, logit > 0).ravel()
    np.testing.assert_array_equal(found["table"], table)


@pytest.mark.parametrize(("residency", "pad_eval"), [("host", 1), ("device", 0)])
def test_r2_on_diabetes_is_that_of_scikit_learn(residency, pad_eval):
    book = Notebook(IMPORTS, DIABETES)
    settings = {
        **QUIET,
        "max_epochs": 4,
        "learning_rate": 0.1,
        "pad_eval": bool(pad_eval),
    }
    handle = book.handle("Diabetes", metrics_residency=residency, **settings)
    handle.train(background=False)
    found = handle.validate()
    out = handle.predict(handle.data["val"])
    target = np.concatenate([batch["y"] for batch in handle.data["val"]])
    assert found["r2"] == pytest.approx(r2_score(target, out), abs=1e-6)
    assert found["mae"] == pytest.approx(np.abs(out - target).mean(), rel=1e-5)
    assert found["val_loss"] == pytest.approx(((out - target) ** 2).mean(), rel=1e-5)
    assert found["r2"] > -4, "it learns something"
