"""Settings for the picture experiments, by a search that gives every term the same budget.

Each method has a learning rate and the main settings of its terms, one each, but two for LGA. A sum
is searched for as a sum, with as many trials as its terms have together. The first trial has the
usual values, a sum's second one those that its terms were found with; the others are Optuna's.
Trials are scored by validation error, on a split that no experiment reports, and never see a test
picture. One trial of each method is under way at a time, and its settings follow from the trials
before it, so that a search with the same seed gives the same settings, on however many cores,
killed or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labelgrad.functional import mixed_seed
from labelgrad.methods import SearchRange
from labelgrad.paper.picture_task import Task
from labelgrad.paper.picture_trial import PictureTrial
from labelgrad.paper.settings import (
    LEARNING_RATE,
    Hyperparameters,
    first_settings,
    own_settings,
)
from labelgrad.training.errors import TrainingDivergedError
from labelgrad.training.results import Line

SEED = 1000  # of the split


class Search:
    """One method's trials, kept by Optuna in a SQLite file that survives the process.

    A trial that was under way when its process died, and has no line in `finished`, is given up and
    asked for again. Where the file is lost, `finished` is enough to go on.
    """

    def __init__(
        self, path: Path, data: str, method: str, *, seed: int = 0, finished: Sequence[Line] = ()
    ):
        optuna = needed_optuna()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.method, self.seed = method, seed
        self.study = optuna.create_study(
            storage=f"sqlite:///{path}",
            study_name=f"{data}, {method}",
            direction="minimize",
            load_if_exists=True,
        )
        self._catch_up({line["number"]: line for line in finished if line["method"] == method})

    @property
    def done(self) -> int:
        """How many trials are finished."""
        return len(self._in_state("COMPLETE"))

    def ask(self) -> tuple[int, Hyperparameters]:
        """The number and the settings of the next trial."""
        import optuna

        number, first = self.done, first_settings(self.method)
        if number < len(first) and not self._in_state("WAITING"):
            self.study.enqueue_trial(first[number])
        seed = mixed_seed(self.seed, number) % 2**32
        self.study.sampler = optuna.samplers.TPESampler(seed=seed)
        return number, suggested(self.study.ask(), self.method)

    def tell(self, value: float) -> None:
        """The trial that was asked for last has this validation error."""
        self.study.tell(self._in_state("RUNNING")[-1], value)

    def _in_state(self, name: str) -> list[int]:
        return [trial.number for trial in self.study.trials if trial.state.name == name]

    def _catch_up(self, finished: dict[int, Line]) -> None:
        import optuna

        for number in self._in_state("RUNNING"):
            if self.done in finished:
                self.study.tell(number, finished[self.done]["validation_error"])
            else:
                self.study.tell(number, state=optuna.trial.TrialState.FAIL)
                self.study.enqueue_trial(self.study.trials[number].params)
        while self.done in finished:
            self._add(finished[self.done])

    def _add(self, line: Line) -> None:
        """Take up a finished trial that the file does not know."""
        import optuna

        chosen = Hyperparameters(**line["settings"])
        params = {f"{term}.{k}": v for term, own in chosen.terms.items() for k, v in own.items()}
        ranges = {"learning_rate": LEARNING_RATE, **own_settings(self.method)}
        self.study.add_trial(
            optuna.trial.create_trial(
                params={"learning_rate": chosen.learning_rate, **params},
                distributions={
                    name: optuna.distributions.FloatDistribution(own.low, own.high, log=True)
                    for name, own in ranges.items()
                },
                value=line["validation_error"],
            )
        )


def needed_optuna() -> Any:
    """Optuna, or how to get it."""
    try:
        import optuna
    except ImportError:
        raise ImportError(
            "a search needs Optuna, which is not installed; pip install 'labelgrad[tune]'."
        ) from None
    return optuna


def suggested(trial: Any, method: str) -> Hyperparameters:
    """The settings that Optuna has for a trial of the method."""
    rate = _suggest(trial, "learning_rate", LEARNING_RATE)
    terms: dict[str, dict[str, float]] = {}
    for name, own in own_settings(method).items():
        term, setting = name.split(".")
        terms.setdefault(term, {})[setting] = _suggest(trial, name, own)
    return Hyperparameters(rate, terms)


def _suggest(trial: Any, name: str, own: SearchRange) -> float:
    return float(f"{trial.suggest_float(name, own.low, own.high, log=True):.3g}")


class PictureTuningTrial:
    """One trial of the search: its history is a single line, without any test picture in it."""

    def __init__(
        self, *, task: Task, number: int, settings: Hyperparameters, scale: str, **where: Any
    ):
        self._inner = PictureTrial(task, scale=scale, settings=settings, with_test=False, **where)
        self.steps = self._inner.steps
        self._head = {"number": number, "settings": asdict(settings)}
        self._diverged = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            yield from self._inner
        except TrainingDivergedError:
            self._diverged = True

    @property
    def history(self) -> list[Line]:
        """The one line of this trial; one that diverged is wrong everywhere."""
        if self._diverged:
            lost = {"step": 0, "validation_error": 1.0}
            return [{**self._inner.task.line, **self._head, **lost, "diverged": True}]
        return [{**line, **self._head} for line in self._inner.history]
