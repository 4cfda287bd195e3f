"""Did the unlabeled examples help? Two methods on the same held-out labels, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labelgrad.fitting.wording import shown_error
from labelgrad.report.data import Estimate

BASELINE = "supervised"
RESAMPLES, LEVEL = 2000, 0.95
Numbers = NDArray[np.float64]


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
        if self.difference is None or self.method == BASELINE:
            return self._without_comparison()
        here, there = self.errors[self.method].value, self.errors[BASELINE].value
        beside = f"{self._number(here)} beside {self._number(there)}"
        judged = f"error {beside} of the supervised baseline on {self.examples} held-out labels"
        if here == there:
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

    def _without_comparison(self) -> str:
        if self.examples == 0:
            return (
                f"No label could be held out, so nothing was compared; the {self.kept} model is "
                f"kept."
            )
        found = self._number(self.errors[self.kept].value)
        return (
            f"The supervised model alone was trained: error {found} on {self.examples} held-out "
            f"labels."
        )

    def _number(self, error: float) -> str:
        return shown_error(error, self.task)


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
    drawn = _resampled(wrong, task, count, seed)
    errors = {name: _of_error(mine, task, drawn[name]) for name, mine in wrong.items()}
    means = {name: float(mine.mean()) for name, mine in losses.items()}
    rank = {name: (errors[name].value, means[name], name == BASELINE) for name in wrong}
    difference = None
    if method != BASELINE:
        value = errors[BASELINE].value - errors[method].value
        difference = _estimate(value, drawn[BASELINE] - drawn[method])
    kept = min(rank, key=rank.__getitem__)
    return Verdict(method, task, count, errors, means, difference, kept)


def _resampled(wrong: dict[str, Numbers], task: str, count: int, seed: int) -> dict[str, Numbers]:
    generator = np.random.default_rng(seed)
    rows = [generator.integers(count, size=count) for _ in range(RESAMPLES)]
    return {
        name: np.array([_error(mine[drawn], task) for drawn in rows])
        for name, mine in wrong.items()
    }


def _error(wrong: Numbers, task: str) -> float:
    mean = float(wrong.mean())
    return mean if task == "classification" else mean**0.5


def _of_error(wrong: Numbers, task: str, drawn: Numbers) -> Estimate:
    from scipy.stats import binomtest  # a second that predicting and each worker can do without

    if task == "regression":
        return _estimate(_error(wrong, task), drawn)
    score = binomtest(int(wrong.sum()), len(wrong)).proportion_ci(LEVEL, method="wilson")
    return Estimate(_error(wrong, task), float(score.low), float(score.high))


def _estimate(value: float, drawn: Numbers) -> Estimate:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high))
