"""A model as a file for other programs: pixels or columns in, calibrated probabilities out."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from labelgrad.encoders.base import PICTURES, Record
from labelgrad.files import write_whole
from labelgrad.fitting.plan import FINE_TUNED
from labelgrad.fitting.predictor import Predictor
from labelgrad.inputs.base import Encoding
from labelgrad.inputs.encoded import Block, encoder_again
from labelgrad.inputs.images import ImageFolder
from labelgrad.models.mlp import PIECE

SUFFIXES = {"torch": ".pt2", "torchscript": ".ts", "onnx": ".onnx"}
NEAR_ENCODED = 1e-3  # the same, through the many layers of an encoder
NEAR = 1e-5  # how far outputs may be apart: other programs add in another order


class Complete(nn.Module):
    """The network between the scaling of its inputs and the reading of its outputs."""

    def __init__(self, predictor: Predictor):
        super().__init__()
        self.model, self.config = predictor.model, predictor.config

    def forward(self, x: Tensor) -> Tensor:
        return self.config.meaning(self.model(self.config.scale(x)))


class FromPictures(nn.Module):
    """The encoder of pictures before all that: pixels from 0 to 255 in."""

    mean: Tensor

    def __init__(self, encoder: nn.Module, block: Block, complete: Complete):
        super().__init__()
        self.encoder, self.complete, self.scale = encoder, complete, block.scale
        self.register_buffer("mean", torch.from_numpy(block.mean).float())

    def forward(self, pixels: Tensor) -> Tensor:
        features = self.encoder(pixels)
        units = features / features.square().sum(1, keepdim=True).sqrt().clamp(min=1e-12)
        probabilities: Tensor = self.complete((units - self.mean) / self.scale)
        return probabilities


def export(
    predictor: Predictor, path: str | Path, to: str, *, encoding: Encoding | None = None
) -> float:
    """Write the model as `to`, and give how far its outputs are from the model's own.

    The file is only kept if they are the same, but for rounding, on random examples. With
    `encoding` it contains the encoder of pictures, and takes pixels of the encoder's size.
    """
    if to not in SUFFIXES:
        raise ValueError(f"A model is exported to one of {', '.join(SUFFIXES)}, got {to!r}.")
    complete: nn.Module = Complete(predictor).eval()
    x, near = _examples(predictor), NEAR
    if predictor.config.network == FINE_TUNED:
        wanted, near = predictor(x), NEAR_ENCODED  # the encoder is part of the model
    elif encoding is None:
        wanted = predictor(x)
    else:
        x, complete, wanted = _with_encoder(predictor, encoding)
        near = NEAR_ENCODED
    make = {"torch": _as_torch, "torchscript": _as_torchscript, "onnx": _as_onnx}[to]
    with torch.no_grad(), _quiet():
        content, outputs = make(complete, x)
    apart = float(((outputs.double() - wanted).abs() / wanted.abs().clamp(min=1)).max())
    if not apart <= near:
        raise RuntimeError(
            f"The exported model gives other outputs than the trained one (apart by {apart:.1g}), "
            f"so {path} was not written."
        )
    write_whole(Path(path), content)
    return apart


def _with_encoder(predictor: Predictor, encoding: Encoding) -> tuple[Tensor, FromPictures, Tensor]:
    """Random pictures, the model with its encoder, and what `predict` would say of them."""
    preprocessing = predictor.config.preprocessing
    blocks = preprocessing.get("blocks", [])
    if predictor.config.kind != ImageFolder.name or not blocks:
        raise ValueError(
            "Only a model of a folder of pictures that an encoder reads can be exported with it; "
            "export without --with-encoder."
        )
    block = Block.of(blocks[0])
    encoder = encoder_again(block.record, encoding)
    pixels = _pixels(block.record)
    wanted = predictor(block.rows(encoder.encode(list(pixels.numpy())).numpy()))
    return pixels.float(), FromPictures(encoder.module, block, Complete(predictor)).eval(), wanted


def _pixels(record: Record) -> Tensor:
    """Random pictures as an encoder takes them; of texts there is no such thing."""
    if record["kind"] != PICTURES:
        raise ValueError(
            "A model whose encoder of texts was trained cannot be exported: a tokenizer is no "
            "network; predict with it, or fit without --fine-tune."
        )
    size, random = int(record["settings"]["size"]), torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (3, 3, size, size), generator=random, dtype=torch.uint8)


def _examples(predictor: Predictor) -> Tensor:
    """What the network sees from -1 to 1: far outside, one class takes all and hides the others."""
    config = predictor.config
    if config.network == FINE_TUNED:
        return _pixels(config.preprocessing["blocks"][0]["encoder"]).float()
    seen = 2 * torch.rand((3, *config.shape), generator=torch.Generator().manual_seed(0)) - 1
    return (seen - config.shift) / config.factor


@contextmanager
def _quiet() -> Iterator[None]:
    """Hear nothing of PyTorch's own plans for its formats, nor of packages it could use."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _as_torch(model: nn.Module, x: Tensor) -> tuple[bytes, Tensor]:
    batch = torch.export.Dim("batch", min=1, max=PIECE)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    packed = io.BytesIO()
    torch.export.save(program, packed)
    packed.seek(0)
    return packed.getvalue(), torch.export.load(packed).module()(x)


def _as_torchscript(model: nn.Module, x: Tensor) -> tuple[bytes, Tensor]:
    packed = io.BytesIO()
    torch.jit.save(torch.jit.trace(model, (x[:2],)), packed)
    packed.seek(0)
    return packed.getvalue(), torch.jit.load(packed)(x)


def _as_onnx(model: nn.Module, x: Tensor) -> tuple[bytes, Tensor]:
    try:
        import onnx.reference
        import onnxscript  # noqa: F401 - PyTorch's exporter needs it
    except ImportError:
        raise ValueError(
            "Export to ONNX needs two packages more: pip install 'labelgrad[onnx]'."
        ) from None
    batch = torch.export.Dim("batch", min=1, max=PIECE)
    shapes = ({0: batch},)
    program = torch.onnx.export(model, (x,), dynamo=True, dynamic_shapes=shapes, verbose=False)
    assert program is not None  # it is, with dynamo
    content = program.model_proto.SerializeToString()
    try:
        import onnxruntime
    except ImportError:  # ONNX's own is slow, and always there
        reference = onnx.reference.ReferenceEvaluator(onnx.load_from_string(content))
        (outputs,) = reference.run(None, {reference.input_names[0]: x.numpy()})
        return content, torch.from_numpy(outputs)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (outputs,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    return content, torch.from_numpy(outputs)
