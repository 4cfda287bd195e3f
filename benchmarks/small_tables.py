"""LGAClassifier() and LGARegressor() as they come, beside a supervised network of the same size.

A quarter of each set is for the test; of the rest a tenth is labeled. The digits are split as the
demo splits them, with 50 labels. Both
networks get the same columns, standardized alike, and as many steps. Splits are by seed, and
nothing is chosen on the test rows. A regression's error is in standard deviations of its target.

    python benchmarks/small_tables.py [--seeds 10] [--workers 2]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
)
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from labelgrad import (
    MLP,
    CrossEntropy,
    LGAClassifier,
    LGARegressor,
    SquaredError,
    Stream,
    Supervised,
    Trainer,
    evaluate,
)
from labelgrad.data.digits import digits
from labelgrad.functional import random_numbers
from labelgrad.losses import Loss

Array = NDArray[Any]


def diabetes_above_median(return_X_y: bool = True) -> tuple[Array, Array]:
    """Whether the disease progressed more than in half of the patients."""
    x, y = load_diabetes(return_X_y=return_X_y)
    return x, (y > np.median(y)).astype(int)


SETS: dict[str, Callable[..., tuple[Array, Array]]] = {
    "digits": load_digits,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "iris": load_iris,
    "diabetes, two classes": diabetes_above_median,
    "diabetes, values": load_diabetes,
}


def split(name: str, seed: int) -> tuple[Array, Array, Array, Array, Array]:
    """Inputs, true labels and which are given, then the test's inputs and labels."""
    if name == "digits":
        return demo_split(seed)
    x, y = SETS[name](return_X_y=True)
    classes = y if y.dtype.kind == "i" else None
    x, x_test, y, y_test = train_test_split(
        x, y, test_size=0.25, random_state=seed, stratify=classes
    )
    given, _ = train_test_split(
        np.arange(len(y)),
        train_size=len(y) // 10,
        random_state=seed,
        stratify=None if classes is None else y,
    )
    return x, y, np.isin(np.arange(len(y)), given), x_test, y_test


def demo_split(seed: int) -> tuple[Array, Array, Array, Array, Array]:
    """The digits as `labelgrad demo` splits them."""
    parts = digits(labels=50, seed=seed)
    x, y = (torch.cat(pair).numpy() for pair in zip(parts.labeled, parts.unlabeled, strict=True))
    given = np.arange(len(y)) < len(parts.labeled[0])
    return x, y, given, parts.test[0].numpy(), parts.test[1].numpy()


def supervised(model: Any, x: Tensor, y: Tensor, loss: Loss, width: int) -> nn.Module:
    """The estimator's network from the same start, trained on the labeled rows alone."""
    seed = int(np.random.RandomState(model.random_state).randint(2**31))
    with random_numbers(torch.device("cpu"), seed):
        network = MLP(x.shape[1], model.hidden, width)
    stream = Stream(x, y, batch_size=min(model.batch_size, len(x)), seed=seed)
    trainer = Trainer(network, Supervised(), stream, learning_rate=model.learning_rate, loss=loss)
    for _ in range(model.steps):
        trainer.step()
    return network


def trial(name: str, seed: int, steps: int | None) -> dict[str, float]:
    """Error and loss of both, on one split."""
    torch.set_num_threads(1)
    x, y, given, x_test, y_test = split(name, seed)
    classify = y.dtype.kind == "i"
    kind, hidden = (LGAClassifier, -1) if classify else (LGARegressor, np.nan)
    model = kind(random_state=seed) if steps is None else kind(random_state=seed, steps=steps)
    model.fit(x, np.where(given, y, hidden))
    loss: Loss = CrossEntropy() if classify else SquaredError()
    if not classify:
        y, y_test = ((v - model.target_mean_) / model.target_scale_ for v in (y, y_test))
    as_labels = torch.long if classify else torch.float32
    inputs = [model._scaled(v.astype(np.float32)).float() for v in (x[given], x_test)]
    labels = [torch.tensor(v, dtype=as_labels) for v in (y[given], y_test)]
    width = len(np.unique(y)) if classify else 1
    plain = supervised(model, inputs[0], labels[0], loss, width)
    results: dict[str, float] = {}
    for method, network in (("supervised", plain), ("LGA", model.module_.float())):
        measured = evaluate(network, inputs[1], labels[1], loss=loss)
        results |= {f"{method} {key}": value for key, value in measured.items()}
    return results


def main() -> None:
    """Run all sets and seeds, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=None, help="other than the default's")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    print(
        f"{'':<24}{'error':>20}{'':>18}{'loss':>20}\n{'':<24}{'supervised':>16}{'LGA':>16}"
        f"{'ratio':>8}{'supervised':>16}{'LGA':>16}{'ratio':>8}"
    )
    for name in options.sets:
        work = (delayed(trial)(name, seed, options.steps) for seed in seeds)
        found = Parallel(n_jobs=options.workers)(work)
        print(f"{name:<24}" + "".join(_cells(found, key) for key in ("error", "loss")), flush=True)


def _cells(found: list[dict[str, float]], key: str) -> str:
    columns = [[line[f"{method} {key}"] for line in found] for method in ("supervised", "LGA")]
    cells = [f"{mean(c):.3f} ± {stdev(c) if len(c) > 1 else 0:.3f}" for c in columns]
    return f"{cells[0]:>16}{cells[1]:>16}{mean(columns[1]) / mean(columns[0]):>8.2f}"


if __name__ == "__main__":
    main()
