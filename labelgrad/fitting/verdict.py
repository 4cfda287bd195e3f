"""What held-out labels say: whether the unlabeled examples helped, and how sure a model may be.

Two methods are judged by the same labels, with how sure that is. One number then makes the
probabilities of the kept one honest: temperature scaling (Guo et al., 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from labelgrad.report.data import Estimate
from labelgrad.training.evaluation import calibration_error

BASELINE = "supervised"
RESAMPLES, LEVEL = 2000, 0.95
COLDEST, HOTTEST = 0.05, 20.0  # temperatures
PARTS = 5  # of the held-out labels, each judged by a temperature that the others gave
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What each method says about labels that it was not trained on."""

    rows: Tensor  # of the dataset
    y: Tensor  # class indices, or values in units of their spread, as the outputs are
    outputs: dict[str, Tensor]
    task: str
    spread: float = 1.0

    def mistakes(self) -> tuple[dict[str, Numbers], dict[str, Numbers]]:
        """Of each method and example: how wrong it is, 0 or 1 or a squared distance, and its loss.

        >>> y, outputs = torch.tensor([0, 1]), {"lga": torch.tensor([[2.0, 0.0], [2.0, 0.0]])}
        >>> wrong, _ = HeldOut(torch.arange(2), y, outputs, "classification").mistakes()
        >>> wrong["lga"]
        array([0., 1.])
        """
        wrong, losses = {}, {}
        for name, outputs in self.outputs.items():
            if self.task == "classification":
                wrong[name] = (outputs.argmax(-1) != self.y).double().numpy()
                losses[name] = F.cross_entropy(outputs.double(), self.y, reduction="none").numpy()
            else:
                square = (outputs[:, 0].double() - self.y.double()).square()
                wrong[name], losses[name] = (square * self.spread**2).numpy(), (square / 2).numpy()
        return wrong, losses


@dataclass(frozen=True)
class Verdict:
    """A method beside the baseline; `difference` is baseline − method, so above 0 it is better."""

    method: str
    task: str
    examples: int  # held out
    errors: dict[str, Estimate]
    losses: dict[str, float]
    difference: Estimate | None
    kept: str

    @property
    def sentence(self) -> str:
        """What came of it, in one plain sentence."""
        if self.examples == 0:
            return (
                f"No label could be held out, so nothing was compared; the {self.kept} model is "
                f"kept."
            )
        errors = {name: shown_error(error.value, self.task) for name, error in self.errors.items()}
        if self.difference is None:
            return (
                f"The supervised model alone was trained: error {errors[self.kept]} on "
                f"{self.examples} held-out labels."
            )
        judged = (
            f"error {errors[self.method]} beside {errors[BASELINE]} of the supervised baseline on "
            f"{self.examples} held-out labels"
        )
        if self.errors[self.method].value == self.errors[BASELINE].value:
            return (
                f"The unlabeled data made no difference ({judged}); the {self.kept} model is kept "
                f"for its smaller loss."
            )
        if self.kept == BASELINE:
            return f"The unlabeled data did not help ({judged}); the supervised model is kept."
        if self.difference.low > 0:
            return f"The unlabeled data helped: {judged}; the {self.method} model is kept."
        return (
            f"The unlabeled data may have helped, or it is chance: {judged}; the {self.method} "
            f"model is kept."
        )


def shown_error(error: float, task: str) -> str:
    """A share of mistakes in percent, or a distance in the units of the target.

    >>> shown_error(0.1, "classification"), shown_error(59.8642, "regression")
    ('10.0 %', '59.86')
    """
    return f"{100 * error:.1f} %" if task == "classification" else f"{error:.4g}"


def judge(
    method: str,
    task: str,
    wrong: dict[str, Numbers],
    losses: dict[str, Numbers],
    *,
    seed: int,
) -> Verdict:
    """Compare by each held-out example's 0 or 1, or its squared distance, paired.

    The intervals are of 95 %: of a part that is wrong by Wilson's score, which does not call it
    certain where nothing is wrong, of all else by bootstrap over the held-out examples. They do not
    know how much another seed would change. The method is kept unless its error is the larger one;
    where the errors are the same, the smaller loss decides.

    >>> wrong = {"supervised": np.array([1.0, 1, 1, 0]), "lga": np.array([0.0, 0, 1, 0])}
    >>> verdict = judge("lga", "classification", wrong, wrong, seed=0)
    >>> verdict.kept, verdict.difference.value
    ('lga', 0.5)
    """
    count = len(wrong[method])
    if count == 0:
        return Verdict(method, task, 0, {}, {}, None, method)
    generator = np.random.default_rng(seed)
    resamples = [generator.integers(count, size=count) for _ in range(RESAMPLES)]
    drawn = {
        name: np.array([_error(mine[rows], task) for rows in resamples])
        for name, mine in wrong.items()
    }
    errors = {name: _interval(_error(mine, task), drawn[name]) for name, mine in wrong.items()}
    if task == "classification":
        errors = {name: _wilson(mine) for name, mine in wrong.items()}
    means = {name: float(mine.mean()) for name, mine in losses.items()}
    rank = {name: (errors[name].value, means[name], name == BASELINE) for name in wrong}
    difference = None
    if method != BASELINE:
        value = errors[BASELINE].value - errors[method].value
        difference = _interval(value, drawn[BASELINE] - drawn[method])
    kept = min(rank, key=rank.__getitem__)
    return Verdict(method, task, count, errors, means, difference, kept)


def _error(wrong: Numbers, task: str) -> float:
    mean = float(wrong.mean())
    return mean if task == "classification" else mean**0.5


def _wilson(wrong: Numbers) -> Estimate:
    from scipy.stats import binomtest  # a second that predicting and each worker can do without

    score = binomtest(int(wrong.sum()), len(wrong)).proportion_ci(LEVEL, method="wilson")
    return Estimate(float(wrong.mean()), float(score.low), float(score.high))


def _interval(value: float, drawn: Numbers) -> Estimate:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high))


@dataclass(frozen=True)
class Calibration:
    """The temperature, and the expected calibration error of held-out labels before and after.

    `after` is measured with temperatures that were found without the labels they are judged by.
    """

    temperature: float
    before: float
    after: float


def calibrate(outputs: Tensor, labels: Tensor) -> Calibration:
    """Find the temperature on held-out examples.

    >>> sure = 10 * F.one_hot(torch.tensor([0, 1, 0, 1] * 10)).float()
    >>> half_right = torch.tensor([0, 1, 1, 0] * 10)
    >>> calibrate(sure, half_right).temperature > 5
    True
    """
    before = calibration_error(outputs.double().softmax(-1), labels)
    after = calibration_error(calibrated(outputs, labels), labels)
    return Calibration(temperature(outputs, labels), before, after)


def temperature(outputs: Tensor, labels: Tensor) -> float:
    """The temperature of the lowest loss, with a weak pull to 1.

    Without the pull, twenty labels that are all right would make any model entirely sure.
    """
    from scipy.optimize import minimize_scalar

    outputs = outputs.double()

    def loss(log_temperature: float) -> float:
        scaled = outputs / torch.tensor(log_temperature, dtype=torch.float64).exp()
        return float(F.cross_entropy(scaled, labels, reduction="sum")) + log_temperature**2 / 2

    bounds = torch.tensor([COLDEST, HOTTEST], dtype=torch.float64).log().tolist()
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return float(torch.tensor(found.x, dtype=torch.float64).exp())


def calibrated(outputs: Tensor, labels: Tensor) -> Tensor:
    """Probabilities, each by a temperature that was found without its own label."""
    outputs = outputs.double()
    probabilities = outputs.softmax(-1)
    part = torch.arange(len(labels)) % PARTS
    for index in range(min(PARTS, len(labels)) if len(labels) > 1 else 0):
        mine, others = part == index, part != index
        own = temperature(outputs[others], labels[others])
        probabilities[mine] = (outputs[mine] / own).softmax(-1)
    return probabilities
