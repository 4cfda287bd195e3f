"""scikit-learn's checks of an estimator for which -1 is no class."""

import numpy as np
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import check_estimator

EXPECTED = {
    "check_classifiers_classes": "uses -1 as a class, which here means a row without a label",
    "check_sample_weight_equivalence_on_dense_data": "a weight is of a label, not of a row",
}


def check(estimator):
    """The names of the checks that fail as expected; all others must pass."""
    results = check_estimator(estimator, expected_failed_checks=EXPECTED, on_fail=None)
    failed = [r for r in results if r["status"] == "failed"]
    assert not failed, failed
    return {r["check_name"] for r in results if r["status"] == "xfail"}


def iris(every=10, seed=0):
    """Its data, all classes, and one in `every` of them with -1 for the others."""
    X, y = load_iris(return_X_y=True)
    labeled = np.random.default_rng(seed).permutation(len(y)) % every == 0
    return X, y, np.where(labeled, y, -1)
