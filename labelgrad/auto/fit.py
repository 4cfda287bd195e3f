"""`labelgrad.fit`: the walk from data with few labels to a model and a label for every example."""

from __future__ import annotations

import inspect
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from labelgrad.auto.annotations import log_of
from labelgrad.auto.assemble import Fitted, assemble, subsample
from labelgrad.auto.base_models.registry import base_models, with_steps_for_budget
from labelgrad.auto.config import FitConfig, Options
from labelgrad.auto.cross_fit import cross_fit, label_groups, make_folds
from labelgrad.auto.data.dataset import read
from labelgrad.auto.data.views import TableViews, open_views
from labelgrad.auto.distillation import distill
from labelgrad.auto.ensemble_io import check_can_save
from labelgrad.auto.evaluation import evaluate
from labelgrad.auto.events import SILENT, Events
from labelgrad.auto.guarantee import guarantee_table
from labelgrad.auto.label_issues import find_label_issues
from labelgrad.auto.report.page import render
from labelgrad.auto.result import Result
from labelgrad.auto.run import RunFolder
from labelgrad.auto.stacking import stack
from labelgrad.functional import one_thread

MANY_NUMBERS = 10**7  # in a table; fewer are too few for several threads


def fit(
    data: Any = None,
    y: Any = None,
    *,
    config: FitConfig | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    events: Events = SILENT,
    **options: Unpack[Options],
) -> Result:
    """Fit base models on few labels, stack them, and distil the ensemble into one network.

    Parameters
    ----------
    data : path, array or data frame
        A table, an .npz file, a folder of images or texts, or examples in memory. A resumed run
        reads its own data if none are given.
    y : array, optional
        Labels of examples in memory; -1, NaN or None where there is none.
    config : FitConfig, optional
        All options in one object; `options` override it.
    out : path, optional
        The run folder. Nothing is written without it.
    resume : bool
        Continue the run in `out`, with its options and what people have annotated since.
    events : Events
        Receives notes and progress.
    **options
        The fields of `FitConfig`.

    Returns
    -------
    Result
        Labels for all examples, the model, and its evaluation on held-out labels.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 4))
    >>> y = np.where(np.arange(60) < 20, X[:, 0] > 0, -1)
    >>> result = fit(X, y, base_models="linear", steps=20)
    >>> result.labels["source"].value_counts(sort=True).rows()
    [('imputed', 40), ('given', 20)]
    >>> len(result.predict(X[:3]))
    3
    """
    began = time.perf_counter()
    with ExitStack() as exits:
        run = exits.enter_context(RunFolder.open(out, resume=resume))
        config = run.resolve(config, options)
        if config.keep_ensemble:
            check_can_save()
        data = run.saved.get("data") if data is None else data
        raw = read(data, y, config, events)
        log = log_of(run)
        dataset = log.applied_to(raw)
        sample = subsample(dataset, config)
        train = sample.dataset
        config = with_steps_for_budget(config, train)
        base_models(config.base_models, config, train)  # refuse a wrong name before a run begins
        run.begin(config, data, dataset, raw)
        exits.enter_context(one_thread(train.raw is None and train.X.size < MANY_NUMBERS))

        groups, together = label_groups(train)
        folds = make_folds(train.y, train.task, config.seed, groups)
        models = base_models(config.base_models, config, train, folder=run.checkpoints)
        notes = [*dataset.notes, *sample.notes, *together]
        for note in notes:
            events.note(note)

        cross_fits, left_out = cross_fit(models, train, folds, config, events)
        ensemble = stack(cross_fits, train, folds, config)
        student = distill(ensemble, train, config, folder=run.checkpoints, events=events)
        evaluation = evaluate(ensemble, student, seed=config.seed)

        notes += [*left_out, *ensemble.notes]
        how = {each.id: each.how for each in log.newest(audits=False)}
        seconds = time.perf_counter() - began
        fitted = Fitted(
            raw, sample, ensemble, student, evaluation, config, data, how, notes, seconds
        )
        result = assemble(fitted)
        views = open_views(data, dataset.preprocessor, dataset.ids, config)
        issues = find_label_issues(result).filter("is_issue")
        guarantees = guarantee_table(result, log)
        page = render(result, dataset, views, issues, guarantees)
        source = views.source if isinstance(views, TableViews) else None
        return run.save(replace(result, page=page, source=source))


def _signature() -> inspect.Signature:
    """The signature with every option, for `help(fit)`."""
    whole = inspect.signature(fit)
    *own, _ = whole.parameters.values()
    listed = inspect.signature(FitConfig).parameters.values()
    return whole.replace(parameters=[*own, *listed], return_annotation=Result)


fit.__signature__ = _signature()  # type: ignore[attr-defined]
