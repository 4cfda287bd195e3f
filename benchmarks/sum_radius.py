"""LGA + VAT by VAT's radius, beside LGA alone: what the second term adds, on validation pictures.

The split is the one that settings are searched for on, and no test picture is looked at. All else
is as `labelgrad reproduce --scale laptop` has it. What stands in the file is not run again.

    python benchmarks/sum_radius.py --data data --set cifar10 --labels 2000 --out results/sum-radius
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from labelgrad.cli.console import add_missing
from labelgrad.paper.picture_task import Task
from labelgrad.paper.picture_trial import PictureTrial
from labelgrad.paper.picture_tuning import SEED
from labelgrad.paper.settings import TUNED, Hyperparameters
from labelgrad.training.results import Line, Results

RADII = (7.72, 2.0, 0.5)  # the one that was found with 1,000 labels of Fashion-MNIST first


class RadiusTrial:
    """One training of the sum at a radius, or of LGA alone where none is given."""

    def __init__(self, *, data: str, labels: int, folder: Path, eps: float | None = None):
        name = "lga" if eps is None else "lga+vat"
        found = TUNED[name]
        terms = {**found.terms, **({} if eps is None else {"vat": {"eps": eps}})}
        self._head: Line = {"eps": eps}
        self._inner = PictureTrial(
            Task(data, name, labels, SEED),
            scale="laptop",
            data_folder=folder,
            settings=Hyperparameters(found.learning_rate, terms),
            with_test=False,
        )
        self.steps = self._inner.steps

    def __iter__(self) -> Any:
        yield from self._inner

    @property
    def history(self) -> list[Line]:
        """The one line of the training."""
        return [{**line, **self._head} for line in self._inner.history]


def main() -> None:
    """Train what is missing, then print a row for each radius."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", default="cifar10")
    parser.add_argument("--labels", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("results/sum-radius"))
    asked = parser.parse_args()
    results = Results(asked.out, {"radii": RADII})
    task = {"data": asked.set, "labels": asked.labels}
    jobs = {
        f"radius {eps}": {**task, "folder": asked.data, "eps": eps}
        for eps in (None, *RADII)
        if not results.has(**task, eps=eps)
    }
    command = f"python benchmarks/sum_radius.py --set {asked.set} --labels {asked.labels}"
    add_missing(RadiusTrial, jobs, results, workers=2, command=command)
    for line in results.lines:
        scores = f"{100 * line['validation_error']:.1f} % / {line['validation_loss']:.3f}"
        print(line["data"], line["labels"], line["method"], line["eps"], scores)


if __name__ == "__main__":
    main()
