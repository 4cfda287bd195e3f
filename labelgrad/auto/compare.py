"""`labelgrad.compare`: models and seeds on the same held-out labels, and what may be chance.

Chance enters twice: another seed fits another model, and other labels would have scored it. A
difference of two models is a table with a row for each seed and a column for each held-out label.
The variance of its mean is estimated as that of its row means plus that of its column means, over
their numbers; what both share is counted twice, so that intervals are rather too wide. They are
Student's, with degrees of freedom after Satterthwaite: few seeds make them wide where seeds matter.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import polars as pl
from joblib import effective_n_jobs

from labelgrad.auto.assemble import subsample
from labelgrad.auto.base_models.base import BaseModel
from labelgrad.auto.base_models.registry import base_models
from labelgrad.auto.config import FitConfig, Options, listed_names
from labelgrad.auto.cross_fit import cross_fit, label_groups, make_folds
from labelgrad.auto.data.dataset import Dataset, read
from labelgrad.auto.distillation import distill
from labelgrad.auto.evaluation import ENSEMBLE, LEVEL, STUDENT, Interval, shown_error
from labelgrad.auto.events import SILENT, Events
from labelgrad.auto.run import fingerprint
from labelgrad.auto.stacking import stack
from labelgrad.auto.task import Array, Classification
from labelgrad.files import write_whole
from labelgrad.schedules import check_count

Line = dict[str, Any]

SAME_FOR_ALL = ("network", "steps", "mirror", "fine_tune", "encoder")  # options of a comparison
FIELDS = {"model", "seed", "loss", "seconds", "rows", "mistakes"}  # of a line
DIFFERENCE = ("difference", "difference_low", "difference_high")
COLUMNS = ("error", "std_over_seeds", *DIFFERENCE, "loss", "seconds")  # after the model
FEW_SEEDS = 6
RESULTS, SETTINGS = "results.jsonl", "settings.json"


@dataclass(frozen=True)
class ComparedModel:
    """A model over all seeds; `difference` is its error minus that of the best, which has none."""

    name: str
    error: float
    error_std: float  # over the seeds
    difference: Interval | None
    loss: float
    seconds: float  # of one seed


@dataclass(frozen=True)
class Comparison:
    """What a comparison found."""

    task: str
    models: tuple[ComparedModel, ...]  # in the order in which they were given
    seeds: int
    labels: int  # held out, of all seeds together
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> ComparedModel:
        """The model with the lowest error, and with the lower loss among equals."""
        return next(model for model in self.models if model.difference is None)

    @property
    def title(self) -> str:
        """What the table is of."""
        return f"{self.seeds} seeds, {self.labels} held-out labels"

    def table(self) -> pl.DataFrame:
        """One row per model, the lowest error first."""
        rows = [
            (each.name, each.error, each.error_std)
            + ((None,) * 3 if each.difference is None else astuple(each.difference))
            + (each.loss, each.seconds)
            for each in sorted(self.models, key=lambda model: (model.error, model.loss))
        ]
        types = {"model": pl.String} | dict.fromkeys(COLUMNS, pl.Float64)
        return pl.DataFrame(rows, types, orient="row")

    @property
    def summary(self) -> str:
        """Which model is best, whether that is more than chance, and what limits the answer."""
        others = [model for model in self.models if model.difference is not None]
        worse = [each.name for each in others if each.difference and each.difference.low > 0]
        tied = [each.name for each in others if each.name not in worse]
        start = f"{self.best.name} has the lowest error, {shown_error(self.best.error, self.task)}"
        parts = []
        if worse:
            parts.append(f"better than {_and(worse)} by more than chance")
        if tied:
            parts.append(f"its difference from {_and(tied)} may be chance")
        return f"{start}: {'; '.join(parts)}. {self._limits}" if parts else f"{start}."

    @property
    def _limits(self) -> str:
        together = f"The intervals hold together with {100 * LEVEL:.0f} % confidence."
        if self.seeds == 1:
            return f"{together} One seed tells nothing about chance in training."
        if self.seeds < FEW_SEEDS:
            return f"{together} With more seeds, smaller differences would show."
        return f"{together} The best was chosen on these labels, so its error is a little too low."


def compare(
    data: Any,
    y: Any = None,
    *,
    models: str | Sequence[str] | None = None,
    seeds: int = 3,
    out: str | Path | None = None,
    config: FitConfig | None = None,
    events: Events = SILENT,
    **options: Unpack[Options],
) -> Comparison:
    """Cross-validate several models with several seeds, and say which is best or if it is chance.

    Parameters
    ----------
    data, y
        As in `labelgrad.fit`.
    models
        Names of base models and of training methods such as "lga+vat", "ensemble" and "student"
        (those of the other names); by default `base_models`, or else all that `fit` would score.
    seeds
        How often the labels are dealt into folds and each model is fitted with another seed.
    out
        A folder for finished trials; the same call continues there.
    config
        Options of `fit` in one object; `options` override it.
    events
        Receives notes and progress.
    **options
        Options of `fit`.

    Returns
    -------
    Comparison
        Errors, losses and paired intervals.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> y = np.where(np.arange(60) < 24, X[:, 0] > 0, -1)
    >>> found = compare(X, y, models="linear,majority", seeds=2)
    >>> found.best.name, found.labels
    ('linear', 24)

    """
    check_count("seeds", seeds)
    config = (config or FitConfig()).override(options)
    dataset = subsample(read(data, y, config, events), config).dataset
    names = config.base_models if models is None else listed_names(models)
    own = (ENSEMBLE, STUDENT) if dataset.raw is None else (ENSEMBLE,)  # one network is not scored
    stacked = [name for name in own if names is None or name in names]
    others = [name for name in names or () if name not in own]
    fitted = base_models(others or None, config, dataset)
    compared = [*(model.name for model in fitted), *stacked]
    if len(compared) < 2:
        raise ValueError(f"`models` must name two or more different models, got {compared[0]}.")
    if not len(make_folds(dataset.y, dataset.task, 0, label_groups(dataset)[0])):
        raise ValueError(
            f"None of the {len(dataset.labeled)} labels can be held out: a comparison needs two "
            f"labels of a class, or four values."
        )
    lines = [] if out is None else _finished(Path(out), dataset, config)
    parts = [model.name for model in fitted]  # of the ensemble
    lines = [line for line in lines if line.get("of") in (None, parts)]
    notes: dict[str, None] = {}
    is_serial = effective_n_jobs(None if config.workers == 1 else config.workers) == 1
    for seed in range(seeds):
        events.progress("seeds", seed, seeds)
        done = {line["model"] for line in lines if line["seed"] == seed}
        again = not done.issuperset(stacked)  # an ensemble needs all models at once
        missing = [model for model in fitted if again or model.name not in done]
        size = 1 if is_serial and not again else len(missing)
        for at in range(0, len(missing), size or 1):
            some = missing[at : at + size]
            new, left_out = _trials(some, stacked if again else [], dataset, config, seed, events)
            notes |= dict.fromkeys(left_out)
            lines += [line for line in new if line["model"] not in done]
            if out is not None:  # whenever it is killed, all lines of a batch are there or none
                whole = "".join(json.dumps(line) + "\n" for line in lines)
                write_whole(Path(out) / RESULTS, whole.encode())
    events.progress("seeds", seeds, seeds)
    return rank(dataset.task.name, compared, lines, seeds, tuple(notes))


def _trials(
    models: Sequence[BaseModel],
    stacked: Sequence[str],
    dataset: Dataset,
    config: FitConfig,
    seed: int,
    events: Events,
) -> tuple[list[Line], list[str]]:
    """A line for each model: how wrong it was about every held-out label."""
    config = config.override({"seed": seed, "label_sampling": "random"})  # labels as they are
    task = dataset.task
    folds = make_folds(dataset.y, task, seed, label_groups(dataset)[0])
    y = dataset.y[folds.rows]
    fits, notes = cross_fit(models, dataset, folds, config, events)
    found: dict[str, tuple[Any, float]] = {fit.name: (fit.out_of_fold, fit.seconds) for fit in fits}
    if stacked and fits:
        ensemble = stack(fits, dataset, folds, config)
        found[ENSEMBLE] = ensemble.out_of_fold, sum(fit.seconds for fit in fits)
        if STUDENT in stacked:
            student = distill(ensemble, dataset, config, events=events)
            found[STUDENT] = student.out_of_fold, student.seconds
    parts = [model.name for model in models]
    lines: list[Line] = [
        {
            "model": name,
            "seed": seed,
            "loss": float(task.losses(prediction, y).mean()),
            "seconds": round(seconds, 2),
            "rows": folds.rows.tolist(),
            "mistakes": task.mistakes(prediction, y).tolist(),
            "of": parts if name in stacked else None,
        }
        for name, (prediction, seconds) in found.items()
    ]
    return lines, notes


def _finished(folder: Path, dataset: Dataset, config: FitConfig) -> list[Line]:
    """The finished trials in a folder, all of the same data and options."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"A comparison needs a folder, and {folder} is a file; choose another.")
    saved, results, settings = config.to_dict(), folder / RESULTS, folder / SETTINGS
    wanted: Line = {"data": fingerprint(dataset), "task": dataset.task.name}
    wanted |= {name: saved.get(name) for name in SAME_FOR_ALL}
    try:
        lines = results.read_text().splitlines() if results.exists() else []
        found: list[Line] = [json.loads(line) for line in lines]
        earlier = json.loads(settings.read_text()) if settings.exists() else wanted
        changed = [name for name in wanted if earlier[name] != wanted[name]]
        whole = all(line.keys() >= FIELDS for line in found)
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise ValueError(f"The results in {folder} are damaged or of another kind; choose another.")
    if changed:
        name = changed[0]
        raise ValueError(
            f"{folder} holds results with {name} = {earlier[name]}, and now it is {wanted[name]}; "
            f"use another folder with --out."
        )
    write_whole(settings, json.dumps(wanted).encode())
    return found


def rank(
    task: str, names: Sequence[str], lines: Sequence[Line], seeds: int, notes: Sequence[str] = ()
) -> Comparison:
    """Compare models by the lines of their trials; a model without a line for a seed is left out.

    >>> lines = [
    ...     {"model": m, "seed": s, "loss": 1, "seconds": 1, "rows": [0, 1, 2, 3], "mistakes": e}
    ...     for s in range(2)
    ...     for m, e in (("a", [1, 1, 1, 0]), ("b", [0, 0, 1, 0]))
    ... ]
    >>> found = rank("classification", ["a", "b"], lines, 2)
    >>> found.best.name, found.models[0].difference.value
    ('b', 0.5)
    """
    lines = [line for line in lines if line["seed"] < seeds]
    by_model = {name: [line for line in lines if line["model"] == name] for name in names}
    by_model = {name: mine for name, mine in by_model.items() if len(mine) == seeds}
    if not by_model:
        raise ValueError(f"No model could be fitted: {' '.join(notes)}")
    rows = sorted({row for mine in by_model.values() for line in mine for row in line["rows"]})
    tables = {name: _table(task, mine, rows) for name, mine in by_model.items()}
    errors = {name: float(np.nanmean(table)) for name, table in tables.items()}
    losses = {name: _mean(mine, "loss") for name, mine in by_model.items()}
    best = min(tables, key=lambda name: (errors[name], losses[name]))
    level = 1 - (1 - LEVEL) / max(1, len(tables) - 1)  # so that all intervals hold together
    compared = [
        ComparedModel(
            name,
            errors[name],
            float(np.std(_by_seed(task, mine), ddof=1)) if seeds > 1 else 0.0,
            None if name == best else interval(tables[name] - tables[best], level),
            losses[name],
            _mean(mine, "seconds"),
        )
        for name, mine in by_model.items()
    ]
    return Comparison(task, tuple(compared), seeds, len(rows), tuple(notes))


def _mean(lines: Sequence[Line], name: str) -> float:
    return float(np.mean([line[name] for line in lines]))


def interval(differences: Array, level: float) -> Interval:
    """The mean of a table with rows for seeds and columns for labels, with its interval.

    NaN is a label that was not held out with a seed.

    >>> found = interval(np.array([[1.0, 0, 1, 0], [1, 0, 1, 0]]), 0.95)
    >>> found.value, round(found.high - found.value, 3)  # Student's t with 3 degrees of freedom
    (0.5, 0.919)
    """
    from scipy import stats

    value = float(np.nanmean(differences))
    variances = []
    for axis in (1, 0):
        means = np.nanmean(differences, axis=axis)
        if len(means) > 1:
            variances.append((float(means.var(ddof=1)) / len(means), len(means) - 1))
    total = sum(variance for variance, _ in variances)
    if total == 0:
        return Interval(value, value, value)
    freedom = total**2 / sum(variance**2 / free for variance, free in variances)
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * total**0.5
    return Interval(value, value - half, value + half)


def _table(task: str, lines: Sequence[Line], rows: Sequence[int]) -> Array:
    """Mistakes of a model by seed and label, so that their mean is its error."""
    place = {row: column for column, row in enumerate(rows)}
    table = np.full((len(lines), len(rows)), np.nan)
    for number, line in enumerate(sorted(lines, key=lambda line: int(line["seed"]))):
        table[number, [place[row] for row in line["rows"]]] = line["mistakes"]
    if task == Classification.name:
        return table
    root = max(float(np.nanmean(table)) ** 0.5, 1e-12)
    return np.asarray(table / (2 * root) + root / 2)  # the tangent of the square root there


def _by_seed(task: str, lines: Sequence[Line]) -> Array:
    means = np.array([np.mean(line["mistakes"]) for line in lines])
    return means if task == Classification.name else np.sqrt(means)


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
