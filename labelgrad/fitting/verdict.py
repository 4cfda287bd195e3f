"""What held-out labels say: who knows most, whether the unlabeled examples helped, and how sure.

Witnesses, pool and student are judged by the same labels, with how sure that is. One number then
makes the probabilities of the kept model honest: temperature scaling (Guo et al., 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from labelgrad.report.data import ROLES, Estimate, Judged
from labelgrad.training.evaluation import calibration_error

BASELINE = "supervised"
LABELS, UNLABELED, POOL, STUDENT = ROLES
RESAMPLES, LEVEL = 2000, 0.95
COLDEST, HOTTEST = 0.05, 20.0  # temperatures
TAUGHT = 50.0  # the pull to 1 of a student's: the pool that it learned from is calibrated already
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
    """All who were judged; `difference` is the error of the best by labels alone − the pool's."""

    task: str
    examples: int  # hidden in turn
    rows: Sequence[Judged]
    kept: str  # by its name
    beside: str | None = None  # the best that saw labels alone
    difference: Estimate | None = None
    student_behind: Estimate | None = None  # the student's loss − the pool's

    def __post_init__(self) -> None:
        names = [row.name for row in self.rows]
        for name in (self.kept, self.beside, *([POOL] if self.examples else [])):
            if name is not None and name not in names:
                raise ValueError(f"the verdict is about {name!r}, which is none of its rows")

    def row(self, name: str) -> Judged:
        """One of the rows.

        >>> rows = [Judged("pool", "pool", None, None)]
        >>> Verdict("classification", 0, rows, kept="pool").row("pool").role
        'pool'
        """
        return next(row for row in self.rows if row.name == name)

    @property
    def judged(self) -> str:
        """Whose numbers tell what the kept model is worth: its own, or its teacher's."""
        return self.kept if self.row(self.kept).error is not None else POOL

    @property
    def sentence(self) -> str:
        """What came of it, in one plain sentence."""
        if self.examples == 0:
            return f"No label could be held out, so nothing was compared; the {self.kept} is kept."
        pool = self.row(POOL).error
        if pool is None or self.beside is None or self.difference is None:
            return f"The {self.kept} is kept, judged by {self.examples} held-out labels."
        best = self.row(self.beside).error
        assert best is not None, "only rows that were judged are compared with"
        mine, theirs = shown_error(pool.value, self.task), shown_error(best.value, self.task)
        what = (
            f"error {mine} of the pool beside {theirs} of the best that saw labels alone "
            f"({self.beside}), on {self.examples} held-out labels"
        )
        end = f"the {self.kept} is kept"
        if not any(row.role == UNLABELED for row in self.rows):
            return f"There was no unlabeled data to learn from: {what}; {end}."
        if self.difference.low > 0:
            return f"The unlabeled data helped: {what}; {end}."
        if self.difference.value > 0:
            return f"The unlabeled data may have helped, or it is chance: {what}; {end}."
        if self.difference.high < 0:
            return f"The unlabeled data did harm: {what}; {end}."
        return f"The unlabeled data made no difference that shows: {what}; {end}."

    @property
    def pool_is_better(self) -> bool:
        """Whether the student's loss is above the pool's by more than chance."""
        return self.student_behind is not None and self.student_behind.low > 0


def shown_error(error: float, task: str) -> str:
    """A share of mistakes in percent, or a distance in the units of the target.

    >>> shown_error(0.1, "classification"), shown_error(59.8642, "regression")
    ('10.0 %', '59.86')
    """
    return f"{100 * error:.1f} %" if task == "classification" else f"{error:.4g}"


@dataclass(frozen=True, eq=False)
class Answers:
    """What one that is judged said about each hidden label: outputs as networks give them."""

    name: str
    role: str
    outputs: Tensor | None  # (labels, classes) logits, or (labels, 1) values; None: not judged
    weight: float | None = None


def judge(
    task: str,
    y: Tensor,
    answers: Sequence[Answers],
    *,
    kept: str,
    importance: Numbers | None = None,
    spread: float = 1.0,
    seed: int = 0,
) -> Verdict:
    """Compare all by each hidden label's 0 or 1, or its squared distance, paired.

    The intervals are of 95 %: of a part that is wrong by Wilson's score, which does not call it
    certain where nothing is wrong, of all else by bootstrap over the hidden labels. They do not
    know how much another seed would change. `importance` says how much each label counts where
    labels have other shares of the classes than all rows have. The pool is compared with the best
    of those that saw labels alone, the best in hindsight.

    >>> y, sure = torch.tensor([0, 1, 1, 0]), torch.tensor([[2.0, 0.0]])
    >>> linear = Answers("linear", "labels", sure.repeat(4, 1))
    >>> pool = Answers("pool", "pool", 4.0 * torch.nn.functional.one_hot(y))
    >>> verdict = judge("classification", y, [linear, pool], kept="pool")
    >>> verdict.beside, verdict.difference.value
    ('linear', 0.5)
    """
    heard = [each for each in answers if each.outputs is not None]
    if not len(y) or not heard:
        rows = [_not_judged(each, kept) for each in answers]
        return Verdict(task, 0, rows, kept)
    counts = np.ones(len(y)) if importance is None else importance
    outputs = {each.name: each.outputs for each in heard if each.outputs is not None}
    wrong, losses = HeldOut(torch.arange(len(y)), y, outputs, task, spread).mistakes()
    generator = np.random.default_rng(seed)
    resamples = [generator.integers(len(y), size=len(y)) for _ in range(RESAMPLES)]
    drawn = {
        name: np.array([_error(mine[rows], counts[rows], task) for rows in resamples])
        for name, mine in wrong.items()
    }

    def judged(each: Answers) -> Judged:
        if each.name not in wrong:
            return _not_judged(each, kept)
        mine = wrong[each.name]
        even = task == "classification" and np.ptp(counts) == 0
        error = _wilson(mine) if even else _interval(_error(mine, counts, task), drawn[each.name])
        loss = float(np.average(losses[each.name], weights=counts))
        sure = None
        if task == "classification":
            sure = calibration_error(outputs[each.name].double().softmax(-1), y)
        return Judged(each.name, each.role, error, loss, sure, each.weight, each.name == kept)

    rows = [judged(each) for each in answers]
    beside, difference = None, None
    alone = [row for row in rows if row.role == LABELS and row.error is not None]
    if alone and POOL in wrong:
        best = min(alone, key=lambda row: (row.error.value if row.error else 0.0, row.loss or 0.0))
        beside = best.name
        value = _error(wrong[beside], counts, task) - _error(wrong[POOL], counts, task)
        difference = _interval(value, drawn[beside] - drawn[POOL])
    behind = None
    if STUDENT in losses and POOL in losses:
        more = losses[STUDENT] - losses[POOL]
        each = np.array([np.average(more[rows], weights=counts[rows]) for rows in resamples])
        behind = _interval(float(np.average(more, weights=counts)), each)
    return Verdict(task, len(y), rows, kept, beside, difference, behind)


def _not_judged(each: Answers, kept: str) -> Judged:
    return Judged(each.name, each.role, None, None, None, each.weight, each.name == kept)


def _error(wrong: Numbers, counts: Numbers, task: str) -> float:
    mean = float(np.average(wrong, weights=counts))
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
    """Find a student's temperature on held-out examples; many must speak for another than 1.

    >>> sure = 10 * F.one_hot(torch.tensor([0, 1, 0, 1] * 10)).float()
    >>> half_right = torch.tensor([0, 1, 1, 0] * 10)
    >>> calibrate(sure, half_right).temperature > 3
    True
    """
    before = calibration_error(outputs.double().softmax(-1), labels)
    after = calibration_error(calibrated(outputs, labels), labels)
    return Calibration(temperature(outputs, labels, TAUGHT), before, after)


def temperature(outputs: Tensor, labels: Tensor, pull: float = 1.0) -> float:
    """The temperature of the lowest loss, with a pull to 1, a weak one where nobody says.

    Without the pull, twenty labels that are all right would make any model entirely sure.
    """
    from scipy.optimize import minimize_scalar

    outputs = outputs.double()

    def loss(log_temperature: float) -> float:
        scaled = outputs / torch.tensor(log_temperature, dtype=torch.float64).exp()
        found = float(F.cross_entropy(scaled, labels, reduction="sum"))
        return found + pull * log_temperature**2 / 2

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
        own = temperature(outputs[others], labels[others], TAUGHT)
        probabilities[mine] = (outputs[mine] / own).softmax(-1)
    return probabilities
