"""A fit of small arrays with few steps."""

import os
import signal

import numpy as np

from labelgrad import fit


def arrays(rows=60, labeled=24, seed=0, *, values=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    if values:
        return X, np.where(np.arange(rows) < labeled, X @ [1.0, 2.0, 0.0, 0.5], np.nan)
    return X, np.where(np.arange(rows) < labeled, (X[:, 0] > 0).astype(int), -1)


def small_fit(X, y=None, **options):
    return fit(X, y, **{"base_models": "linear,neighbours", "steps": 20} | options)


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
