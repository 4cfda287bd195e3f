"""The model that is kept, with all it takes to use it in another process: two files, no code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

import labelgrad
from labelgrad.encoders.fine_tuned import FineTuned, trainable
from labelgrad.files import csv_bytes, json_bytes, read_json, unshared, write_pieces
from labelgrad.fitting.plan import FINE_TUNED, OWN, check_layers, network
from labelgrad.fitting.run_files import CONFIG, MODEL
from labelgrad.fitting.run_folder import AGAIN, DIGESTS, Digests, read_digests
from labelgrad.inputs.base import Encoding, Prepared, Scale, join_few
from labelgrad.inputs.encoded import Block, encoder_again
from labelgrad.inputs.kept import check_preprocessing
from labelgrad.inputs.kinds import kind_named
from labelgrad.inputs.raw import raw_examples, raw_scale
from labelgrad.inputs.targets import TASKS
from labelgrad.plain_values import built
from labelgrad.training.batches import Examples
from labelgrad.training.evaluation import predict

FORMAT = 3  # of the folder; another one is refused, not guessed at
AT_ONCE, MOST = 2**18, 1000  # numbers, which are 1 MB, and examples that are predicted at once
MOST_OF_CONFIG = 2**28  # bytes
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

    def __post_init__(self) -> None:
        classes, numbers = self.classes, (self.factor, self.temperature, self.spread)
        if self.task not in TASKS:
            raise ValueError(f"`task` must be one of {', '.join(TASKS)}, got {self.task!r}")
        fewest = 2 if self.task == "classification" else 0
        if len(classes) < fewest or (classes and not fewest) or len(set(classes)) < len(classes):
            raise ValueError(f"`classes` of a {self.task} cannot be {join_few(classes) or 'none'}")
        if not all(0 < abs(number) < math.inf for number in numbers) or min(numbers[1:]) <= 0:
            raise ValueError(
                f"`factor` must not be 0, `temperature` and `spread` be above it, got "
                f"{self.factor:g}, {self.temperature:g} and {self.spread:g}"
            )
        if not all(math.isfinite(number) for number in (self.shift, self.mean)):
            raise ValueError(f"`shift` and `mean` must be finite, got {self.shift}, {self.mean}")
        if self.margin is not None and not 0 <= self.margin < math.inf:
            raise ValueError(f"`margin` must be at least 0, got {self.margin}")
        if len(self.shape) not in (1, 3) or min(self.shape) < 1:
            raise ValueError(f"`shape` must be (columns,) or that of pictures, got {self.shape}")
        check_preprocessing(self.preprocessing, self.kind, self.shape)
        if self.network == FINE_TUNED and len(self.preprocessing.get("blocks", [])) != 1:
            raise ValueError("`preprocessing` of a fine-tuned network must have one encoder")

    @property
    def key(self) -> str:
        """What an example is called by."""
        return kind_named(self.kind).key

    @property
    def scale(self) -> Scale:
        """The same of what the network sees, where its encoder was trained, too."""
        is_raw = self.network == FINE_TUNED
        return raw_scale(self.preprocessing) if is_raw else self.transform

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
        self, values: Tensor, names: Sequence[str], skipped: Sequence[tuple[str, str]] = ()
    ) -> Predictions:
        """Probabilities, or values, with the names of the examples they are about."""
        return Predictions(self.key, names, self.classes, values, self.margin, skipped)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says about some examples; probabilities are calibrated."""

    key: str
    names: Sequence[str]
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
        table: dict[str, list[Any]] = {self.key: list(self.names)}
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

    def save(
        self, path: str | Path, *, all_classes: bool | None = None, spreadsheet_safe: bool = False
    ) -> None:
        """Write the table as CSV; `all_classes` as in `columns`.

        With `spreadsheet_safe` a name that a spreadsheet would take for a formula has an
        apostrophe before it.
        """
        save_parts([self], path, all_classes=all_classes, spreadsheet_safe=spreadsheet_safe)


def save_parts(
    parts: Iterable[Predictions],
    path: str | Path,
    *,
    all_classes: bool | None = None,
    spreadsheet_safe: bool = False,
) -> tuple[int, list[tuple[str, str]]]:
    """Write predictions as they come, as `Predictions.save` does: how many, and what was skipped.

    The file takes its place when it is whole.

    >>> from tempfile import mkdtemp
    >>> said = torch.tensor([[0.25, 0.75]])
    >>> parts = [Predictions("row", [name], ("cat", "dog"), said) for name in "12"]
    >>> file = Path(mkdtemp(), "said.csv")
    >>> save_parts(parts, file)
    (2, [])
    >>> file.read_text().splitlines()[1:]
    ['1,dog,0.750000,0.250000,0.750000', '2,dog,0.750000,0.250000,0.750000']
    """
    count, skipped = 0, list[tuple[str, str]]()

    def pieces() -> Iterator[bytes]:
        nonlocal count
        for place, part in enumerate(parts):
            table = part.columns(all_classes=all_classes)
            yield csv_bytes(
                list(table),
                zip(*table.values(), strict=True),
                spreadsheet_safe=spreadsheet_safe,
                with_header=place == 0,
            )
            count += len(part)
            skipped.extend(part.skipped)

    write_pieces(Path(path), pieces())
    return count, skipped


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained model and its `Config`."""

    model: nn.Module
    config: Config

    def __call__(self, x: Tensor) -> Tensor:
        """Calibrated probabilities, or values, of examples as they were read.

        A network whose encoder was trained, too, is given what `raw_of` makes of them.
        """
        outputs = outputs_of(self.model, Examples(x, transform=self.config.scale))
        said = self.config.meaning(outputs.double())
        strange = ~said.reshape(len(said), -1).isfinite().all(1)
        if strange.any():
            raise ValueError(
                f"The model says nothing finite about {int(strange.sum())} of {len(x)} examples, "
                f"the first at place {int(strange.nonzero()[0])}; fit again, or look at them."
            )
        return said

    def raw_of(self, prepared: Prepared) -> Tensor | None:
        """What the network sees in place of features, if its encoder was trained, too."""
        if not isinstance(self.model, FineTuned):
            return None
        record = self.config.preprocessing["blocks"][0]["encoder"]
        return raw_examples(self.model, record, prepared.originals or ())

    def predictions(
        self, x: Tensor, names: Sequence[str], skipped: Sequence[tuple[str, str]] = ()
    ) -> Predictions:
        """The same, with names."""
        return self.config.predictions(self(x), names, skipped)

    def contents(self) -> dict[str, bytes]:
        """The files of the model, by their names."""
        head = {"format": FORMAT, "labelgrad": labelgrad.__version__}
        config = json_bytes(head | asdict(self.config))
        return {CONFIG: config, MODEL: save_tensors(unshared(self.model.state_dict()))}


def outputs_of(model: nn.Module, examples: Examples) -> Tensor:
    """The model's outputs; examples are scaled some at a time, and so never copied as a whole."""
    many = AT_ONCE // max(1, math.prod(examples.x.shape[1:]))
    return predict(model, examples, batch_size=max(1, min(MOST, many)))


def load_predictor(
    folder: Path, model: nn.Module | None = None, *, encoding: Encoding | None = None
) -> Predictor:
    """The model of a run folder; a network of one's own is given, and gets its weights.

    `encoding` says where a fine-tuned encoder is, of which the folder has weights and name.
    """
    digests = finished_run(folder)
    config = _read_config(digests)
    weights = digests.read(MODEL)
    if config.network == OWN and model is None:
        raise ValueError(
            f"The run in {folder} has a network of your own; load it in Python with "
            f"labelgrad.load({str(folder)!r}, model=...)."
        )
    if config.network == FINE_TUNED:
        model = fine_tuned_network(config, encoding or Encoding())
    try:
        tensors = load_tensors(weights)
        whole = named_network(config, tensors) if model is None else model
        whole.load_state_dict(tensors)
    except Exception as error:  # of safetensors or of PyTorch, over many lines
        reason = str(error).splitlines()[0].rstrip(":.")
        raise ValueError(f"{folder / MODEL} does not fit its network ({reason}).") from None
    whole.eval()
    return Predictor(whole, config)


def fine_tuned_network(config: Config, encoding: Encoding) -> FineTuned:
    """The network of an encoder with a head; its weights are those before the training."""
    block = Block.of(config.preprocessing["blocks"][0])
    encoder = encoder_again(block.record, encoding)
    return FineTuned(trainable(encoder), block.mean, block.scale, len(config.classes) or 1)


def named_network(config: Config, weights: Mapping[str, Tensor]) -> nn.Module:
    """The config's network; nothing is built that is larger than the weights there are."""
    check_layers(config.network, len(weights))
    width = len(config.classes) or 1
    with torch.device("meta"):  # shapes alone
        wanted = network(config.network, config.shape, width).state_dict()
    for name, tensor in wanted.items():
        if name not in weights or weights[name].shape != tensor.shape:
            raise ValueError(f"it has no {name} of the shape {tuple(tensor.shape)}")
    return network(config.network, config.shape, width)


def finished_run(folder: Path) -> Digests:
    """The digests of the run in a folder, which must be finished, and of this format."""
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no run folder {folder}.")
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(
            f"{folder} holds no finished run: it has no {CONFIG}; go on with labelgrad fit."
        )
    if not (folder / DIGESTS).is_file():  # of an earlier format, or stopped while it was written
        _read_config(Digests(folder), checked=False)
    return read_digests(folder)


def _read_config(digests: Digests, *, checked: bool = True) -> Config:
    path = digests.folder / CONFIG
    content = (
        digests.read(CONFIG, MOST_OF_CONFIG) if checked else digests.content(CONFIG, MOST_OF_CONFIG)
    )
    try:
        kept = read_json(content)
        found, version = kept.pop("format"), kept.pop("labelgrad")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}); {AGAIN}.") from None
    if found != FORMAT:
        raise ValueError(
            f"{digests.folder} was written by labelgrad {version} in format {found}, and this is "
            f"{labelgrad.__version__} with format {FORMAT}; fit again, or use that version."
        )
    try:
        return built(Config, kept)
    except ValueError as error:
        raise ValueError(f"{path} cannot be used ({error}); {AGAIN}.") from None
