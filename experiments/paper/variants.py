"""`variants`: two questions about sums with LGA, on the split that settings are tuned on.

`label-weights`: what an imputed label y should be weighted by, in LGA + FlexMatch and in LGA alone,
where the model predicts p: nothing, its certainty 1 − H(y) / log K, or its agreement y · p; with
labels by LazyAdam or by Evidence. `sum-radius`: LGA + VAT by VAT's radius, beside LGA alone. No
test image is used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, ones_like

from experiments.common import Line, Results, aligned, run_trials, table
from experiments.paper.image_experiments import Options
from experiments.paper.image_task import Task
from experiments.paper.image_trial import tuning_trial
from experiments.paper.image_tuning import SEED
from experiments.paper.settings import TUNED, Hyperparameters
from labelgrad.labels.rules import Evidence
from labelgrad.methods import Problem, every_method, register
from labelgrad.objective import Certainty, Labeled, Objective
from labelgrad.objectives.lga import LGA, lga
from labelgrad.step import Step

RADII = (None, 7.72, 2.0, 0.5)  # 7.72 was found with 1,000 labels of Fashion-MNIST
KINDS = ("lga", "lga-certain", "lga-agreeing", "lga-evidence", "lga-evident")
METHODS = ["flexmatch", *(f"{kind}+flexmatch" for kind in KINDS), *KINDS]
QUESTIONS = ("label-weights", "sum-radius")


class Evenly(Certainty):
    """A weight of one for each label: the losses are weighted already."""

    def __call__(self, labels: Tensor) -> Tensor:
        return ones_like(labels[:, 0])


class Agreeing(LGA):
    """LGA with the loss of each label times the probability that the model gives it."""

    def each(self, step: Step) -> Labeled:
        labels, losses = super().each(step)
        predicted = step.unlabeled_outputs.detach().softmax(1)
        return Labeled(labels, (labels * predicted).sum(1) * losses)


def lga_agreeing(problem: Problem, speed: float = 1.0) -> Objective:
    """The labels of `lga`, weighted by y · p."""
    like = lga(problem, speed)
    assert isinstance(like, LGA)
    return Evenly() * Agreeing(problem.rows, problem.width, rule=like.table.rule)


def lga_evident(problem: Problem) -> Objective:
    """The labels of `lga-evidence`, weighted by their certainty."""
    return Certainty() * LGA(problem.rows, problem.width, rule=Evidence())


def variant_trial(task: Task, **job: Any) -> list[Line]:
    """A trial of a search, with the two methods above registered in its process."""
    if "lga-agreeing" not in every_method():
        register("lga-agreeing", "LGA, labels weighted by agreement", passes=7)(lga_agreeing)
        register("lga-evident", "LGA by evidence, weighted by certainty", passes=7)(lga_evident)
    return tuning_trial(task, **job)


def run_variants(question: str, data: str, options: Options) -> None:
    """Train what is missing, then print the validation error and loss of each variant."""
    results = Results(options.out, {})
    if question == "sum-radius":
        asked = [(_by_radius(eps), {"eps": eps}) for eps in RADII]
    else:
        asked = [(_by_weight(name), {}) for name in METHODS]
    jobs: dict[str, Line] = {}
    for labels in options.labels:
        for (name, settings), extra in asked:
            if not results.has(data=data, method=name, labels=labels, **extra):
                task = Task(data, name, labels, SEED)
                job = {"task": task, "settings": settings, "extra": extra}
                jobs[f"{task.name}, {extra}"] = job | options.where
    run_trials(variant_trial, jobs, results, options.workers)
    rows = (
        [
            *(line["data"], str(line["labels"]), line["method"], str(line.get("eps", ""))),
            *(f"{100 * line['validation_error']:.1f}", f"{line['validation_loss']:.3f}"),
        ]
        for line in results.lines
    )
    print(aligned(table(["data", "labels", "method", "radius", "error %", "loss"], rows)))


def _by_radius(eps: float | None) -> tuple[str, Hyperparameters]:
    if eps is None:
        return "lga", TUNED["lga"]
    found = TUNED["lga+vat"]
    return "lga+vat", replace(found, terms={**found.terms, "vat": {"eps": eps}})


def _by_weight(method: str) -> tuple[str, Hyperparameters]:
    """LGA's settings as they were found, for each of its kinds; the others have their own."""
    found = TUNED["lga"]
    slow = [part for part in method.split("+") if part in ("lga", "lga-certain", "lga-agreeing")]
    terms = {"supervised": {"weight": 1.0}, **dict.fromkeys(slow, found.terms["lga"])}
    return method, Hyperparameters(found.learning_rate, terms)
