"""How good a model is: error, loss and calibration on examples whose labels are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from labelgrad.losses import CrossEntropy, Loss
from labelgrad.training.batches import Examples, as_labels, as_tensor

Metric = Callable[[Tensor, Tensor], float | Tensor]  # of the outputs and the labels
OURS = ("error", "loss", "ece")
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch the model to evaluation, without gradients, and put every module back after."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def predict(model: nn.Module, x: Tensor | Examples, *, batch_size: int = 1000) -> Tensor:
    """The model's outputs on `x`, in evaluation mode, on the device of `x`.

    >>> predict(nn.Linear(3, 2), torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    if not isinstance(x, Tensor | Examples):
        x = as_tensor("x", x)
    parts = x.split(batch_size) if isinstance(x, Tensor) else x.parts(batch_size)
    with evaluating(model):
        return torch.cat([as_outputs(model(part.to(device))).to(part.device) for part in parts])


def as_outputs(found: object) -> Tensor:
    """What a model gave, which must be one tensor.

    >>> as_outputs((torch.zeros(1), None))
    Traceback (most recent call last):
    ValueError: the model must give one tensor of outputs, got a tuple; return that.
    """
    if not isinstance(found, Tensor):
        kind = type(found).__name__
        raise ValueError(f"the model must give one tensor of outputs, got a {kind}; return that.")
    return found


def evaluate(
    model: nn.Module,
    x: Tensor | Examples,
    y: Tensor,
    *,
    loss: Loss | None = None,
    batch_size: int = 1000,
    metrics: Mapping[str, Metric] | None = None,
) -> dict[str, float]:
    """Error, loss and, for classes, expected calibration error; and `metrics` of one's own.

    The error of a classification is the part that is wrong; that of a regression is the root of
    the mean squared distance. A metric is a function of outputs and labels.

    >>> model = nn.Linear(2, 2)
    >>> sorted(evaluate(model, torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])))
    ['ece', 'error', 'loss']
    """
    loss, y = CrossEntropy() if loss is None else loss, as_labels(y)
    outputs = predict(model, x, batch_size=batch_size)
    found = {"error": 0.0, "loss": float(loss(outputs, y))}
    if isinstance(loss, CrossEntropy):
        found["error"] = float((outputs.argmax(-1) != y).double().mean())
        found["ece"] = reliability(outputs.softmax(-1), y).ece
    else:
        found["error"] = float((outputs - y.reshape_as(outputs)).square().mean().sqrt())
    return found | {name: float(metric(outputs, y)) for name, metric in (metrics or {}).items()}


@dataclass(frozen=True)
class Bin:
    """Predictions of about the same confidence: its mean, the part that is right, how many."""

    confidence: float
    accuracy: float
    count: int


@dataclass(frozen=True)
class Reliability:
    """How far confidence can be believed: the bins that hold anything, and their error."""

    bins: Sequence[Bin]
    ece: float


def reliability(probabilities: ArrayLike, labels: ArrayLike, *, bins: int = 15) -> Reliability:
    """Predictions in equal bins of their highest probability, and the calibration error.

    The expected calibration error (Guo et al., 2017) is the mean distance of confidence from
    accuracy, by confidence.

    >>> reliability([[0.75, 0.25], [0.75, 0.25]], [0, 1])
    Reliability(bins=(Bin(confidence=0.75, accuracy=0.5, count=2),), ece=0.25)
    """
    confidence, guess = torch.as_tensor(probabilities).double().max(-1)
    right = (guess == torch.as_tensor(labels, device=guess.device)).double()
    place = (confidence * bins).ceil().long().clamp(1, bins) - 1
    columns = torch.stack([torch.ones_like(right), confidence, right])
    sums = torch.zeros(3, bins, dtype=torch.float64, device=right.device)
    sums.index_add_(1, place, columns)
    filled = [(count, sure, good) for count, sure, good in sums.T.tolist() if count]
    error = sum(abs(sure - good) for _, sure, good in filled) / len(right)
    return Reliability(tuple(Bin(s / n, good / n, int(n)) for n, s, good in filled), error)


def fit_temperature(
    logits: NDArray[Any],
    labels: NDArray[Any],
    *,
    penalty: float = 1.0,
    weights: NDArray[Any] | float = 1.0,
) -> float:
    """The temperature of the lowest loss of held-out labels (Guo et al., 2017).

    A penalty, in labels, on its distance from 1 leaves it there where labels are few. Labels may
    have weights.

    >>> sure = np.array([[4.0, 0.0]] * 40)
    >>> fit_temperature(sure, np.array([0, 0, 0, 1] * 10)) > 2
    True
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    def loss(log_temperature: float) -> float:
        scaled = log_softmax(logits / np.exp(log_temperature), axis=1)
        fit = -float((weights * scaled[np.arange(len(labels)), labels]).sum())
        return fit + penalty * log_temperature**2 / 2

    bounds = np.log([MIN_TEMPERATURE, MAX_TEMPERATURE])
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))
