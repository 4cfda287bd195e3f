"""Small results of runs, built without fitting anything."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl

from labelgrad.auto.labels import SOURCES
from labelgrad.auto.task import Classification, Regression

FILE = "annotations.jsonl"  # in a run folder: what people have said


@dataclass
class FakeRun:
    """As much of a result as annotations, queue and guarantees read."""

    labels: pl.DataFrame
    task: object
    held_out: object
    base_model_predictions: object
    folder: Path | None = None
    digest: str = "model-1"
    truth: np.ndarray | None = None
    config: object = field(default_factory=lambda: SimpleNamespace(seed=0, groups=None))
    about: object = field(default_factory=lambda: SimpleNamespace(learned_from=None))
    id_name: str = "row"

    def with_cells(self, listed: pl.DataFrame) -> pl.DataFrame:
        return listed


def classification_run(
    n=400, labeled=40, *, source="given", folder=None, seed=0, skill=3.0, digest="model-1"
):
    """Three classes; `skill` is how well probabilities tell the truth."""
    generator = np.random.default_rng(seed)
    task = Classification(("ant", "bee", "cow"))
    truth = generator.integers(3, size=n)
    logits = generator.normal(size=(n, 3)) + skill * np.eye(3)[truth]
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    top = log_p.argmax(1)
    rows = np.sort(generator.choice(n, labeled, replace=False))
    is_labeled = np.isin(np.arange(n), rows)
    imputed = np.flatnonzero(~is_labeled)
    enum = pl.Enum(task.classes)
    label = np.where(is_labeled, truth, top)
    confidence = np.where(is_labeled, np.nan, np.exp(log_p.max(1))).astype(np.float32)
    other = np.where(generator.random(n) < 0.9, top, (top + 1) % 3)

    def target(values):
        return pl.Series([task.classes[code] for code in values], dtype=enum)

    def number(values):
        return pl.Series(values, dtype=pl.Float32).fill_nan(None)

    labels = pl.DataFrame(
        {
            "row": [str(row + 1) for row in range(n)],
            "label": target(label),
            "confidence": number(confidence),
            "source": pl.Series(np.where(is_labeled, source, "imputed")).cast(pl.Enum(SOURCES)),
            "prediction": target(other),
            "prediction_confidence": number(confidence),
            "entropy": number(np.where(is_labeled, np.nan, 0.1)),
            "neighbours": target(other),
            "neighbour_disagreement": number(np.where(is_labeled, np.nan, (other != top) * 0.67)),
            "ood_score": number(np.where(is_labeled, np.nan, 1.0)),
            "unknown_probability": number(np.where(is_labeled, np.nan, 0.0)),
        }
    )
    by = np.stack([other[imputed], confidence[imputed]], 1)
    models = {"linear": np.stack([top[imputed], confidence[imputed]], 1), "trees": by}
    mean = np.exp(log_p[imputed]).mean(0)
    arrays = predictions_of(rows, truth[rows], log_p[rows], mean, imputed, models)
    return FakeRun(labels, task, *arrays, folder, digest, truth)


def predictions_of(rows, y, held_out, mean, imputed, models):
    """What was predicted of labeled examples in four folds, and what base models say of others."""
    folds = SimpleNamespace(
        rows=rows,
        y=y,
        fold=np.arange(len(rows)) % 4,
        predictions={"linear": held_out, "ensemble": held_out},
        fold_means=np.tile(mean, (4, 1)),
    )
    nearest = np.tile(rows[:3], (len(imputed), 1))
    return folds, SimpleNamespace(rows=imputed, nearest=nearest, predictions=models)


def regression_run(n=200, labeled=40, *, source="given", folder=None, seed=0):
    generator = np.random.default_rng(seed)
    task = Regression(mean=10.0, scale=2.0)
    y = generator.normal(size=n)
    predicted = y + 0.3 * generator.normal(size=n)
    rows = np.arange(labeled)
    is_labeled = np.arange(n) < labeled
    value = task.mean + task.scale * np.where(is_labeled, y, predicted)
    unknown = pl.Series(np.full(n, np.nan, np.float32)).fill_nan(None)
    labels = pl.DataFrame(
        {
            "row": [str(row + 1) for row in range(n)],
            "label": value,
            "confidence": unknown,
            "std": pl.Series(np.full(n, 0.6, np.float32)),
            "source": pl.Series(np.where(is_labeled, source, "imputed")).cast(pl.Enum(SOURCES)),
            "prediction": value + 0.1 * generator.normal(size=n),
            "prediction_confidence": unknown,
            "entropy": unknown,
            "neighbours": value + generator.normal(size=n),
            "neighbour_disagreement": pl.Series(generator.random(n).astype(np.float32)),
            "ood_score": pl.Series(generator.random(n).astype(np.float32)),
            "unknown_probability": unknown,
        }
    )
    both = np.stack([predicted, np.full(n, 0.3)], 1)
    imputed, mean = np.arange(labeled, n), np.full(2, predicted[labeled:].mean())
    arrays = predictions_of(rows, y[rows], both[rows], mean, imputed, {"linear": both[imputed]})
    return FakeRun(labels, task, *arrays, folder, truth=task.mean + task.scale * y)
