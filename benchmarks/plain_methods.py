"""What scikit-learn has for the same rows: logistic regression, ridge regression, label spreading.

Sets and splits are those of `small_tables.py`, so that the numbers can be laid beside each other.
The two regressions see the labels alone, with scikit-learn's usual settings (ridge chooses its
strength by leaving one out) on standardized columns. Label spreading, on the digits alone, takes
pixels from 0 to 1; its γ is a choice made in hindsight. Some seconds in all.

    python benchmarks/plain_methods.py [--seeds 10]
"""

from __future__ import annotations

import argparse
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from labelgrad.bench.sets import Rows, rows

SETS = ("digits-50", "wine", "breast-cancer", "iris", "diabetes-classes", "diabetes")
GAMMA, WHITE = 5, 16  # of label spreading; the largest pixel of the digits


def logistic_regression(split: Rows) -> tuple[float, float]:
    """Error and log loss of a model of the labeled rows, columns standardized over all rows."""
    model = make_pipeline(StandardScaler().fit(split.x), LogisticRegression(max_iter=5000))
    model[-1].fit(model[0].transform(split.x[split.given]), split.y[split.given])
    return _judged(model[-1].classes_, model.predict_proba(split.x_test), split)


def ridge(split: Rows) -> tuple[float, float]:
    """Root mean square and half the mean square, in standard deviations of the labels."""
    columns, labels = StandardScaler().fit(split.x), split.y[split.given]
    model = RidgeCV(np.logspace(-2, 4, 13)).fit(columns.transform(split.x[split.given]), labels)
    wrong = (model.predict(columns.transform(split.x_test)) - split.y_test) / labels.std()
    return float(np.sqrt(np.mean(wrong**2))), float(np.mean(wrong**2) / 2)


def label_spreading(split: Rows) -> tuple[float, float]:
    """Error and log loss of labels handed on between rows that are near each other."""
    model = LabelSpreading(kernel="rbf", gamma=GAMMA)
    model.fit(split.x / WHITE, np.where(split.given, split.y, -1))
    return _judged(model.classes_, model.predict_proba(split.x_test / WHITE), split)


def _judged(classes: NDArray[Any], said: NDArray[Any], split: Rows) -> tuple[float, float]:
    error = float(np.mean(classes[said.argmax(1)] != split.y_test))
    return error, float(log_loss(split.y_test, said, labels=classes))


def main() -> None:
    """Print a row for each set and method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    options = parser.parse_args()
    print(f"{'':<20}{'':<22}{'error':>16}{'loss':>16}")
    for name in options.sets:
        splits = [rows(name, seed) for seed in range(options.seeds)]
        methods = [logistic_regression if splits[0].classes else ridge]
        methods += [label_spreading] if name.startswith("digits") else []
        for method in methods:
            columns = zip(*map(method, splits), strict=True)
            cells = [f"{mean(c):.3f} ± {stdev(c) if len(c) > 1 else 0:.3f}" for c in columns]
            print(f"{name:<20}{method.__name__:<22}{cells[0]:>16}{cells[1]:>16}")


if __name__ == "__main__":
    main()
