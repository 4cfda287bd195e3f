"""What an imputed label should count by: nothing, certainty, agreement or evidence, on validation.

LGA + FlexMatch and LGA alone, on the split that settings are searched for on; no test picture is
looked at. All have the settings that LGA was found with and FlexMatch's published weight. For a
label y and what the model says, p, the weights are

    certainty   c = 1 − H(y) / log K
    agreement   c = y · p
    evidence    certainty, of labels that are the evidence of their slopes (`Evidence()`)

What stands in the file is not run again.

    python benchmarks/label_weights.py --data data --out results/label-weights
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torch import Tensor, ones_like

from labelgrad import LGA, Certainty, Evidence
from labelgrad.cli.console import add_missing
from labelgrad.methods import Problem, parts, register
from labelgrad.objective import Labeled, Objective
from labelgrad.objectives.lga import lga
from labelgrad.paper.picture_task import Task
from labelgrad.paper.picture_tuning import SEED, PictureTuningTrial
from labelgrad.paper.settings import TUNED, Hyperparameters
from labelgrad.step import Step
from labelgrad.training.results import Results

KINDS = ("lga", "lga-certain", "lga-agreeing", "lga-evidence", "lga-evident")
METHODS = ["flexmatch", *(f"{kind}+flexmatch" for kind in KINDS), *KINDS]
FOUND = TUNED["lga"]


class Evenly(Certainty):
    """The weight of one for each label: what it counts by is in the losses already."""

    def __call__(self, labels: Tensor) -> Tensor:
        return ones_like(labels[:, 0])


class Agreeing(LGA):
    """LGA that says the loss of each label times how likely the model has it."""

    def each(self, step: Step) -> Labeled:
        labels, losses = super().each(step)
        said = step.unlabeled_outputs.detach().softmax(1)
        return Labeled(labels, (labels * said).sum(1) * losses)


@register("lga-agreeing", "LGA with labels that count by agreement", passes=7)
def lga_agreeing(problem: Problem, speed: float) -> Objective:
    """The labels of `lga`, weighed by y · p."""
    like = lga(problem, speed)
    assert isinstance(like, LGA)
    return Evenly() * Agreeing(problem.rows, problem.width, rule=like.table.rule)


@register("lga-evident", "LGA by evidence with labels that count by certainty", passes=7)
def lga_evident(problem: Problem) -> Objective:
    """The labels of `lga-evidence`, weighed by what their evidence leaves certain."""
    return Certainty() * LGA(problem.rows, problem.width, rule=Evidence())


def settings(method: str) -> Hyperparameters:
    """LGA's settings as they were found, for each of its kinds; the others have their own."""
    terms: dict[str, dict[str, float]] = {"supervised": {"weight": 1.0}}
    for part in parts(method):
        if part in ("lga", "lga-certain", "lga-agreeing"):
            terms[part] = dict(FOUND.terms["lga"])
    return Hyperparameters(FOUND.learning_rate, terms)


def main() -> None:
    """Train what is missing, then print a row for each method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", default="fashion-mnist")
    parser.add_argument("--out", type=Path, default=Path("results/label-weights"))
    asked = parser.parse_args()
    results = Results(asked.out, {"methods": METHODS})
    jobs: dict[str, dict[str, Any]] = {
        f"{name}, {labels} labels": {
            "task": Task(asked.set, name, labels, SEED),
            "number": 0,
            "settings": settings(name),
            "scale": "laptop",
            "data_folder": asked.data,
        }
        for name in METHODS
        for labels in (250, 1000)
        if not results.has(data=asked.set, method=name, labels=labels)
    }
    command = f"python benchmarks/label_weights.py --set {asked.set}"
    add_missing(PictureTuningTrial, jobs, results, workers=2, command=command)
    for line in results.lines:
        scores = f"{100 * line['validation_error']:.1f} % / {line['validation_loss']:.3f}"
        print(line["data"], line["labels"], line["method"], scores)


if __name__ == "__main__":
    main()
