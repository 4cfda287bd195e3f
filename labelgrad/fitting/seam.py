"""Stand-ins until branches `inputs` and `main` (Recipe) are merged; this file goes then."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from labelgrad.augment.views import Noise, Pictures
from labelgrad.functional import random_numbers
from labelgrad.inputs.arrays import prepare_array
from labelgrad.inputs.columns import from_json
from labelgrad.inputs.read import prepare as prepare_path
from labelgrad.inputs.read import read_given
from labelgrad.inputs.row_scale import ROW_LENGTH
from labelgrad.losses import CrossEntropy
from labelgrad.training import batches, evaluation
from labelgrad.training.run import Run
from labelgrad.training.trainer import Trainer

from labelgrad.inputs.dataset import Dataset

Dataset.preprocessing = property(lambda self: self.preparation)


def read(data, y=None, *, labels=None, target=None, task=None, size=None, strict=False):
    found = read_given(data, y, task=task, labels=labels, target=target, size=size, strict=strict)
    return found


def prepare(preprocessing, data, *, strict=False):
    if isinstance(data, str | Path):
        return prepare_path(preprocessing, data, strict=strict)
    return prepare_array(preprocessing, np.asarray(data))


@dataclass(frozen=True)
class Scale:
    factor: float
    shift: float

    def __call__(self, x):
        return x.float() * self.factor + self.shift


@dataclass
class kind_named:
    name: str

    @property
    def key(self):
        return "file" if self.name == "pictures" else "row"

    def defaults(self, shape):
        table = len(shape) == 1
        return SimpleNamespace(
            network="mlp" if table else "wrn-10-1",
            steps=5000 if table else 1000,
            learning_rate=2e-4 if table else 1e-3,
            vat_radius=0.3 if table else 1.0,
            drop_at=None if table else 0.8,
            augment=not table,
        )

    def transform(self, preprocessing, x):
        if x.ndim == 2:
            return Scale(ROW_LENGTH / math.sqrt(x.shape[1]), 0.0)
        if x.dtype == torch.uint8:
            return Scale(2 / 255, -1.0)
        low, high = float(x.min()), float(x.max())
        factor = 2 / (high - low) if high > low else 1.0
        return Scale(factor, -1.0 - low * factor)

    def views(self, shape, scale, mirror):
        if len(shape) == 1:
            return Noise(0.1 * scale.factor, 0.5 * scale.factor)
        side = min(shape[1:])
        return Pictures(mirror=mirror, pixels=0 if side < 4 else max(1, side // 16))

    def columns(self, preprocessing):
        return [str(c["name"]) for c in preprocessing.get("columns", [])[:6]]

    def show(self, preprocessing, row):
        if row.dtype == np.uint8:
            return SimpleNamespace(picture=row, cells=[])
        shown, start = [], 0
        for described in preprocessing.get("columns", [])[:6]:
            column = from_json(described)
            shown.append(column.show(row[start : start + column.width]))
            start += column.width
        return SimpleNamespace(picture=None, cells=shown)

    def near(self, x, outputs):
        return x if x.ndim == 2 else outputs.reshape(len(x), -1)


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
