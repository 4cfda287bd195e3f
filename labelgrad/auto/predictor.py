"""The saved network with all that new data need: `model.json` and `model.safetensors`, no code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from labelgrad.auto.base_models.networks import FINE_TUNED, OWN, TrainedNetwork, encoder_state
from labelgrad.auto.config import FitConfig
from labelgrad.auto.data.dataset import Examples, NewExamples, Preprocessor, RowIds
from labelgrad.auto.labels import id_column
from labelgrad.auto.task import Array, Classification, Regression, Task, task_from_dict
from labelgrad.files import json_bytes, read_json, unshared, write_whole

if TYPE_CHECKING:
    from labelgrad.auto.run import Manifest

MODEL_INFO, MODEL = "model.json", "model.safetensors"
MOST_JSON = 2**28  # bytes
INTERVAL, MIN_MARGIN = 0.9, 1e-9  # share of values inside; standard deviations
MANY_CLASSES = 20  # a column for each of more is written only on request


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for some examples; probabilities are calibrated.

    >>> task = Classification(("cat", "dog"))
    >>> found = Predictions(task, "row", ["1"], np.log([[0.25, 0.75]]))
    >>> found.labels, found.frame().columns
    (['dog'], ['row', 'prediction', 'confidence', 'cat', 'dog'])
    >>> found
    Predictions for 1 example
    """

    task: Task
    id_name: str
    ids: Sequence[str]
    prediction: Array  # as the task has it
    margin: Array | None = None  # (n,) of values: half the width of a 90 % interval, in their units
    skipped: Sequence[tuple[str, str]] = ()  # id, reason

    def __len__(self) -> int:
        return len(self.prediction)

    def __repr__(self) -> str:
        return f"Predictions for {len(self):,} example{'' if len(self) == 1 else 's'}"

    def _repr_html_(self) -> str:
        return str(self.frame()._repr_html_())

    @property
    def labels(self) -> list[Any]:
        """The most probable class of each example, or its value."""
        return self.task.display(self.task.point(self.prediction))

    @property
    def probabilities(self) -> Array:
        """Of each class, (n, classes)."""
        if not isinstance(self.task, Classification):
            raise ValueError("Predictions of values have no probabilities.")
        return np.exp(self.prediction)

    def frame(self, *, all_classes: bool | None = None) -> pl.DataFrame:
        """A table of the ids, the predictions and their confidence.

        Parameters
        ----------
        all_classes
            Whether each class has a column with its probability; by default if there are
            at most twenty.

        """
        table = {self.id_name: id_column(self.ids), "prediction": pl.Series(self.labels)}
        if not isinstance(self.task, Classification):
            table["prediction"] = table["prediction"].cast(pl.Float64)
            if self.margin is not None:
                table["low"] = table["prediction"] - self.margin
                table["high"] = table["prediction"] + self.margin
            return pl.DataFrame(table)
        table["prediction"] = table["prediction"].cast(pl.String)
        probabilities = self.probabilities.round(6)
        table["confidence"] = pl.Series(probabilities.max(1))
        if len(self.task.classes) <= MANY_CLASSES if all_classes is None else all_classes:
            for name, column in zip(self.task.classes, probabilities.T, strict=True):
                unused = name if name not in table else f"probability of {name}"
                table[unused] = pl.Series(np.ascontiguousarray(column))
        return pl.DataFrame(table)

    def save(self, path: str | Path, *, all_classes: bool | None = None) -> None:
        """Write the table as CSV."""
        save_predictions([self], path, all_classes=all_classes)


def save_predictions(
    parts: Iterable[Predictions], path: str | Path, *, all_classes: bool | None = None
) -> tuple[int, list[tuple[str, str]]]:
    """Write predictions as CSV, part by part; the file takes its place when it is whole.

    Returns
    -------
    tuple
        How many examples were predicted, and which were skipped for what reason.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> task, path = Classification(("cat", "dog")), Path(mkdtemp(), "predictions.csv")
    >>> parts = [Predictions(task, "row", [id], np.log([[0.25, 0.75]])) for id in "12"]
    >>> save_predictions(parts, path)
    (2, [])
    >>> path.read_text().splitlines()[1:]
    ['1,dog,0.75,0.25,0.75', '2,dog,0.75,0.25,0.75']

    """
    count, skipped = 0, list[tuple[str, str]]()

    def pieces() -> Iterator[bytes]:
        nonlocal count
        for place, part in enumerate(parts):
            table = part.frame(all_classes=all_classes)
            yield table.write_csv(include_header=not place).encode()
            count += len(part)
            skipped.extend(part.skipped)

    write_whole(Path(path), pieces())
    return count, skipped


@dataclass(frozen=True, eq=False)
class Predictor:
    """A network, and the preprocessor of its examples.

    Attributes
    ----------
    model
        The network with its calibration.
    preprocessor
        Treats new data as the data of the fit.
    margin
        Nine of ten held-out values were predicted this closely, in standard deviations.

    """

    model: TrainedNetwork
    preprocessor: Preprocessor
    margin: float | None = None

    def __post_init__(self) -> None:
        model, task = self.model, self.model.task
        numbers = {"temperature": model.temperature, "std": model.std, "margin": self.margin}
        for name, value in numbers.items():
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"`{name}` must be positive and finite, got {value}")
        if not (0 < abs(model.scale.factor) < math.inf and math.isfinite(model.scale.shift)):
            raise ValueError(f"`scale` must be finite and not zero, got {model.scale}")
        if isinstance(task, Classification):
            if len(task.classes) < 2 or len(set(task.classes)) < len(task.classes):
                raise ValueError(f"`classes` must be two or more, each once, got {task.classes}")
        elif not (math.isfinite(task.mean) and 0 < task.scale < math.inf):
            raise ValueError(f"`task` must have a finite mean and a positive scale, got {task}")

    def predict(self, examples: Examples) -> Array:
        """A prediction for each example, some at a time."""
        prediction = self.model.predict(examples)
        strange = ~np.isfinite(prediction).all(1)
        if strange.any():
            raise ValueError(
                f"The model predicts no finite numbers for {strange.sum()} of {len(examples)} "
                f"examples, the first at position {strange.argmax()}; look at these examples."
            )
        return prediction

    def predictions(self, new: NewExamples, prediction: Array | None = None) -> Predictions:
        """The network's, or another, prediction of new examples, with their ids."""
        found = self.predict(new.examples) if prediction is None else prediction
        task, margin = self.model.task, None
        id_name = "row" if isinstance(new.ids, RowIds) else self.preprocessor.id_name
        if isinstance(task, Regression) and self.margin is not None:
            margin = self.margin * task.scale * found[:, 1]
        return Predictions(task, id_name, new.ids, found, margin, new.skipped)

    def files(self) -> dict[str, bytes]:
        """The files of the model by their names."""
        about = {
            "network": self.model.to_dict(),
            "task": self.model.task.to_dict(),
            "margin": self.margin,
            "preprocessor": asdict(self.preprocessor),
        }
        weights = save_tensors(unshared(self.model.network.state_dict()))
        return {MODEL_INFO: json_bytes(about), MODEL: weights}


def interval_margin(prediction: Array, y: Array, task: Task) -> float | None:
    """How many standard deviations nine of ten held-out values are from their predictions.

    With n of them it is the ⌈0.9 (n + 1)⌉-th smallest (Lei et al., 2018), so that the intervals of
    new examples cover nine of ten on average, whatever the standard deviations are worth.

    >>> y = np.arange(10.0)
    >>> interval_margin(np.stack([np.zeros(10), np.full(10, 2.0)], axis=1), y, Regression())
    4.5
    """
    if not isinstance(task, Regression) or not len(y):
        return None
    errors = np.sort(np.abs(prediction[:, 0] - y) / prediction[:, 1])
    place = min(len(y), math.ceil(INTERVAL * (len(y) + 1))) - 1
    return float(max(errors[place], MIN_MARGIN))


def read_predictor(manifest: Manifest, network: nn.Module | None, config: FitConfig) -> Predictor:
    """The model that a manifest lists; a user's own network is given, and gets its weights."""
    from labelgrad.auto.data.dataset import preprocessor_from_dict

    folder = manifest.folder
    with manifest.using(MODEL_INFO):
        about = read_json(manifest.read(MODEL_INFO, MOST_JSON))
        task, saved = task_from_dict(about["task"]), about["network"]
        preprocessor, margin = preprocessor_from_dict(about["preprocessor"]), about["margin"]
        if saved["architecture"] == OWN and network is None:
            raise ValueError(
                f"The run in {folder} has a network of your own; load it in Python with "
                f"labelgrad.load({str(folder)!r}, network=...)."
            )
        if saved["architecture"] == FINE_TUNED:
            from labelgrad.auto.encoders.fine_tuning import fine_tuned_network

            network = fine_tuned_network(encoder_state(preprocessor) or {}, task.outputs, config)
    with manifest.using(MODEL):
        weights = load_tensors(manifest.read(MODEL))
        model = trained_network(saved, task, weights, network)
    with manifest.using(MODEL_INFO):
        return Predictor(model, preprocessor, margin)


def trained_network(
    saved: Mapping[str, Any], task: Task, weights: dict[str, Tensor], module: nn.Module | None
) -> TrainedNetwork:
    """The network that was saved; none that is larger than its weights is ever built."""
    if module is None:
        with torch.device("meta"):  # shapes alone
            shapes = TrainedNetwork.from_dict(saved, task).network.state_dict()
        for name, tensor in shapes.items():
            if name not in weights or weights[name].shape != tensor.shape:
                raise ValueError(f"it has no {name} of the shape {tuple(tensor.shape)}")
    model = TrainedNetwork.from_dict(saved, task, module)
    model.network.load_state_dict(weights)
    return model
