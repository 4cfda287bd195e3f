"""TabPFN v1 (Hollmann et al., 2023): a transformer that reads a small table with its labels.

Its weights are in the source distribution of `tabpfn` 0.1 on PyPI, whose code needs an older
PyTorch: `tabpfn/models_diff/prior_diff_real_checkpoint_n_0_epoch_42.cpkt`.
"""

from __future__ import annotations

import random
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.preprocessing import PowerTransformer
from torch import Tensor, nn

from experiments.tabular.data import Array

COLUMNS, CLASSES, WIDTH = 100, 10, 512  # at most, at most, of the transformer
COMPONENTS = 90  # of tables with more columns
TEMPERATURE, OUTLIER = 0.8, 4.0  # of the softmax; standard deviations


class Transformer(nn.Module):
    """Rows are tokens: labeled ones carry their label, and every row attends to these alone."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True)
        self.encoder, self.y_encoder = nn.Linear(COLUMNS, WIDTH), nn.Linear(1, WIDTH)
        self.transformer_encoder = nn.TransformerEncoder(layer, 12)
        hidden, out = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, CLASSES)
        self.decoder = nn.Sequential(hidden, nn.GELU(), out)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Logits (rows without a label, classes) of x (rows, columns), whose first have labels."""
        labeled, rows = len(y), self.encoder(x)[None]
        rows[:, :labeled] += self.y_encoder(y[:, None].float())
        for layer in self.transformer_encoder.layers:
            context = rows[:, :labeled]
            seen, _ = layer.self_attn(rows, context, context, need_weights=False)
            rows = layer.norm1(rows + seen)
            hidden = nn.functional.gelu(layer.linear1(rows))
            rows = layer.norm2(rows + layer.linear2(hidden))
        logits: Tensor = self.decoder(rows[0, labeled:])
        return logits


@lru_cache(1)
def load(checkpoint: Path) -> Transformer:
    """The network with its trained weights."""
    network = Transformer()
    weights = torch.load(checkpoint, map_location="cpu", weights_only=True)[0]
    kept = {name.removeprefix("module."): value for name, value in weights.items()}
    network.load_state_dict({name: kept[name] for name in network.state_dict()})
    return network.eval()


class TabPFN(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The classifier, averaged over orders of columns and classes and two scalings of columns."""

    def __init__(self, checkpoint: str, configurations: int = 4, random_state: int = 0) -> None:
        self.checkpoint = checkpoint
        self.configurations = configurations
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> TabPFN:
        """Keep the labeled rows: there is nothing to train."""
        self.classes_, self.y_ = np.unique(y, return_inverse=True)
        if len(self.classes_) > CLASSES:
            raise ValueError(
                f"TabPFN v1 takes at most {CLASSES} classes, and there are {len(self.classes_)}."
            )
        self.X_ = np.asarray(X, float)
        return self

    @torch.inference_mode()
    def predict_proba(self, X: Array) -> Array:
        """Probabilities, a row for each of X and a column for each class."""
        network, chance = load(Path(self.checkpoint)), random.Random(self.random_state)
        labeled, classes = len(self.X_), len(self.classes_)
        rows = np.concatenate([self.X_, np.asarray(X, float)])
        if rows.shape[1] > COLUMNS:
            rows = PCA(min(COMPONENTS, labeled - 1), random_state=0).fit_transform(rows)
        scaled = [scale(rows, labeled, power=power) for power in (False, True)]
        orders, total = chance.sample(range(classes), classes), torch.zeros(len(X), classes)
        for number in range(self.configurations):
            values, shift = scaled[number % 2], orders[number // 2 % classes]
            values = np.roll(values, chance.randrange(values.shape[1]), axis=1)
            x = torch.zeros(len(rows), COLUMNS)
            x[:, : values.shape[1]] = torch.from_numpy(values)
            logits = network(x, torch.from_numpy((self.y_ + shift) % classes))[:, :classes]
            total += logits.roll(-shift, dims=1)
        found = torch.softmax(total / self.configurations / TEMPERATURE, 1)
        return found.double().numpy()

    def predict(self, X: Array) -> Array:
        """The most probable class of each row."""
        found: Array = self.classes_[self.predict_proba(X).argmax(1)]
        return found


def scale(rows: Array, labeled: int, *, power: bool) -> Array:
    """Columns on the scale of the labeled rows, without outliers; constant ones are dropped."""
    known = rows[:labeled]
    rows = np.clip((rows - known.mean(0)) / (known.std(0, ddof=1) + 1e-6), -100, 100)
    rows = rows[:, np.ptp(known, axis=0) > 0] if np.ptp(known, axis=0).any() else rows
    if power:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            normal = PowerTransformer().fit(rows[:labeled]).transform(rows)
        rows = np.where(np.isfinite(normal).all(0), normal, rows)
    inner = rows[:labeled].copy()
    inner[np.abs(inner - inner.mean(0)) > OUTLIER * inner.std(0, ddof=1)] = np.nan
    center, spread = np.nanmean(inner, 0), OUTLIER * np.nanstd(inner, 0, ddof=1)
    rows = np.maximum(rows, center - spread - np.log1p(np.abs(rows)))
    rows = np.minimum(rows, center + spread + np.log1p(np.abs(rows)))
    found: Array = rows * COLUMNS / rows.shape[1]
    return found
