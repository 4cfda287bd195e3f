"""Stand-ins until main (Recipe) is merged; this file goes then."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from labelgrad.functional import random_numbers
from labelgrad.losses import CrossEntropy
from labelgrad.training import batches, evaluation
from labelgrad.training.run import Run
from labelgrad.training.trainer import Trainer


@dataclass
class Examples:
    x: object
    y: object = None
    rows: object = None
    transform: object = None

    def tensors(self):
        x = self.x if self.rows is None else self.x[self.rows]
        y = self.y if self.rows is None or self.y is None else self.y[self.rows]
        return (x if self.transform is None else self.transform(x)), y


def predict(model, examples):
    return evaluation.predict(model, examples.tensors()[0])


def TensorBatches(x, y=None, *, rows=None, batch_size, seed=0, transform=None):
    x, y = Examples(x, y, rows, transform).tensors()
    return batches.TensorBatches(x, y, batch_size=batch_size, seed=seed)


class Recipe:
    def __init__(
        self,
        network,
        objective,
        labeled,
        unlabeled=None,
        *,
        steps=1000,
        learning_rate=1e-3,
        loss=None,
        views=None,
        seed=0,
        device="cpu",
    ):
        self.__dict__.update(locals())

    def trainer(self):
        with random_numbers(torch.device("cpu"), self.seed):
            model = self.network() if callable(self.network) else self.network
        return Trainer(
            model.to(self.device),
            self.objective(),
            self.labeled,
            self.unlabeled,
            learning_rate=self.learning_rate,
            loss=self.loss or CrossEntropy(),
            views=self.views,
            seed=self.seed,
        )

    def run(self, *, folder=None, examples=None, evaluate_every=100, checkpoint_every=1000):
        return Run(
            self.trainer(),
            steps=self.steps,
            folder=folder,
            examples={k: v.tensors() for k, v in (examples or {}).items()},
            evaluate_every=evaluate_every,
            checkpoint_every=checkpoint_every,
        )
