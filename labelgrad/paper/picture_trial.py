"""Pictures with few labels: the evaluation of the paper's Section 4, by the protocol's rules.

A trial is one method on one split. Reported is the test error at the step of the best validation
error; the last step's is kept beside it. Test pictures are looked at when both are known, and not
before. The split, the network's first weights and the batches
depend on the seed alone, so every method of a seed starts from the same.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from labelgrad.functional import mixed_seed
from labelgrad.methods import Problem, method
from labelgrad.models.wide_resnet import WideResNet
from labelgrad.paper.picture_task import Examples, Size, Task, examples, sized
from labelgrad.paper.settings import Hyperparameters, choice
from labelgrad.schedules import Drop
from labelgrad.training.batches import TensorBatches
from labelgrad.training.evaluation import evaluate
from labelgrad.training.parallel import is_elsewhere
from labelgrad.training.recipe import Recipe, Run
from labelgrad.training.results import Line

BATCH = 50  # labeled, and again as many unlabeled


class PictureTrial:
    """One method on one split; iterate to train, then look at `history`, which is one line.

    With an `unfinished` folder the trial keeps its checkpoints there and goes on from them when it
    is built again; at its end the folder is removed. A worker elsewhere, which does not see the
    folder that it would be in, keeps none. `settings` replace the method's own, and
    `steps` the scale's. Without `with_test` no test picture is ever looked at: a search for
    settings has no business with them.

    >>> task = Task("digits", "lga", labels=50, seed=0)
    >>> trial = PictureTrial(task, scale="tiny")
    >>> records = list(trial)
    >>> [trial.history[0][name] for name in ("split", "method", "last_step")]
    ['digits.0@50', 'lga', 4]
    """

    def __init__(
        self,
        task: Task,
        *,
        scale: str,
        data_folder: str | Path | None = None,
        unfinished: str | Path | None = None,
        settings: Hyperparameters | None = None,
        with_test: bool = True,
        device: str = "cpu",
        steps: int | None = None,
    ):
        size = sized(scale, steps)
        self.task, self.scale, self.steps = task, scale, size.steps
        if unfinished is not None and is_elsewhere() and not Path(unfinished).parent.is_dir():
            unfinished = None
        self._unfinished = unfinished
        chosen = settings or choice(task.method, scale, task.data)
        parts = examples(task, size, data_folder)
        self.run = _run(task, size, chosen, parts, unfinished, device)
        self.test = parts.test if with_test else None
        self._on_test: dict[str, float] = {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield from self.run
        self._on_test = self._tested()
        if self._unfinished is not None:
            shutil.rmtree(self._unfinished, ignore_errors=True)

    @property
    def history(self) -> list[Line]:
        """The one line of this trial."""
        seen = self.run.history
        best = self.run.best
        assert best is not None  # the last step is always evaluated
        chosen = next(line for line in seen if line["step"] == best.info["step"])
        head: Line = {"experiment": self.task.data, "scale": self.scale, "split": self.task.split}
        names = ("step", "validation_error", "validation_loss")
        curve = {name: [_rounded(line[name]) for line in seen] for name in names}
        return [
            {
                **head,
                **self.task.line,
                **{name: _rounded(chosen[name]) for name in names},
                **{f"last_{name}": _rounded(seen[-1][name]) for name in names},
                **{name: _rounded(value) for name, value in self._on_test.items()},
                **{k: _rounded(seen[-1][k]) for k in ("imputed_accuracy",) if k in seen[-1]},
                "seconds": round(self.run.seconds),
                "curve": curve,
            }
        ]

    def _tested(self) -> dict[str, float]:
        """Error and loss on test pictures, of the weights that were chosen and of the last ones."""
        best, trainer = self.run.best, self.run.trainer
        if self.test is None or best is None:
            return {}
        found: dict[str, float] = {}
        chosen = copy.deepcopy(trainer.evaluated)
        chosen.load_state_dict(best.tensors)
        for which, model in (("test", chosen), ("last_test", trainer.evaluated)):
            measured = evaluate(model, *self.test)
            found |= {f"{which}_{name}": measured[name] for name in ("error", "loss")}
        return found


def _rounded(value: float) -> float:
    return value if isinstance(value, int) else round(value, 5)


def _run(
    task: Task,
    size: Size,
    chosen: Hyperparameters,
    parts: Examples,
    folder: str | Path | None,
    device: str,
) -> Run:
    rows = len(parts.unlabeled[0])
    recipe = Recipe(
        lambda: _model(size, parts),
        lambda: method(task.method, Problem(rows, parts.classes, BATCH, size.steps), chosen.terms),
        TensorBatches(*parts.labeled, batch_size=min(BATCH, task.labels), seed=task.seed),
        TensorBatches(parts.unlabeled[0], batch_size=BATCH, seed=task.seed),
        steps=size.steps,
        learning_rate=Drop(chosen.learning_rate, at=0.8 * size.steps),
        views=parts.views,
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
