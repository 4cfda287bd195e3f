"""Cross-fitting: every base model predicts each held-out label without having seen it.

Work goes through joblib, so `joblib.parallel_config(backend="dask")` sends it elsewhere.
"""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass

import numpy as np
import torch

from labelgrad.auto.base_models.base import BaseModel, FittedModel
from labelgrad.auto.config import FitConfig
from labelgrad.auto.data.dataset import Dataset, Examples
from labelgrad.auto.events import SILENT, Events
from labelgrad.auto.task import Array, Classification, Regression, Task, log_normalize
from labelgrad.functional import mixed_seed, one_thread
from labelgrad.reasons import reason_of

FOLDS, FEWER_FOLDS, MANY_LABELS = 4, 3, 400
NO_INFORMATION_STD = 1e3  # of a standardized value
NEAR, NEIGHBOURS = 0.05, 5  # distance of near duplicates, relative to that of the fifth neighbour
MAX_COPIES = 3  # of a typical label; rows of few different values are no copies
MAX_FOR_DUPLICATES = 20_000  # labels
CHECKED = 1000  # examples that a final model's prediction is checked on
TOO_LONG = "it took more than {:g} s"
MAX_LOSSES = 3  # of workers


@dataclass(frozen=True, eq=False)
class Folds:
    """Labels that are held out together.

    >>> folds = Folds(rows=np.array([0, 4, 1]), of=np.array([0, 0, 1]))
    >>> folds.masked(np.array([0, 1, 1, -1, 0]), 0, Classification(("a", "b")))
    array([-1,  1,  1, -1, -1])
    """

    rows: Array  # positions of the examples whose labels are held out, fold after fold
    of: Array  # the fold of each
    group: Array | None = None  # of each; None where every label is a group of its own

    def __len__(self) -> int:
        return int(self.of.max()) + 1 if len(self.of) else 0

    def held_out(self, fold: int) -> Array:
        """The positions of the examples of a fold."""
        return np.asarray(self.rows[self.of == fold])

    def masked(self, y: Array, fold: int, task: Task) -> Array:
        """The target without the labels of a fold; all labels for the fold -1."""
        masked = y.copy()
        rows = self.held_out(fold)
        masked[rows] = task.unlabeled(len(rows))
        return masked


def make_folds(y: Array, task: Task, seed: int, groups: Array | None = None) -> Folds:
    """Stratified folds: four, and three from 400 labels on.

    The only label or group of a class is never held out, since every training needs one. Fewer
    than four regression targets, or one label for each class, leave nothing to hold out.

    Parameters
    ----------
    y : array of shape (n,)
        The target, with unlabeled examples.
    task : Task
        What it holds.
    seed : int
        Seeds the shuffling.
    groups : array of shape (labels,), optional
        A number for each label; equal ones are held out together. See `label_groups`.

    Examples
    --------
    >>> task = Classification(("a", "b", "c"))
    >>> folds = make_folds(np.array([0, 0, 0, 0, -1, 1, 1, 2]), task, seed=0)
    >>> sorted(folds.rows.tolist()), np.bincount(folds.of)
    ([0, 1, 2, 3, 5, 6], array([2, 2, 1, 1]))
    """
    labeled = np.flatnonzero(task.is_labeled(y))
    known = y[labeled]
    own = np.arange(len(labeled)) if groups is None else groups
    size = np.bincount(own)
    count = FOLDS if len(labeled) < MANY_LABELS else FEWER_FOLDS
    if isinstance(task, Classification):
        counts = np.zeros((len(size), task.columns), dtype=int)
        np.add.at(counts, (own, known), 1)
        commonest = counts.argmax(1)
        strata = [np.flatnonzero(commonest == label) for label in np.unique(commonest)]
        strata = [stratum for stratum in strata if len(stratum) >= 2]
    else:  # from low to high, neighbouring values shuffled
        order = np.argsort(np.bincount(own, known) / size, kind="stable")
        strata = [order[at : at + count] for at in range(0, len(order), count)]
        strata = strata if len(size) >= count else []
    generator = torch.Generator().manual_seed(mixed_seed(seed, 3))
    shuffled = [each[torch.randperm(len(each), generator=generator).numpy()] for each in strata]
    dealt = np.concatenate([np.zeros(0, dtype=int), *shuffled])
    folds = [dealt[place::count] for place in range(min(count, len(dealt)))]
    if isinstance(task, Classification):  # of every class, a label stays in each training
        alone = [counts[:, counts.sum(0) == counts[fold].sum(0)] for fold in folds]
        folds = [fold[~each[fold].any(1)] for fold, each in zip(folds, alone, strict=True)]
    places = [np.flatnonzero(np.isin(own, fold)) for fold in folds if len(fold)]
    of = np.repeat(np.arange(len(places)), [len(each) for each in places])
    held_out = np.concatenate([np.zeros(0, dtype=int), *places])
    return Folds(labeled[held_out], of, None if groups is None else groups[held_out])


def label_groups(dataset: Dataset) -> tuple[Array | None, list[str]]:
    """Which labels are held out together: those of a group, and those of near duplicates.

    Labels of one person, device or burst, or of two copies of an image, tell each other: a model
    that was fitted on one of them seems to know the other. Two examples are near duplicates if
    they are 20 times closer than a labeled example is to its fifth neighbour, in the median.

    Returns
    -------
    groups : array of shape (labels,), or None
        A number for each label; None if all would differ.
    notes : list of str
        A sentence on near duplicates, if there are any.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(8, 3))
    >>> X[3], y = X[1] + 0.001, np.array([0, 1, 0, 1, -1, 0, 1, 0])
    >>> dataset = Dataset(X, y, Classification(("a", "b")), ids=[], preprocessor=None)
    >>> label_groups(dataset)[0].tolist()
    [0, 1, 2, 1, 3, 4, 5]
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components
    from sklearn.neighbors import NearestNeighbors

    labeled, groups = dataset.labeled, None
    own = np.arange(len(labeled))
    notes = []
    if NEIGHBOURS < len(labeled) <= MAX_FOR_DUPLICATES and dataset.X.shape[1] > 1:
        search = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(dataset.X[labeled])
        radius = NEAR * float(np.median(search.kneighbors()[0][:, -1]))
        near = search.radius_neighbors_graph(radius=radius)
        found = connected_components(near, directed=False)[1]
        copies = np.bincount(found)[found]
        if copies.max() > 1 and np.median(copies) <= MAX_COPIES:
            groups, several = found, int((copies > 1).sum())
            notes = [f"{several} labeled examples are near duplicates, and are held out together."]
    if dataset.groups is not None:  # joined where a group and near duplicates share an example
        given = np.unique(dataset.groups[labeled], return_inverse=True)[1]
        first = own if groups is None else groups
        joined = coo_matrix((np.ones(len(own)), (first, len(own) + given)), [2 * len(own)] * 2)
        groups = connected_components(joined, directed=False)[1][first]
        groups = np.unique(groups, return_inverse=True)[1]
    return groups, notes


@dataclass(frozen=True, eq=False)
class CrossFit:
    """A base model after cross-fitting."""

    name: str
    uses_unlabeled: bool
    out_of_fold: Array  # a prediction for each of `Folds.rows`
    by_fold: Sequence[FittedModel]  # each fitted without the labels of one fold
    final: FittedModel  # fitted on all labels
    seconds: float = 0.0
    trusted: bool = True  # whether stacking starts from an equal share for it
    predicts_new: bool = True  # whether it knows anything of examples it was not fitted on


def cross_fit(
    models: Sequence[BaseModel],
    dataset: Dataset,
    folds: Folds,
    config: FitConfig | None = None,
    events: Events = SILENT,
) -> tuple[list[CrossFit], list[str]]:
    """Fit every model without each fold, and on all labels.

    Parameters
    ----------
    models : sequence of BaseModel
        What to fit. One that raises, predicts nonsense or takes too long is left out.
    dataset : Dataset
        All examples, and the labels there are.
    folds : Folds
        Which labels are held out together.
    config : FitConfig, optional
        Its `seed` seeds every model. One of its `workers` stays in this process, unless
        `joblib.parallel_config` is active. `model_timeout` is for a model, or a fit of a network.
        In this process it is checked between folds; elsewhere the processes are killed and the
        other models go on in new ones.
    events : Events
        Receives the progress, and the notes.

    Returns
    -------
    fits : list of CrossFit
        The models that could be fitted, in their order.
    notes : list of str
        A sentence for each model that was left out.

    Examples
    --------
    >>> from labelgrad.auto.base_models.registry import BASE_MODELS
    >>> X, y = np.linspace(-1, 1, 20, dtype=np.float32)[:, None], np.arange(20) // 10
    >>> dataset = Dataset(X, y, Classification(("a", "b")), ids=[], preprocessor=None)
    >>> models = [BASE_MODELS["linear"](), BASE_MODELS["lga-linear"]()]
    >>> fits, notes = cross_fit(models, dataset, make_folds(y, dataset.task, seed=0))
    >>> [fit.name for fit in fits], notes
    (['linear'], ["Base model 'lga-linear' is left out: it needs unlabeled examples."])
    """
    from joblib import Parallel, delayed, effective_n_jobs

    config = config or FitConfig()
    workers, timeout = config.workers, config.model_timeout
    data = (dataset.examples, dataset.y, dataset.task, folds, config.seed, timeout)
    every = [*range(len(folds)), -1]  # -1: all labels
    jobs = []
    for at, model in enumerate(models):  # one job, or one for each fit of a network
        is_network = getattr(model, "is_network", False)
        jobs += [(at, [fold]) for fold in every] if is_network else [(at, every)]
    n_jobs, total = None if workers == 1 else workers, len(jobs)
    limit = None if effective_n_jobs(n_jobs) == 1 else timeout
    found: list[list[_Fits | str]] = [[] for _ in models]
    losses = 0
    while jobs:
        run = Parallel(n_jobs=n_jobs, return_as="generator", batch_size=1, timeout=limit)
        try:
            for result in run(delayed(_run)(models[at], some, *data) for at, some in list(jobs)):
                found[jobs.pop(0)[0]].append(result)
                events.progress("base models", total - len(jobs), total)
        except multiprocessing.TimeoutError:  # joblib has killed its processes
            late = jobs[0][0]
            found[late].append(TOO_LONG.format(timeout))
            jobs = [job for job in jobs if job[0] != late]
            events.progress("base models", total - len(jobs), total)
        except CancelledError:  # Dask lost a worker, and with it what it knew of its work
            losses += 1
            if losses > MAX_LOSSES:
                raise
    fits, notes = [], []
    for model, parts in zip(models, found, strict=True):
        failures = [part for part in parts if isinstance(part, str)]
        if failures:
            notes.append(f"Base model {model.name!r} is left out: {failures[0]}.")
            events.note(notes[-1])
        else:
            done = [part for part in parts if not isinstance(part, str)]
            fits.append(_assembled(model, done, dataset, folds))
    return fits, notes


_Fits = tuple[list[FittedModel], list[Array], float]  # predictions of held-out examples; seconds


def _run(
    model: BaseModel,
    some: Sequence[int],
    examples: Examples,
    y: Array,
    task: Task,
    folds: Folds,
    seed: int,
    timeout: float,
) -> _Fits | str:
    """Fit a model for some folds; a sentence without its end where that fails."""
    began = time.perf_counter()
    models: list[FittedModel] = []
    predictions = []
    try:
        is_network = getattr(model, "is_network", False)
        with one_thread(not is_network), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nobody can act on a solver that has not converged
            for fold in some:
                if time.perf_counter() - began > timeout:
                    return TOO_LONG.format(timeout)
                models.append(
                    model.fit(examples, folds.masked(y, fold, task), task=task, seed=seed)
                )
                rows = np.arange(len(y))[:CHECKED] if fold < 0 else folds.held_out(fold)
                found = checked(models[-1].predict(examples[rows]), len(rows), task)
                predictions += [found] if fold >= 0 else []
    except Exception as error:  # whatever it is, the others can be fitted
        return reason_of(error)
    return models, predictions, time.perf_counter() - began


def checked(prediction: Array, n: int, task: Task) -> Array:
    """The prediction, if it has the right shape and is finite and normalized.

    >>> checked(np.log([[0.5, 0.6]]), 1, Classification(("a", "b")))
    Traceback (most recent call last):
    ValueError: its probabilities sum to 1.1
    """
    needed = (n, task.columns)
    if prediction.shape != needed:
        raise ValueError(f"its predictions have the shape {prediction.shape}, not {needed}")
    if not np.isfinite(prediction).all():
        raise ValueError("its predictions are not finite")
    if isinstance(task, Regression):
        if (prediction[:, 1] <= 0).any():
            raise ValueError("its standard deviations are not positive")
        return prediction
    total = np.exp(prediction).sum(1)
    if len(total) and abs(total - 1).max() > 0.01:
        raise ValueError(f"its probabilities sum to {total[abs(total - 1).argmax()]:.3g}")
    return log_normalize(prediction)


def _assembled(
    model: BaseModel, parts: Sequence[_Fits], dataset: Dataset, folds: Folds
) -> CrossFit:
    """A model of all folds; standard deviations of values are scaled to the held-out errors."""
    task = dataset.task
    *by_fold, final = [fitted for models, _, _ in parts for fitted in models]
    held_out = [each for _, predictions, _ in parts for each in predictions]
    out_of_fold = np.concatenate([*held_out, np.zeros((0, task.columns))])
    if isinstance(task, Regression) and len(out_of_fold):
        mean, std = out_of_fold.T
        ratios = ((dataset.y[folds.rows] - mean) / std)[std < NO_INFORMATION_STD]
        # The root mean square of the ratios, with one error of ratio 1 added.
        factor = float(np.sqrt(((ratios**2).sum() + 1) / (len(ratios) + 1)))
        out_of_fold = task.from_outputs(mean, factor * std)
        by_fold = [RescaledModel(fitted, factor, task) for fitted in by_fold]
        final = RescaledModel(final, factor, task)
    return CrossFit(
        model.name,
        model.uses_unlabeled,
        out_of_fold,
        by_fold,
        final,
        sum(seconds for _, _, seconds in parts),
        getattr(model, "trusted", True) or not len(folds),
        getattr(model, "predicts_new", True),
    )


@dataclass(frozen=True, eq=False)
class RescaledModel:
    """A fitted regression model with scaled standard deviations."""

    fitted: FittedModel
    factor: float
    task: Regression

    def predict(self, examples: Examples) -> Array:
        """The same means with scaled standard deviations."""
        prediction = self.fitted.predict(examples)
        return self.task.from_outputs(prediction[:, 0], self.factor * prediction[:, 1])
