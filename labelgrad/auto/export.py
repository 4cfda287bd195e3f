"""The saved model as a file for other programs: pixels or columns in, probabilities or values out.

The file is compared with the model on a few examples before it is written. For tables there is also
a Python file that takes columns as they are in the user's file: ONNX has no operators for dates,
currencies and thousands, and needs a runtime.
"""

from __future__ import annotations

import base64
import io
import logging
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from labelgrad.auto import numpy_model
from labelgrad.auto.base_models.networks import FINE_TUNED, TrainedNetwork
from labelgrad.auto.data import formats
from labelgrad.auto.data.columns import Category, Column, Encoded, Number
from labelgrad.auto.data.dataset import Examples
from labelgrad.auto.result import Result
from labelgrad.auto.task import MIN_PROBABILITY, Array, Classification
from labelgrad.files import write_whole
from labelgrad.models.mlp import MLP, PIECE

SUFFIXES = {"torch": ".pt2", "onnx": ".onnx", "numpy": ".py"}
TOLERANCE = 1e-5  # other programs add in another order
ENCODER_TOLERANCE = 1e-3  # the same, through the many layers of an encoder
EXAMPLES = 3


class Exported(nn.Module):
    """The network between the scaling of its inputs and the reading of its outputs."""

    def __init__(self, model: TrainedNetwork):
        super().__init__()
        self.network, self.scale, self.task = model.network, model.scale, model.task
        self.temperature = model.temperature

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.network(self.scale(x))
        if isinstance(self.task, Classification):
            probabilities = (outputs / self.temperature).softmax(-1).clamp(min=MIN_PROBABILITY)
            return probabilities / probabilities.sum(-1, keepdim=True)
        return outputs[:, 0] * self.task.scale + self.task.mean


class ScaledFeatures(nn.Module):
    """An image encoder, and the scaling of its features."""

    mean: Tensor

    def __init__(self, encoder: nn.Module, mean: Sequence[float], std: float):
        super().__init__()
        self.encoder, self.std = encoder, std
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))

    def forward(self, pixels: Tensor) -> Tensor:
        features = self.encoder(pixels)
        units = features / features.square().sum(1, keepdim=True).sqrt().clamp(min=1e-12)
        found: Tensor = (units - self.mean) / self.std
        return found


class ExportedWithEncoder(nn.Module):
    """The same behind an image encoder: pixels from 0 to 255 in."""

    def __init__(self, scaled: Sequence[ScaledFeatures], behind: Exported):
        super().__init__()
        self.scaled, self.behind = nn.ModuleList(scaled), behind

    def forward(self, pixels: Tensor) -> Tensor:
        found: Tensor = self.behind(torch.cat([each(pixels) for each in self.scaled], 1))
        return found


def export(
    result: Result, *, to: str = "torch", out: str | Path | None = None, with_encoder: bool = False
) -> Path:
    """Write the saved model for programs without labelgrad.

    Parameters
    ----------
    result
        A fitted or loaded run.
    to
        "torch" (`torch.export`, .pt2) or "onnx", which take columns as `fit` preprocesses them; or
        "numpy", a Python file for tables that takes raw columns and needs NumPy alone.
    out
        The file; by default `model.pt2`, `model.onnx` or `model.py` in the run folder.
    with_encoder
        Include the image encoder, so that the model takes pixels of the encoder's size.

    Returns
    -------
    Path
        The file that was written.

    """
    if to not in SUFFIXES:
        raise ValueError(f"`to` must be one of {', '.join(SUFFIXES)}, got {to!r}.")
    if out is None:
        if result.folder is None:
            raise ValueError("This result has no run folder; name a file with `out`.")
        out = result.folder / f"model{SUFFIXES[to]}"
    encoded = with_encoder or result.predictor.model.architecture == FINE_TUNED
    if to == "numpy":
        content, found, wanted = _as_numpy(result, with_encoder)
    else:
        module, inputs, wanted = _with_encoder(result) if with_encoder else _plain(result)
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):  # of PyTorch's own formats
            make = _as_onnx if to == "onnx" else _as_torch
            content, outputs = make(module.eval(), inputs)
        found = outputs.double().numpy()
    apart = np.abs(found - wanted) / np.maximum(np.abs(wanted), 1)
    if not apart.max() <= (ENCODER_TOLERANCE if encoded else TOLERANCE):
        raise RuntimeError(
            f"The exported model's outputs differ by {apart.max():.1g} from those of the trained "
            f"one, so {out} was not written."
        )
    write_whole(Path(out), content)
    return Path(out)


def _plain(result: Result) -> tuple[nn.Module, Tensor, Array]:
    """The model, random examples as it takes them, and what it predicts of them."""
    model, shape = result.predictor.model, result.predictor.model.shape
    rng = np.random.default_rng(0)
    if len(shape) == 3:
        raw = rng.integers(0, 256, (EXAMPLES, *shape), dtype=np.uint8)
        examples = Examples(np.zeros((EXAMPLES, 1), np.float32), raw)
        return Exported(model), torch.from_numpy(raw).float(), _predicted(model, examples)
    if model.architecture == FINE_TUNED:
        raise ValueError(
            "A fine-tuned text encoder cannot be exported, because its tokenizer is no network; "
            "predict with labelgrad, or fit without --fine-tune."
        )
    X = rng.normal(size=(EXAMPLES, *shape)).astype(np.float32)
    return Exported(model), torch.from_numpy(X), _predicted(model, Examples(X))


def _with_encoder(result: Result) -> tuple[nn.Module, Tensor, Array]:
    """The same with the encoder of a folder of images."""
    from labelgrad.auto.encoders.find import encoder_again

    predictor = result.predictor
    state = asdict(predictor.preprocessor).get("state")
    if predictor.preprocessor.kind != "images" or not state or len(predictor.model.shape) == 3:
        raise ValueError(
            "--with-encoder needs a model of a folder of images whose encoder was not fine-tuned; "
            "export without it."
        )
    side = int(state["encoder"]["settings"]["size"])
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (EXAMPLES, 3, side, side), dtype=np.uint8)
    blocks, scaled = [], []
    for one in (state, state["plain"]) if "plain" in state else (state,):
        encoder = encoder_again(one["encoder"], result.config)
        features: Array = encoder.encode(list(pixels)).double().numpy()
        units = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
        blocks.append((units - np.array(one["mean"])) / one["scale"])
        scaled.append(ScaledFeatures(encoder.module, one["mean"], one["scale"]))
    module = ExportedWithEncoder(scaled, Exported(predictor.model))
    wanted = _predicted(predictor.model, Examples(np.hstack(blocks).astype(np.float32)))
    return module, torch.from_numpy(pixels).float(), wanted


def _predicted(model: TrainedNetwork, examples: Examples) -> Array:
    """Probabilities, or values in their own units."""
    prediction, task = model.predict(examples), model.task
    if isinstance(task, Classification):
        return np.exp(prediction)
    return prediction[:, 0] * task.scale + task.mean


def _as_torch(module: nn.Module, inputs: Tensor) -> tuple[bytes, Tensor]:
    batch = torch.export.Dim("batch", min=1, max=PIECE)
    program = torch.export.export(module, (inputs,), dynamic_shapes=({0: batch},))
    packed = io.BytesIO()
    torch.export.save(program, packed)
    packed.seek(0)
    return packed.getvalue(), torch.export.load(packed).module()(inputs)


def _as_onnx(module: nn.Module, inputs: Tensor) -> tuple[bytes, Tensor]:
    try:
        import onnx.reference
        import onnxscript  # noqa: F401 - PyTorch's exporter needs it
    except ImportError:
        raise ImportError("Export to ONNX needs more: pip install 'labelgrad[onnx]'.") from None
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it names packages it could use
    shapes = ({0: torch.export.Dim("batch", min=1, max=PIECE)},)
    program: Any = torch.onnx.export(
        module, (inputs,), dynamo=True, dynamic_shapes=shapes, verbose=False
    )
    content: bytes = program.model_proto.SerializeToString()
    try:
        import onnxruntime

        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
    except ImportError:  # ONNX's own is slow, and always there
        session = onnx.reference.ReferenceEvaluator(onnx.load_from_string(content))
        name = session.input_names[0]
    (outputs,) = session.run(None, {name: inputs.numpy()})
    return content, torch.from_numpy(outputs)


def _as_numpy(result: Result, with_encoder: bool) -> tuple[bytes, Array, Array]:
    """A Python file for raw columns, and what it and the model predict of a few rows."""
    model, task = result.predictor.model, result.task
    columns: Sequence[Column] = getattr(result.predictor.preprocessor, "columns", ())
    if not columns or with_encoder:
        raise ValueError("--to numpy is for tables, without --with-encoder; choose torch or onnx.")
    texts = [column.name for column in columns if isinstance(column, Encoded)]
    plain = [column for column in columns if not isinstance(column, Encoded)]
    if texts:
        raise ValueError(
            f"--to numpy cannot encode texts, and {texts[0]!r} is a column of texts; choose torch "
            f"or onnx, or fit without it (--ignore {texts[0]})."
        )
    if not isinstance(model.network, MLP):
        raise ValueError("--to numpy needs the network mlp or linear; choose torch or onnx.")
    about = {
        "classes": list(task.classes),
        "columns": [_description(column) for column in plain],
        **{"factor": model.scale.factor, "shift": model.scale.shift},
        **({} if isinstance(task, Classification) else {"mean": task.mean, "scale": task.scale}),
        **{"temperature": model.temperature, "least": MIN_PROBABILITY},
        **{"missing": list(formats.MISSING), "truth": formats.TRUTH},
        "typeset": dict(zip(formats.TYPESET, formats.KEYBOARD, strict=True)),
    }
    packed = io.BytesIO()
    weights = model.network.state_dict()  # a weight and a bias for each layer, in their order
    np.savez_compressed(packed, **{name: each.numpy() for name, each in weights.items()})
    text = base64.encodebytes(packed.getvalue()).decode()
    code = Path(numpy_model.__file__).read_text(encoding="utf-8")
    listed = pformat(about, width=100, sort_dicts=False)
    content = f'{code}\n\nMODEL = Model(\n{listed},\n"""\n{text}""",\n)\n'
    cells = {column.name: _cells(column) for column in plain}
    X = np.hstack([each.encode(each.parse(pl.Series(cells[each.name]))) for each in plain])
    found = numpy_model.Model(about, text).predict(cells)
    return content.encode(), found, _predicted(model, Examples(X))


def _description(column: Column) -> dict[str, Any]:
    """How an exported file reads a column, with the patterns of its format."""
    if isinstance(column, Category):
        return {**asdict(column), "width": column.width}
    assert isinstance(column, Number)
    names = ("kind", "name", "median", "missing", "mean", "scale")
    about: dict[str, Any] = {name: getattr(column, name) for name in names}
    form, number = column.format, None
    if isinstance(form, formats.NumberFormat):
        digits = formats.digits_pattern(form.decimal, form.thousands)
        number = {**vars(form), "written": formats.WRITTEN, "digits": digits}
        number["percent"] = form.unit in formats.PERCENT
    dates = formats.PATTERNS[form.order] if isinstance(form, formats.DateFormat) else []
    return {**about, "number": number, "dates": dates}


def _cells(column: Column) -> list[Any]:
    """A few raw cells: those of a category, or the range of numbers or dates; and a missing one."""
    if isinstance(column, Category):
        return [column.texts[0], column.texts[-1], "", None]
    assert isinstance(column, Number)
    numbers = [column.low, column.median, column.high]
    if isinstance(column.format, formats.DateFormat):
        return [*(datetime(1970, 1, 1) + timedelta(days=days) for days in numbers), None]
    return [*numbers, None]
