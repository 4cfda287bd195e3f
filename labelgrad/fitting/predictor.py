"""The model that is kept, with all it takes to use it in another process: two files, no code."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

import labelgrad
from labelgrad.files import csv_bytes, json_bytes, unshared, write_whole
from labelgrad.fitting.plan import OWN, network
from labelgrad.fitting.run_files import CONFIG, MODEL
from labelgrad.inputs.base import Scale
from labelgrad.inputs.kinds import kind_named
from labelgrad.training.batches import Examples
from labelgrad.training.evaluation import predict

FORMAT = 2  # of the folder; another one is refused, not guessed at
AT_ONCE, MOST = 2**18, 1000  # numbers, which are 1 MB, and examples that are predicted at once
MANY = 20  # classes; a column for each of more is written where it is asked for


@dataclass(frozen=True)
class Config:
    """What a model is besides its weights; plain values that JSON can hold."""

    kind: str
    task: str
    classes: tuple[str, ...]
    network: str
    shape: tuple[int, ...]
    factor: float  # what the network sees is x · factor + shift
    shift: float
    preprocessing: dict[str, Any]
    method: str
    step: int
    temperature: float = 1.0
    mean: float = 0.0  # of the values a regression learned, and their spread
    spread: float = 1.0
    margin: float | None = None  # nine of ten held-out values were as near as this

    @property
    def key(self) -> str:
        """What an example is called by."""
        return kind_named(self.kind).key

    @property
    def transform(self) -> Scale:
        """What turns examples as they were read into what the network sees."""
        return Scale(self.factor, self.shift)

    def meaning(self, outputs: Tensor) -> Tensor:
        """Outputs of the network (n, classes) as calibrated probabilities, or as values (n,)."""
        if self.task == "classification":
            return (outputs / self.temperature).softmax(-1)
        return outputs[:, 0] * self.spread + self.mean

    def predictions(
        self, values: Tensor, names: list[str], skipped: Sequence[tuple[str, str]] = ()
    ) -> Predictions:
        """Probabilities, or values, with the names of the examples they are about."""
        return Predictions(self.key, names, self.classes, values, self.margin, skipped)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says about some examples; probabilities are calibrated."""

    key: str
    names: list[str]
    classes: tuple[str, ...]
    values: Tensor  # (n, classes) probabilities, or (n,) values
    margin: float | None = None
    skipped: Sequence[tuple[str, str]] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def labels(self) -> list[Any]:
        """The likeliest class of each example, or its value."""
        if not self.classes:
            return self.values.tolist()
        return [self.classes[place] for place in self.values.argmax(-1).tolist()]

    def columns(self, *, all_classes: bool | None = None) -> dict[str, list[Any]]:
        """A table: the name, the prediction, how sure it is, and every class's probability.

        Of more than twenty classes there are only the likeliest's, unless `all_classes` says so.

        >>> import torch
        >>> found = Predictions("row", ["1"], ("cat", "dog"), torch.tensor([[0.25, 0.75]]))
        >>> found.columns()
        {'row': ['1'], 'prediction': ['dog'], 'probability': ['0.750000'], \
'cat': ['0.250000'], 'dog': ['0.750000']}
        """
        table: dict[str, list[Any]] = {self.key: self.names}
        if not self.classes:
            table["prediction"] = [f"{value:.7g}" for value in self.values.tolist()]
            if self.margin is not None:
                for name, sign in (("low", -1), ("high", 1)):
                    bound = self.values + sign * self.margin
                    table[name] = [f"{value:.7g}" for value in bound.tolist()]
            return table
        table["prediction"] = self.labels
        table["probability"] = [f"{p:.6f}" for p in self.values.max(-1).values.tolist()]
        if all_classes is None:
            all_classes = len(self.classes) <= MANY
        if all_classes:
            for name, column in zip(self.classes, self.values.T, strict=True):
                free = name if name not in table else f"probability of {name}"
                table[free] = [f"{p:.6f}" for p in column.tolist()]
        return table

    def save(self, path: str | Path, *, all_classes: bool | None = None) -> None:
        """Write the table as CSV; `all_classes` as in `columns`."""
        table = self.columns(all_classes=all_classes)
        write_whole(Path(path), csv_bytes(list(table), zip(*table.values(), strict=True)))


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained model and its `Config`."""

    model: nn.Module
    config: Config

    def __call__(self, x: Tensor) -> Tensor:
        """Calibrated probabilities, or values, of examples as they were read."""
        outputs = outputs_of(self.model, Examples(x, transform=self.config.transform))
        return self.config.meaning(outputs.double())

    def predictions(
        self, x: Tensor, names: list[str], skipped: Sequence[tuple[str, str]] = ()
    ) -> Predictions:
        """The same, with names."""
        return self.config.predictions(self(x), names, skipped)

    def save(self, folder: Path) -> None:
        """Write the model, then the config that knows its digest: they cannot be mixed up."""
        weights = save_tensors(unshared(self.model.state_dict()))
        head = {"format": FORMAT, "labelgrad": labelgrad.__version__, "model": _digest(weights)}
        write_whole(folder / MODEL, weights)
        write_whole(folder / CONFIG, json_bytes(head | asdict(self.config)))


def outputs_of(model: nn.Module, examples: Examples) -> Tensor:
    """The model's outputs; examples are scaled some at a time, and so never copied as a whole."""
    many = AT_ONCE // max(1, math.prod(examples.x.shape[1:]))
    return predict(model, examples, batch_size=max(1, min(MOST, many)))


def load_predictor(folder: Path, model: nn.Module | None = None) -> Predictor:
    """The model of a run folder; a network of one's own is given, and gets its weights."""
    config, digest = _read_config(folder)
    try:
        weights = (folder / MODEL).read_bytes()
    except OSError as error:
        raise ValueError(f"{folder / MODEL} cannot be read ({error.strerror}).") from None
    if _digest(weights) != digest:
        raise ValueError(
            f"{folder / MODEL} is damaged or of another run than {CONFIG} beside it; "
            f"fit again with --resume."
        )
    if config.network == OWN and model is None:
        raise ValueError(
            f"The run in {folder} has a network of your own; load it in Python with "
            f"labelgrad.load({str(folder)!r}, model=...)."
        )
    width = len(config.classes) or 1
    built = network(config.network, config.shape, width) if model is None else model
    try:
        built.load_state_dict(load_tensors(weights))
    except Exception as error:  # of safetensors or of PyTorch, over many lines
        reason = str(error).splitlines()[0].rstrip(":")
        raise ValueError(f"{folder / MODEL} does not fit its network ({reason}).") from None
    built.eval()
    return Predictor(built, config)


def _read_config(folder: Path) -> tuple[Config, str]:
    path = folder / CONFIG
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no run folder {folder}.")
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} holds no finished run: it has no {CONFIG}; go on with labelgrad fit."
        )
    try:
        kept = json.loads(path.read_bytes())
        found, version = kept.pop("format"), kept.pop("labelgrad")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is damaged ({error}); fit again.") from None
    if found != FORMAT:
        raise ValueError(
            f"{folder} was written by labelgrad {version} in format {found}, and this is "
            f"{labelgrad.__version__} with format {FORMAT}; fit again, or use that version."
        )
    try:
        digest = kept.pop("model")
        kept |= {name: tuple(kept[name]) for name in ("classes", "shape")}
        return Config(**kept), digest
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}); fit again.") from None


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
