"""LGAClassifier() and LGARegressor() as they come, beside a supervised network of the same size.

The sets and splits are those of `labelgrad bench`: a quarter is for the test, and of the rest a
tenth is labeled, of the digits 50. Both networks get the same columns, standardized alike, and as
many steps. Nothing is chosen on the test rows. A regression's error is in standard deviations.

    python benchmarks/small_tables.py [--seeds 10] [--workers 2]
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labelgrad import (
    MLP,
    CrossEntropy,
    LGAClassifier,
    LGARegressor,
    Recipe,
    SquaredError,
    Supervised,
    TensorBatches,
    evaluate,
)
from labelgrad.bench.sets import rows
from labelgrad.fitting.plan import rate_for
from labelgrad.inputs.kinds import prepare
from labelgrad.losses import Loss

SETS = ("digits-50", "wine", "breast-cancer", "iris", "diabetes-classes", "diabetes")


def supervised(model: Any, x: Tensor, y: Tensor, loss: Loss, width: int) -> nn.Module:
    """The estimator's network from the same start, trained on the labeled rows alone."""
    run = Recipe(
        lambda: MLP(x.shape[1], model.hidden, width),
        Supervised,
        TensorBatches(x, y, batch_size=min(model.batch_size, len(x)), seed=model.random_state),
        steps=len(model.history_),
        learning_rate=rate_for(loss),
        loss=loss,
        seed=model.random_state,
    ).run()
    return run.finish().trainer.model


def trial(name: str, seed: int, *, steps: int | None) -> dict[str, float]:
    """Error and loss of both, on one split."""
    torch.set_num_threads(1)
    split = rows(name, seed)
    x, y, given, x_test, y_test = split.x, split.y, split.given, split.x_test, split.y_test
    classify = split.classes is not None
    kind, hidden = (LGAClassifier, -1) if classify else (LGARegressor, np.nan)
    model = kind(random_state=seed) if steps is None else kind(random_state=seed, steps=steps)
    model.fit(x, np.where(given, y, hidden))
    loss: Loss = CrossEntropy() if classify else SquaredError()
    if not classify:
        y, y_test = ((v - model.target_mean_) / model.target_scale_ for v in (y, y_test))
    as_labels = torch.long if classify else torch.float32
    inputs = [prepare(model.preprocessing_, v).x for v in (x[given], x_test)]
    labels = [torch.tensor(v, dtype=as_labels) for v in (y[given], y_test)]
    width = split.classes or 1
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
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    print(
        f"{'':<24}{'error':>20}{'':>18}{'loss':>20}\n{'':<24}{'supervised':>16}{'LGA':>16}"
        f"{'ratio':>8}{'supervised':>16}{'LGA':>16}{'ratio':>8}"
    )
    with ProcessPoolExecutor(options.workers) as pool:
        for name in options.sets:
            found = list(pool.map(partial(trial, name, steps=options.steps), seeds))
            cells = "".join(_cells(found, key) for key in ("error", "loss"))
            print(f"{name:<24}{cells}", flush=True)


def _cells(found: list[dict[str, float]], key: str) -> str:
    columns = [[line[f"{method} {key}"] for line in found] for method in ("supervised", "LGA")]
    cells = [f"{mean(c):.3f} ± {stdev(c) if len(c) > 1 else 0:.3f}" for c in columns]
    return f"{cells[0]:>16}{cells[1]:>16}{mean(columns[1]) / mean(columns[0]):>8.2f}"


if __name__ == "__main__":
    main()
