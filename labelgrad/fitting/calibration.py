"""One number that makes probabilities honest: temperature scaling (Guo et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from labelgrad.training.evaluation import calibration_error

COLDEST, HOTTEST = 0.05, 20.0
PARTS = 5


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
