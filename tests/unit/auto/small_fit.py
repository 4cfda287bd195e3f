"""The stages of a fit on small arrays, each with few steps."""

import os
import signal
from dataclasses import replace

import numpy as np

from labelgrad.auto.annotations import log_of
from labelgrad.auto.assemble import Fitted, assemble, subsample
from labelgrad.auto.base_models.registry import base_models
from labelgrad.auto.cross_fit import cross_fit, make_folds
from labelgrad.auto.data.dataset import read
from labelgrad.auto.distillation import distill
from labelgrad.auto.evaluation import evaluate
from labelgrad.auto.events import Events
from labelgrad.auto.run import RunFolder
from labelgrad.auto.stacking import stack


def arrays(rows=60, labeled=24, seed=0, *, values=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    if values:
        return X, np.where(np.arange(rows) < labeled, X @ [1.0, 2.0, 0.0, 0.5], np.nan)
    return X, np.where(np.arange(rows) < labeled, (X[:, 0] > 0).astype(int), -1)


def small_fit(X, y=None, *, out=None, resume=False, **options):
    options = {"base_models": "linear,neighbours", "steps": 20} | options
    with RunFolder.open(out, resume=resume) as run:
        config = run.resolve(None, options)
        raw = read(X, y, config, Events())
        dataset = log_of(run).applied_to(raw)
        run.begin(config, X, dataset, raw)
        sample = subsample(dataset, config)
        train = sample.dataset
        folds = make_folds(train.y, train.task, config.seed)
        models = base_models(config.base_models, config, train, folder=run.checkpoints)
        fits, notes = cross_fit(models, train, folds)
        ensemble = stack(fits, train, folds)
        student = distill(ensemble, train, config, folder=run.checkpoints)
        scores = evaluate(ensemble, student)
        annotated = {one.id: one.how for one in log_of(run).newest(audits=False)}
        notes = [*train.notes, *notes, *sample.notes]
        parts = Fitted(raw, sample, ensemble, student, scores, config, X, annotated, notes)
        return run.save(replace(assemble(parts), page="<p>A report.</p>"))


def fit_until_killed(out, count, resume):
    """A fit that is killed when it writes for the `count`-th time."""
    real, left = os.fsync, [count]

    def fsync(handle):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        real(handle)

    os.fsync = fsync
    small_fit(*arrays(), out=out, resume=resume, base_models="linear,lga")
