"""Scores of all models on held-out labels: the leaderboard, and whether unlabeled data helped.

Base models, ensemble and student are scored on the same labels, which none of them has seen. A
temperature calibrates the student's probabilities (Guo et al., 2017).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from labelgrad.auto.task import Array, Classification, Task, log_normalize
from labelgrad.training.evaluation import fit_temperature, reliability

if TYPE_CHECKING:
    from labelgrad.auto.distillation import Student
    from labelgrad.auto.stacking import Ensemble

LABELS_ONLY, UNLABELED, ENSEMBLE, STUDENT = "labels-only", "unlabeled", "ensemble", "student"
USE = "Next: use the labels that are confident enough for you, or audit them for a guarantee"
PLAIN = "Next: {0} alone may be enough (--base-models {0!r})"
LABEL_MORE = "Next: label more examples"
FIGURES = ("error", "error_low", "error_high", "loss", "calibration_error", "weight", "seconds")
RESAMPLES, LEVEL = 2000, 0.95
TEMPERATURE_PENALTY = 50.0  # labels; the ensemble that teaches a student is calibrated already
PARTS = 5  # of the held-out labels, each calibrated by a temperature of the others


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """A row of the leaderboard."""

    name: str
    group: str  # "labels-only", "unlabeled", "ensemble" or "student"
    error: Interval | None = None  # None where it was not evaluated
    loss: float | None = None
    calibration_error: float | None = None
    weight: float | None = None  # in the ensemble
    seconds: float | None = None


@dataclass(frozen=True)
class Calibration:
    """The temperature, and the expected calibration error of held-out labels before and after.

    `after` uses temperatures that were fitted without the labels that they are evaluated on.
    """

    temperature: float
    before: float
    after: float


@dataclass(frozen=True)
class Evaluation:
    """All scores on held-out labels.

    >>> ensemble = Score("ensemble", "ensemble", Interval(0.1, 0.05, 0.2), 0.3)
    >>> student = Score("student", "student", Interval(0.1, 0.05, 0.2), 0.3)
    >>> linear = Score("linear", "labels-only", Interval(0.3, 0.2, 0.4), 0.6)
    >>> graph = Score("neighbours", "unlabeled", Interval(0.2, 0.1, 0.3), 0.4)
    >>> evaluation = Evaluation(
    ...     task="classification",
    ...     examples=40,
    ...     scores=(linear, graph, ensemble, student),
    ...     best_supervised="linear",
    ...     difference=Interval(0.2, 0.1, 0.3),
    ... )
    >>> print("; ".join(evaluation.summary.split("; ")[:1]))  # doctest: +ELLIPSIS
    The unlabeled data improved on the best supervised model: error 10.0 % for the ensemble, ...
    """

    task: str
    examples: int  # held-out labels
    scores: tuple[Score, ...]
    majority_error: float | None = None  # of the majority class, or of the mean value
    best_supervised: str | None = None  # the best that uses labels only
    difference: Interval | None = None  # its error minus the ensemble's, paired
    calibration: Calibration | None = None

    def score(self, name: str) -> Score:
        """The score of a model."""
        return next(score for score in self.scores if score.name == name)

    @property
    def summary(self) -> str:
        """Whether unlabeled data improved on the best supervised model, and what to do next."""
        saved = self.score(STUDENT).error
        own = f" ({shown_error(saved.value, self.task)})" if saved is not None else ""
        end = f"the saved model is the student{own}"
        if not self.examples:
            return f"No label could be held out, so no model was evaluated; {end}. {LABEL_MORE}."
        ensemble, (finding, advice) = self.score(ENSEMBLE).error, self._finding
        figures = [("the ensemble", ensemble)]
        if self.best_supervised is not None:
            figures.append((self.best_supervised, self.score(self.best_supervised).error))
        if self.majority_error is not None:
            what = "majority class" if self.task == Classification.name else "mean value"
            figures.append((f"the {what}", Interval(self.majority_error, 0, 0)))
            if ensemble is not None and ensemble.high >= self.majority_error:
                advice = f"{LABEL_MORE}, for the ensemble may be no better than the {what}"
        if saved and ensemble and saved.low > ensemble.high:
            advice = "Next: --resume --keep-ensemble, for the ensemble is better than the student"
        errors = ", ".join(
            f"{shown_error(error.value, self.task)} for {name}" for name, error in figures if error
        )
        return f"{finding}: error {errors}, on {self.examples} held-out labels; {end}. {advice}."

    @property
    def _finding(self) -> tuple[str, str]:
        if self.difference is None:
            return "The ensemble was evaluated", USE
        if not any(score.group == UNLABELED for score in self.scores):
            return "No base model used unlabeled data", USE
        models = [score for score in self.scores if score.weight is not None]
        used = [score for score in models if score.weight]
        if len(used) == 1 < len(models):
            alone = f"tacking is no better than {used[0].name} alone"
            if used[0].group != LABELS_ONLY:
                return f"S{alone}", USE
            return f"The unlabeled data did not help, and s{alone}", PLAIN.format(used[0].name)
        if self.difference.low > 0:
            return "The unlabeled data improved on the best supervised model", USE
        losses = [self.score(name).loss or 0.0 for name in (ENSEMBLE, str(self.best_supervised))]
        if (self.difference.value, losses[1] - losses[0]) > (0, 0):
            return (
                "The unlabeled data may have improved on the best supervised model, but the "
                "difference is within chance"
            ), USE
        worse = (
            "made the predictions worse than" if self.difference.high < 0 else "did not improve on"
        )
        plain = PLAIN.format(self.best_supervised)
        return f"The unlabeled data {worse} the best supervised model", plain

    def leaderboard(self) -> pl.DataFrame:
        """The scores as a table, the lowest loss first.

        Returns
        -------
        polars.DataFrame
            With the columns model, group, error, error_low, error_high, loss, calibration_error,
            weight and seconds.
        """
        rows = []
        for score in sorted(self.scores, key=lambda s: np.inf if s.loss is None else s.loss):
            error = (None,) * 3 if score.error is None else astuple(score.error)
            figures = (score.loss, score.calibration_error, score.weight, score.seconds)
            rows.append((score.name, score.group, *error, *figures))
        types: dict[str, Any] = {"model": pl.String, "group": pl.String}
        types |= dict.fromkeys(FIGURES, pl.Float64)
        return pl.DataFrame(rows, types, orient="row")


def evaluate(ensemble: Ensemble, student: Student, *, seed: int = 0) -> Evaluation:
    """Score base models, ensemble and student on the held-out labels.

    Intervals have 95 % confidence: Wilson's for an error rate, so that no error at all is not
    taken for certainty, and bootstrap for everything else; where labels have groups, groups are
    drawn. They do not cover the variation by seed. Labels count by the ratio of the class prior to
    their own frequencies. The ensemble is compared with the best supervised model, chosen in
    hindsight.

    Parameters
    ----------
    ensemble : Ensemble
        With the base models.
    student : Student
        The model that is saved.
    seed : int
        Seeds the bootstrap.

    Returns
    -------
    Evaluation
    """
    task, y, has_unlabeled = ensemble.task, ensemble.held_out_y, len(ensemble.dataset.unlabeled)
    scores: list[Score] = []
    predictions: dict[str, Array] = {}
    for each in ensemble.cross_fits:
        group = UNLABELED if each.uses_unlabeled and has_unlabeled else LABELS_ONLY
        weight, seconds = ensemble.weights[each.name], round(each.seconds, 3)
        scores.append(Score(each.name, group, weight=weight, seconds=seconds))
        predictions[each.name] = each.out_of_fold
    scores.append(Score(ENSEMBLE, ENSEMBLE))
    scores.append(Score(STUDENT, STUDENT, seconds=round(student.seconds, 3)))
    predictions[ENSEMBLE] = ensemble.out_of_fold
    if student.out_of_fold is not None:
        predictions[STUDENT] = student.out_of_fold
    if not len(y):
        return Evaluation(task.name, 0, tuple(scores))
    groups = ensemble.folds.group
    unit = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    units = int(unit.max()) + 1
    drawn = np.random.default_rng(seed).integers(units, size=(RESAMPLES, units))
    resamples = np.stack([np.bincount(each, minlength=units)[unit] for each in drawn])
    if isinstance(task, Classification):
        importance = (ensemble.class_prior / ensemble.prior)[y]
        majority = float(1 - ensemble.class_prior.max())
    else:
        importance, majority = np.ones(len(y)), float(task.scale * y.std())
    held_out = _HeldOut(task, y, importance, resamples, units < len(y))
    scores = [held_out.scored(score, predictions.get(score.name)) for score in scores]
    supervised = [each for each in scores if each.group == LABELS_ONLY]
    best, difference = None, None
    if supervised:
        best = min(supervised, key=lambda each: (each.error and each.error.value, each.loss)).name
        one, other = predictions[best], ensemble.out_of_fold
        value = task.error(one, y, importance) - task.error(other, y, importance)
        difference = _quantiles(value, held_out.errors(one) - held_out.errors(other))
    found = Evaluation(task.name, len(y), tuple(scores), majority, best, difference)
    return replace(found, calibration=student.calibration)


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Labels that predictions are scored on, with one set of bootstrap resamples."""

    task: Task
    y: Array
    importance: Array
    resamples: Array  # (resamples, labels) how often each was drawn
    are_groups: bool

    def scored(self, score: Score, prediction: Array | None) -> Score:
        """The score with its figures, if there is a prediction of the held-out labels."""
        from scipy.stats import binomtest

        if prediction is None:
            return score
        y, is_classes = self.y, isinstance(self.task, Classification)
        value = self.task.error(prediction, y, self.importance)
        if is_classes and np.ptp(self.importance) == 0 and not self.are_groups:
            test = binomtest(round(value * len(y)), len(y))
            bounds = test.proportion_ci(LEVEL, method="wilson")
            error = Interval(value, float(bounds.low), float(bounds.high))
        else:
            error = _quantiles(value, self.errors(prediction))
        loss = float(np.average(self.task.losses(prediction, y), weights=self.importance))
        calibration = reliability(np.exp(prediction), y).ece if is_classes else None
        return replace(score, error=error, loss=loss, calibration_error=calibration)

    def errors(self, prediction: Array) -> Array:
        """The error of each resample."""
        mistakes = self.task.mistakes(prediction, self.y)
        weights = self.importance * self.resamples
        means: Array = weights @ mistakes / weights.sum(1)
        return means if isinstance(self.task, Classification) else np.sqrt(means)


def _quantiles(value: float, drawn: Array) -> Interval:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high))


def shown_error(error: float, task: str) -> str:
    """An error rate in percent, or an error in the units of the target.

    >>> shown_error(0.1, "classification"), shown_error(59.8642, "regression")
    ('10.0 %', '59.86')
    """
    return f"{100 * error:.1f} %" if task == Classification.name else f"{error:.4g}"


def calibrate(prediction: Array, y: Array) -> Calibration:
    """Fit a student's temperature to two or more held-out labels; few leave it near 1.

    Parameters
    ----------
    prediction : array of shape (n, classes)
        Log-probabilities.
    y : array of shape (n,)
        Class indices.

    Examples
    --------
    >>> sure = np.log(np.where(np.eye(2)[[0, 1] * 20], 0.9999, 0.0001))
    >>> calibrate(sure, np.array([0, 1, 1, 0] * 10)).temperature > 3
    True
    """
    temperature = partial(fit_temperature, penalty=TEMPERATURE_PENALTY)
    cooled, part = prediction.copy(), np.arange(len(y)) % PARTS
    for index in range(min(PARTS, len(y))):
        mine = part == index
        cooled[mine] /= temperature(prediction[~mine], y[~mine])
    before, after = (
        reliability(np.exp(log_normalize(each)), y).ece for each in (prediction, cooled)
    )
    return Calibration(temperature(prediction, y), before, after)
