"""Encoders of pictures that have a text side: CLIP as transformers keeps it.

Pictures and texts have features of one space, so the name of a class is near pictures of it, before
any is labeled. Weights are safetensors, and no code of a model is run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from labelgrad.encoders.base import first_line
from labelgrad.encoders.pictures import CONFIG, PictureEncoder, picture_encoder
from labelgrad.encoders.text import quiet

KIND = "clip"  # the `model_type` of its config
MEAN, SPREAD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


class ClipPictures(nn.Module):
    """The picture side of a CLIP: pictures in, features of the space it shares with texts out."""

    def __init__(self, model: Any):
        super().__init__()
        self.vision, self.projection = model.vision_model, model.visual_projection

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.projection(self.vision(pixel_values=x).pooler_output)
        return found


@dataclass(frozen=True, eq=False)
class TextSide:
    """The text side of a CLIP: texts in, directions of the shared space out.

    `scale` is what cosines are multiplied by, as the model was trained.
    """

    model: Any
    tokenizer: Any
    scale: float
    tokens: int

    def directions(self, texts: Sequence[str]) -> NDArray[Any]:
        """(n, width) of unit length."""
        tokens = self.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self.tokens,
            return_tensors="pt",
        )
        known = {name: tokens[name] for name in ("input_ids", "attention_mask")}
        with torch.inference_mode():
            found = self.model.text_projection(self.model.text_model(**known).pooler_output)
        rows = found.double().numpy()
        units: NDArray[Any] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return units


def is_clip(folder: Path) -> bool:
    """Whether a folder has such a model."""
    try:
        return bool(json.loads((folder / CONFIG).read_bytes())["model_type"] == KIND)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def load_clip(folder: Path, size: int | None, *, name: str | None = None) -> PictureEncoder:
    """The picture side of a folder's CLIP as an encoder, which has its text side beside it."""
    shown = name or str(folder)
    model, tokenizer = _load(folder, shown)
    trained = int(model.config.vision_config.image_size)
    if size not in (None, trained):
        raise ValueError(
            f"The encoder {shown!r} takes pictures of {trained}×{trained} pixels, got the size "
            f"{size}; leave it out."
        )
    mean, spread = _scaling(folder)
    found = picture_encoder(ClipPictures(model), size=trained, name=shown, mean=mean, spread=spread)
    found.settings["text_side"] = True  # so that a run knows of it before it is loaded
    scale = float(model.logit_scale.detach().exp())
    tokens = int(model.config.text_config.max_position_embeddings)
    return replace(found, text_side=TextSide(model, tokenizer, scale, tokens))


def _load(folder: Path, name: str) -> tuple[Any, Any]:
    if find_spec("transformers") is None:
        raise ValueError(f"The encoder {name!r} needs transformers: pip install 'labelgrad[text]'.")
    if not any(folder.glob("*.safetensors")):
        raise ValueError(f"The encoder {name!r} needs its weights as safetensors in {folder}.")
    library: Any = import_module("transformers")
    safe = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet():
            model = library.CLIPModel.from_pretrained(str(folder), use_safetensors=True, **safe)
            return model.eval(), library.AutoTokenizer.from_pretrained(str(folder), **safe)
    except Exception as error:  # many libraries stumble in many ways over damaged files
        raise ValueError(
            f"The encoder {name!r} cannot be read from {folder} ({first_line(error)}); bring its "
            f"weights anew."
        ) from None


def _scaling(folder: Path) -> tuple[list[float], list[float]]:
    """Mean and spread of pixels from 0 to 255, as the model was trained."""
    try:
        kept = json.loads((folder / "preprocessor_config.json").read_bytes())
    except (OSError, ValueError):
        kept = {}
    mean, spread = kept.get("image_mean", MEAN), kept.get("image_std", SPREAD)
    return [round(255 * m, 6) for m in mean], [round(255 * s, 6) for s in spread]
