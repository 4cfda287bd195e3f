"""LGA's metric for linear models: its limits, LGA's own first steps, and scikit-learn's checks."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from torch import nn

from labelgrad import (
    LGA,
    SGD,
    Batch,
    LGAKernelClassifier,
    LGALinearClassifier,
    SquaredError,
    Step,
)
from labelgrad.linear import STRENGTHS, logistic_path, metric_bases
from tests.unit.estimator_checks import EXPECTED, check


def rows(n=120, columns=8, labels=20, seed=0, shift=2):
    """Two classes along a direction of large variance, among noise of small variance."""
    rng, truth = np.random.default_rng(seed), np.arange(n) % 2
    X = rng.normal(size=(n, columns)) * np.linspace(2, 0.3, columns)
    X[:, 0] += shift * truth
    return X, np.where(np.arange(n) < labels, truth, -1), truth


def test_the_path_is_that_of_penalized_logistic_regression():
    X, y, _ = rows()
    X, y = X[y >= 0], y[y >= 0]
    for head, strength in zip(logistic_path(X, np.eye(2)[y]), STRENGTHS, strict=True):
        slow = LogisticRegression(C=2 * strength, tol=1e-8, max_iter=5000).fit(X, y)
        fast = (head[:, 1] - head[:, 0])[:-1]  # two heads of half the weight
        np.testing.assert_allclose(fast, slow.coef_[0], atol=0.02 * abs(slow.coef_).max())


@pytest.mark.parametrize("columns", [5, 60])  # fewer and more than labels
@pytest.mark.parametrize("power", [0, 1, 2])
def test_a_basis_turns_the_penalty_into_a_plain_one(columns, power):
    X, y, _ = rows(columns=columns)
    X = X - X.mean(0)
    labeled = np.flatnonzero(y >= 0)
    (basis,) = metric_bases(X, labeled, [power])
    covariance = X.T @ X / len(X)
    inverse = np.linalg.matrix_power(np.linalg.inv(covariance), power)
    penalty = basis.T @ inverse @ basis
    np.testing.assert_allclose(penalty, penalty[0, 0] * np.eye(len(penalty)), atol=1e-6)
    assert np.std(X @ basis) == pytest.approx(1)
    assert basis.shape[1] == min(columns, len(labeled))


def test_lga_first_moves_a_linear_model_along_the_metric():
    """The limit of the penalty for p = 1 and small C is where LGA moves the model first: Σ·g."""
    X, _, truth = rows()
    X = torch.from_numpy(X - X.mean(0))
    labeled, values = torch.arange(20), torch.from_numpy(truth - truth.mean())[:, None]
    model = nn.Linear(X.shape[1], 1, bias=False).double()
    nn.init.zeros_(model.weight)
    lga = LGA(
        rows=len(X),
        width=1,
        loss=SquaredError(),
        rule=SGD(1e-6),
        power=0.0,
        dtype=torch.float64,
    )
    batches = Batch(X[labeled], values[labeled], labeled), Batch(X, None, torch.arange(len(X)))
    step = Step(model, *batches, loss=SquaredError())
    lga(step)
    lga.update(step)
    moved = X.T @ lga.table.labels()  # −∇θ of the imputed labels: where the model goes next
    gradient = X[labeled].T @ values[labeled]
    expected = (X.T @ X) @ gradient
    cosine = nn.functional.cosine_similarity(moved.flatten(), expected.flatten(), dim=0)
    assert float(cosine) == pytest.approx(1, abs=1e-9)
    plain = nn.functional.cosine_similarity(moved.flatten(), gradient.flatten(), dim=0)
    assert float(plain) < 0.99


def test_unlabeled_rows_help_where_classes_lie_along_their_variance():
    errors = {(0,): [], (1,): []}
    for seed in range(8):
        X, y, truth = rows(n=400, columns=60, labels=8, seed=seed, shift=8)
        for powers, found in errors.items():
            found.append(1 - LGALinearClassifier(powers).fit(X, y).score(X, truth))
    assert np.mean(errors[1,]) < 0.7 * np.mean(errors[0,])


def test_the_metric_of_a_kernel_is_the_product_of_kernels_with_all_examples():
    """For p = 1 labeled examples are as alike as K_LU K_UL, with the centered kernel K."""
    X, y, _ = rows()
    model = LGAKernelClassifier((1,), length_scales=(1.0,), landmarks=len(X)).fit(X, y)
    features, labeled = model.maps_[0].transform(X), np.flatnonzero(y >= 0)
    (basis,) = metric_bases(features - features.mean(0), labeled, [1])
    inputs = (features - features.mean(0))[labeled] @ basis
    centre = np.eye(len(X)) - 1 / len(X)
    kernel = centre @ rbf_kernel(X, gamma=model.maps_[0].gamma) @ centre
    expected = (kernel @ kernel)[np.ix_(labeled, labeled)]
    found = inputs @ inputs.T
    np.testing.assert_allclose(found / np.trace(found), expected / np.trace(expected), atol=1e-6)


def test_powers_that_are_no_whole_numbers_are_refused():
    X, y, _ = rows()
    with pytest.raises(ValueError, match=r"`powers` must be whole numbers"):
        LGALinearClassifier(powers=(0.5,)).fit(X, y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")
@pytest.mark.parametrize("model", [LGALinearClassifier(), LGAKernelClassifier(landmarks=50)])
def test_scikit_learns_checks_pass(model):
    assert check(model) == set(EXPECTED)
