"""`bench`: the ensemble and LGA beside what people use, on many small tables."""

from __future__ import annotations

import time

import numpy as np

from experiments.common import Line
from experiments.tabular.data import Array, Draw, Rows, Sources, split
from experiments.tabular.leaderboard import CONFIDENT, LEAST
from experiments.tabular.methods import FITS, Predictions, undisturbed


def bench_trial(data: str, fit: str, *, seed: int, draw: Draw, sources: Sources) -> list[Line]:
    """Fit on one split of one data set; gives a line for each method that comes of the fit.

    >>> (line,) = bench_trial(
    ...     "wine", "logistic-regression", seed=0, draw=Draw(), sources=Sources()
    ... )
    >>> line["method"], line["labels"], line["error"] < 0.2
    ('logistic-regression', 30, True)
    """
    rows = split(data, sources, draw, seed)
    about = {
        "experiment": "peers",
        "data": data,
        "task": "regression" if rows.classes is None else "classification",
        "seed": seed,
        "labels": int(rows.given.sum()),
        "classes": rows.classes,
        "test_rows": len(rows.y_test),
    }
    begin = time.process_time()
    try:
        with undisturbed():
            found = FITS[fit](rows, seed)
        lines: list[Line] = [{"method": one.method} | scores(one, rows) for one in found]
    except Exception as error:  # a method that fails on a data set is a result, too
        lines = [{"method": fit, "why": (str(error) or type(error).__name__).splitlines()[0]}]
    seconds = {"seconds": round(time.process_time() - begin, 2)}
    return [about | line | seconds for line in lines]


def scores(found: Predictions, rows: Rows) -> Line:
    """Error and loss on the test rows, and how many confident labels of the other rows are right.

    The error of values is the root mean square, in standard deviations of the test targets.
    """
    extra = found.extra or {}
    if rows.classes is None:
        if not np.isfinite(found.test).all():
            raise ValueError("a value is not finite")
        wrong = (found.test - rows.y_test) / rows.y_test.std()
        return {"error": round(float(np.sqrt(np.mean(wrong**2))), 5)} | extra
    test, others = clipped(found.test), clipped(found.unlabeled)
    right = others.argmax(1) == rows.y[~rows.given]
    confident = others.max(1) > CONFIDENT
    losses = -np.log(test[np.arange(len(test)), rows.y_test])
    return {
        "error": round(float(np.mean(test.argmax(1) != rows.y_test)), 5),
        "loss": round(float(losses.mean()), 5),
        "unlabeled": len(right),
        "right": int(right.sum()),
        "sure": int(confident.sum()),
        "sure_right": int(right[confident].sum()),
    } | extra


def clipped(probabilities: Array) -> Array:
    """Probabilities of at least `LEAST`, normalized: no single row decides a mean loss.

    >>> clipped(np.array([[1.0, 0.0]])).round(5)
    array([[9.999e-01, 1.000e-04]])
    """
    if not np.isfinite(probabilities).all():
        raise ValueError("a probability is not finite")
    least = np.maximum(probabilities, LEAST)
    found: Array = least / least.sum(1, keepdims=True)
    return found
