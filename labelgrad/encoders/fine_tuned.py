"""An encoder that is trained, too: its network, the scaling of its features, and a linear head.

It begins as the encoder is, with a head that says the same of everything. What makes a training
random or depends on the batch, dropout and the statistics of batch norm, stays as it is in use.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labelgrad.encoders.base import TEXT, Encoder, features_of
from labelgrad.encoders.text import cut
from labelgrad.models.mlp import linear_head

NOTHING = -1  # in place of a token where a text has none
AT_ONCE = 32  # examples that are predicted at once
HALF = 127.5  # of a pixel's range: networks see pictures from -1 to 1


class FromPlusMinusOne(nn.Module):
    """A network of pixels from 0 to 255 that is shown pictures from -1 to 1, as views change them.

    >>> FromPlusMinusOne(nn.Identity())(torch.tensor([-1.0, 1.0]))
    tensor([  0., 255.])
    """

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, pictures: Tensor) -> Tensor:
        features: Tensor = self.network((pictures + 1) * HALF)
        return features


class FromTokens(nn.Module):
    """A network of sentence-transformers, which takes a dictionary, as one that takes a tensor.

    Its input is the number of each token, (n, length), -1 where a text has ended.
    """

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor) -> Tensor:
        known = tokens >= 0
        known[:, 0] = True  # a text without any would have no mean
        longest = max(1, int(known.sum(1).max()))
        ids, known = tokens[:, :longest].long().clamp(min=0), known[:, :longest].long()
        found = self.network({"input_ids": ids, "attention_mask": known})
        return features_of(found["sentence_embedding"])


class FineTuned(nn.Module):
    """A network that makes features, their scaling to unit length, and a linear head.

    >>> whole = FineTuned(nn.Flatten(), np.zeros(4), 0.5, outputs=3)
    >>> whole(torch.ones(2, 1, 2, 2)).shape, whole.rows(torch.ones(1, 1, 2, 2))
    (torch.Size([2, 3]), tensor([[1., 1., 1., 1.]]))
    """

    mean: Tensor
    at_once = AT_ONCE

    def __init__(self, encoder: nn.Module, mean: Any, scale: float, outputs: int):
        super().__init__()
        self.encoder, self.scale = encoder.requires_grad_(True).eval(), scale
        self.register_buffer("mean", torch.as_tensor(mean).float(), persistent=False)
        self.head = linear_head(len(mean), outputs)

    def rows(self, x: Tensor) -> Tensor:
        """The features as a head sees them, (n, width)."""
        features = self.encoder(x)
        units = features / features.square().sum(1, keepdim=True).sqrt().clamp(min=1e-12)
        scaled: Tensor = (units - self.mean) / self.scale
        return scaled

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.rows(x))
        return outputs

    def train(self, mode: bool = True) -> FineTuned:
        """As usual, but for the encoder, which is always as it is in use."""
        super().train(mode)
        self.encoder.eval()
        return self


def trainable(encoder: Encoder) -> nn.Module:
    """A copy of an encoder's network that takes what `tokens_of` gives, or pictures from -1 to 1.

    >>> from labelgrad.encoders.pictures import picture_encoder
    >>> halves = picture_encoder(nn.Sequential(nn.Conv2d(3, 5, 2), nn.Flatten()), size=2)
    >>> trainable(halves)(torch.zeros(1, 3, 2, 2)).shape
    torch.Size([1, 5])
    """
    network = getattr(encoder, "module", None)
    missing = encoder.kind == TEXT and not hasattr(network, "tokenizer")
    if not isinstance(network, nn.Module) or missing:
        raise ValueError(
            f"Fine-tuning needs the network of the encoder, and {encoder.name!r} has none that can "
            f"be trained; name one of timm's, of sentence-transformers', or give an nn.Module."
        )
    if not any(True for _ in network.parameters()):
        raise ValueError(
            f"Fine-tuning needs weights to train, and the encoder {encoder.name!r} has none; leave "
            f"it frozen."
        )
    own = copy.deepcopy(network).cpu()  # a training moves it to its device
    return FromTokens(own) if encoder.kind == TEXT else FromPlusMinusOne(own)


def tokens_of(network: nn.Module, texts: Sequence[str], most: int | None) -> Tensor:
    """The tokens of texts for a `FromTokens`, (n, length) in 32 bits; at most so many of each."""
    inner: Any = network.network
    said = [cut(text, most) for text in texts]
    limit = {"truncation": True, "max_length": most} if most else {}
    found = inner.tokenizer(said, **limit)["input_ids"] if said else []
    padded = np.full((len(found), max(map(len, found), default=1)), NOTHING, np.int32)
    for place, ids in enumerate(found):
        padded[place, : len(ids)] = ids
    return torch.from_numpy(padded)


def parameter_groups(model: nn.Module, rate: float, share: float) -> list[dict[str, Any]]:
    """The head at a learning rate, and the encoder at its share of it.

    >>> whole = FineTuned(nn.Linear(2, 2), np.zeros(2), 1.0, outputs=3)
    >>> [group["lr"] for group in parameter_groups(whole, 0.1, share=0.5)]
    [0.1, 0.05]
    """
    assert isinstance(model, FineTuned)
    return [
        {"params": list(model.head.parameters()), "lr": rate},
        {"params": list(model.encoder.parameters()), "lr": share * rate},
    ]
