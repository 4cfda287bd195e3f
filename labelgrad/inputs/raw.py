"""Examples as the network of an encoder takes them, for one that is trained: pixels or tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.augment.views import Pictures
from labelgrad.encoders.bag_of_words import NAME as BAG_OF_WORDS
from labelgrad.encoders.base import TEXT
from labelgrad.encoders.fine_tuned import FineTuned, tokens_of, trainable
from labelgrad.inputs.base import Dataset, Encoding, Scale
from labelgrad.inputs.encoded import Block, encoder_again
from labelgrad.inputs.pixels import load_picture
from labelgrad.step import Views


def with_raw(dataset: Dataset, encoding: Encoding, outputs: int) -> tuple[Dataset, FineTuned]:
    """The dataset with what its encoder's network takes, and that network with a linear head."""
    block = the_block(dataset)
    encoder = encoder_again(block.record, encoding)
    network = FineTuned(trainable(encoder), block.mean, block.scale, outputs)
    raw = raw_examples(network, block.record, dataset.originals or ())
    return replace(dataset, raw=raw), network


def the_block(dataset: Dataset) -> Block:
    """The one block that all of the features are; anything else cannot be fine-tuned."""
    blocks = dataset.preprocessing.get("blocks", [])
    usable = len(blocks) == 1 and dataset.frozen_features and dataset.originals is not None
    if not usable or blocks[0]["encoder"]["name"] == BAG_OF_WORDS:
        raise ValueError(
            "Fine-tuning needs pictures or texts that one encoder reads, and nothing beside them: "
            "a folder of them, or a table with one such column; name an --encoder, or leave "
            "--fine-tune out."
        )
    return Block.of(blocks[0])


def raw_examples(network: FineTuned, record: dict[str, Any], originals: Sequence[Any]) -> Tensor:
    """What the network takes of each example: pictures in 8 bits, or the numbers of tokens.

    `originals` are files or texts, or cells of a table, as a `Dataset` has them.
    """
    each = [one[0] if isinstance(one, tuple) else one for one in originals]
    if record["kind"] == TEXT:
        return tokens_of(network.encoder, each, record["settings"]["tokens"])
    size = int(record["settings"]["size"])
    pixels = np.empty((len(each), 3, size, size), np.uint8)
    for place, path in enumerate(each):
        pixels[place] = _pixels(path, size)
    return torch.from_numpy(pixels)


def _pixels(path: Path | None, size: int) -> NDArray[Any]:
    """A picture; grey where a table has none or it cannot be read, which was told before."""
    if path is not None:
        try:
            return load_picture(path, size)
        except Exception:  # a damaged file stumbles anywhere in its decoder
            pass
    return np.full((3, size, size), 128, np.uint8)


def raw_scale(preprocessing: dict[str, Any]) -> Scale:
    """What turns raw examples into what the network is shown: pictures from -1 to 1."""
    is_text = preprocessing["blocks"][0]["encoder"]["kind"] == TEXT
    return Scale(1.0, 0.0) if is_text else Scale(2 / 255, -1.0)


def raw_views(dataset: Dataset, *, mirror: bool) -> Views | None:
    """How raw examples may be changed at random: pictures; of texts nothing is known."""
    if dataset.raw is None or dataset.raw.ndim != 4:
        return None
    side = int(dataset.raw.shape[2])
    return Pictures(mirror=mirror, pixels=0 if side < 4 else max(1, side // 16))
