"""Images with few labels: the evaluation of the paper's Section 4, by the protocol's rules.

A trial is one method on one split. Reported is the test error at the step of the best validation
error; the last step's is kept beside it. Test images are evaluated after the training only. The
split, the initial weights and the batches depend on the seed alone, so all methods of a seed start
alike.
"""

from __future__ import annotations

import copy
import shutil
from dataclasses import asdict
from pathlib import Path

import torch

from experiments.common import Line
from experiments.paper.image_task import Examples, Size, Task, examples, sized
from experiments.paper.settings import Hyperparameters, choice
from labelgrad.functional import mixed_seed
from labelgrad.methods import Problem, method
from labelgrad.models.wide_resnet import WideResNet
from labelgrad.schedules import Drop
from labelgrad.training.batches import TensorBatches
from labelgrad.training.evaluation import evaluate
from labelgrad.training.recipe import Recipe, Run
from labelgrad.training.trainer import TrainingDivergedError

BATCH = 50  # labeled, and as many unlabeled
MEASURED = ("step", "validation_error", "validation_loss")


def image_trial(
    task: Task,
    *,
    scale: str,
    settings: Hyperparameters | None = None,
    steps: int | None = None,
    data_folder: str | Path | None = None,
    unfinished: str | Path | None = None,
    device: str = "cpu",
) -> list[Line]:
    """Train and test one method on one split; gives one line.

    The folder `unfinished` keeps checkpoints, from which the same trial continues, and is removed
    at the end. `settings` replace the method's own, and `steps` the scale's.

    >>> (line,) = image_trial(Task("digits", "lga", labels=50, seed=0), scale="tiny")
    >>> line["split"], line["method"], line["last_step"]
    ('digits.0@50', 'lga', 4)
    """
    size = sized(scale, steps)
    parts = examples(task, size, data_folder)
    chosen = settings or choice(task.method, scale, task.data)
    run = training(task, size, chosen, parts, unfinished, device)
    run.finish()
    tested = _tested(run, parts)
    if unfinished is not None:
        shutil.rmtree(unfinished, ignore_errors=True)
    return [_line(task, scale, run, tested)]


def tuning_trial(
    task: Task,
    *,
    scale: str,
    settings: Hyperparameters,
    extra: Line,
    data_folder: str | Path | None = None,
    device: str = "cpu",
) -> list[Line]:
    """The same without any test image, for a search; one that diverged is all wrong."""
    size = sized(scale)
    run = training(task, size, settings, examples(task, size, data_folder), None, device)
    extra = {**extra, "settings": asdict(settings)}
    try:
        run.finish()
    except TrainingDivergedError:
        lost = {"step": 0, "validation_error": 1.0, "diverged": True}
        return [{**task.line, **extra, **lost}]
    return [{**_line(task, scale, run, {}), **extra}]


def training(
    task: Task,
    size: Size,
    chosen: Hyperparameters,
    parts: Examples,
    folder: str | Path | None = None,
    device: str = "cpu",
) -> Run:
    """The run of a trial, ready to be finished."""
    problem = Problem(len(parts.unlabeled[0]), parts.classes, BATCH, size.steps)
    recipe = Recipe(
        lambda: _model(size, parts),
        lambda: method(task.method, problem, chosen.terms),
        TensorBatches(*parts.labeled, batch_size=min(BATCH, task.labels), seed=task.seed),
        TensorBatches(parts.unlabeled[0], batch_size=BATCH, seed=task.seed),
        steps=size.steps,
        learning_rate=Drop(chosen.learning_rate, at=0.8 * size.steps),
        views=parts.views,
        joint_pass=size.joint_pass and task.method != "supervised",
        seed=task.seed,
        network_seed=mixed_seed(task.seed, 2),
        device=device,
    )
    return recipe.run(
        folder=folder,
        examples={"validation": parts.validation},
        truth=parts.unlabeled[1],
        evaluate_every=size.every,
        checkpoint_every=size.every,
    )


def _tested(run: Run, parts: Examples) -> dict[str, float]:
    """Error and loss on test images, with the chosen weights and with the last ones."""
    assert run.best is not None  # the last step is always evaluated
    chosen = copy.deepcopy(run.trainer.evaluated)
    chosen.load_state_dict(run.best.tensors)
    found: dict[str, float] = {}
    for which, model in (("test", chosen), ("last_test", run.trainer.evaluated)):
        measured = evaluate(model, *parts.test)
        found |= {f"{which}_{name}": measured[name] for name in ("error", "loss")}
    return found


def _line(task: Task, scale: str, run: Run, tested: dict[str, float]) -> Line:
    assert run.best is not None
    seen, best = run.history, run.best.info["step"]
    chosen = next(line for line in seen if line["step"] == best)
    last = {f"last_{name}": seen[-1][name] for name in MEASURED}
    imputed = {k: seen[-1][k] for k in ("imputed_accuracy",) if k in seen[-1]}
    numbers = {name: chosen[name] for name in MEASURED} | last | tested | imputed
    return {
        "experiment": task.data,
        "scale": scale,
        "split": task.split,
        **task.line,
        **{name: round(value, 5) for name, value in numbers.items()},
        "seconds": round(run.seconds),
        "curve": {name: [round(line[name], 5) for line in seen] for name in MEASURED},
    }


def _model(size: Size, parts: Examples) -> WideResNet:
    model = WideResNet(
        size.depth,
        size.width,
        classes=parts.classes,
        channels=parts.labeled[0].shape[1],
        stem_stride=size.stem_stride,
        momentum=size.momentum,
    )
    # Faster on a CPU and on a GPU; PyTorch's own annotations lack this form of the call.
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
