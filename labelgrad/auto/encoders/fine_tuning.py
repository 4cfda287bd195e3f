"""Networks that are an encoder with a linear head, trained on pixels or tokens.

Such a network begins as the encoder, with a head of zeros. Dropout and the statistics of batch
normalization stay in evaluation mode.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from labelgrad.auto.config import FitConfig
from labelgrad.auto.encoders.features import TFIDF, State
from labelgrad.auto.encoders.find import encoder_again
from labelgrad.auto.encoders.pixels import load_image
from labelgrad.auto.encoders.pretrained import TEXTS, pool_features, truncate
from labelgrad.auto.store import allocate
from labelgrad.auto.task import Array
from labelgrad.models.mlp import linear_head

PADDING = -1  # in place of a token behind the end of a text
MISSING_PIXEL = 128
PREDICT_BATCH = 32
HALF_RANGE = 127.5


class FineTuned(nn.Module):
    """An encoder's network, the scaling of its features, and a linear head.

    It takes images (n, 3, size, size) from -1 to 1, as augmentation does, or token ids (n, length)
    with -1 behind the end of a text.

    Examples
    --------
    >>> network = FineTuned(nn.Flatten(), np.zeros(4), 0.5, outputs=3)
    >>> network(torch.ones(2, 1, 2, 2)).shape, network.features(torch.ones(1, 1, 2, 2))
    (torch.Size([2, 3]), tensor([[1., 1., 1., 1.]]))
    """

    mean: Tensor
    predict_batch = PREDICT_BATCH

    def __init__(self, encoder: nn.Module, mean: Any, scale: float, outputs: int):
        super().__init__()
        self.encoder, self.scale = encoder.requires_grad_(True).eval(), scale
        self.register_buffer("mean", torch.as_tensor(mean).float(), persistent=False)
        self.head = linear_head(len(mean), outputs)

    def features(self, x: Tensor) -> Tensor:
        """The features (n, width) as the head sees them."""
        found = self._from_tokens(x) if x.ndim == 2 else self.encoder((x + 1) * HALF_RANGE)
        scaled: Tensor = (F.normalize(found) - self.mean) / self.scale
        return scaled

    def _from_tokens(self, tokens: Tensor) -> Tensor:
        mask = tokens >= 0
        mask[:, 0] = True  # a text without tokens would have no mean
        length = max(1, int(mask.sum(1).max()))
        ids, mask = tokens[:, :length].long().clamp(min=0), mask[:, :length].long()
        found = self.encoder({"input_ids": ids, "attention_mask": mask})
        return pool_features(found["sentence_embedding"])

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.features(x))
        return outputs

    def train(self, mode: bool = True) -> FineTuned:
        """As usual, except that the encoder stays in evaluation mode."""
        super().train(mode)
        self.encoder.eval()
        return self


def fine_tuned_network(state: State, outputs: int, config: FitConfig) -> FineTuned:
    """The network to fine-tune: the encoder of an `EncodedBlock` with a head of zeros.

    Parameters
    ----------
    state
        Of an `EncodedBlock`.
    outputs
        Of the head.
    config
        As for `encode_again`.

    Returns
    -------
    FineTuned
        On the CPU; it takes images from -1 to 1 or token ids.
    """
    own = copy.deepcopy(_trainable(state["encoder"], config)).cpu()
    return FineTuned(own, state["mean"], state["scale"], outputs)


def _trainable(description: dict[str, Any], config: FitConfig) -> Any:
    network = None if description["name"] == TFIDF else encoder_again(description, config).module
    if network is None or not list(network.parameters()):
        raise ValueError(
            f"Fine-tuning needs a network with weights, and {description['name']!r} has none; "
            f"choose another --encoder, or leave --fine-tune out."
        )
    return network


def raw_inputs(state: State, items: Sequence[Any], config: FitConfig) -> Array:
    """What a `FineTuned` network takes for each text or image file, as `Dataset.raw` holds it.

    Parameters
    ----------
    state
        Of an `EncodedBlock`.
    items
        Texts or paths; None where missing. An image that cannot be read is grey.
    config
        As for `encode_again`.

    Returns
    -------
    Array
        Images (n, 3, size, size) uint8, or token ids (n, length) int32 with -1 behind the end.
    """
    settings = state["encoder"]["settings"]
    if state["encoder"]["kind"] == TEXTS:
        return _tokens(_trainable(state["encoder"], config), items, settings["tokens"])
    size = int(settings["size"])
    pixels = allocate((len(items), 3, size, size), "uint8", config.cache)
    for position, path in enumerate(items):
        try:
            pixels[position] = load_image(path, size)
        except Exception:  # missing, or damaged, which was reported when it was encoded
            pixels[position] = MISSING_PIXEL
    return pixels


def _tokens(model: Any, texts: Sequence[str | None], limit: int | None) -> Array:
    if not texts:
        return np.zeros((0, 1), np.int32)
    truncated = [truncate(text or "", limit) for text in texts]
    ids = model.tokenizer(truncated, truncation=limit is not None, max_length=limit)["input_ids"]
    tokens = [torch.tensor(each, dtype=torch.int32) for each in ids]
    return pad_sequence(tokens, batch_first=True, padding_value=PADDING).numpy()


def parameter_groups(
    network: FineTuned, learning_rate: float, fraction: float
) -> list[dict[str, Any]]:
    """The head at a learning rate, and the encoder at a fraction of it.

    Examples
    --------
    >>> network = FineTuned(nn.Linear(2, 2), np.zeros(2), 1.0, outputs=3)
    >>> [group["lr"] for group in parameter_groups(network, 0.1, fraction=0.5)]
    [0.1, 0.05]
    """
    return [
        {"params": list(network.head.parameters()), "lr": learning_rate},
        {"params": list(network.encoder.parameters()), "lr": fraction * learning_rate},
    ]
