"""Small stand-ins for pretrained encoders, and folders of small images and texts."""

import numpy as np
import torch
from PIL import Image
from torch import nn

from labelgrad.auto.encoders.pretrained import image_encoder


class TinyNetwork(nn.Module):
    """A network that counts what it is shown."""

    def __init__(self, width=5, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.conv = nn.Conv2d(3, width, 3, stride=2)
        self.drop = nn.Dropout(0.5)
        self.seen = 0

    def forward(self, x):
        self.seen += len(x)
        return self.drop(self.conv(x).tanh())


def tiny_encoder(**options):
    network = TinyNetwork(**options)
    encoder = image_encoder(network, size=8)
    network.seen = 0
    return encoder


class LetterModel(nn.Module):
    """What sentence-transformers has: a tokenizer, a dictionary in and one out."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.linear = nn.Embedding(50, 6), nn.Linear(6, 6)

    def tokenizer(self, texts, truncation=False, max_length=None):
        ids = [[sum(map(ord, word)) % 50 for word in text.split()] for text in texts]
        return {"input_ids": [each[:max_length] for each in ids]}

    def forward(self, batch):
        mask = batch["attention_mask"][..., None]
        words = self.linear(self.words(batch["input_ids"])) * mask
        return {"sentence_embedding": words.sum(1) / mask.sum(1)}

    def encode(self, texts, *, batch_size, show_progress_bar, convert_to_tensor):
        rows = [torch.tensor([ids]) for ids in self.tokenizer(texts, True, 8)["input_ids"]]
        outputs = [self({"input_ids": r, "attention_mask": torch.ones_like(r)}) for r in rows]
        return torch.cat([each["sentence_embedding"] for each in outputs])


def image_folder(folder, count=12, labeled=8, grey=False):
    """Noise on a dark or a bright ground, two classes, with a labels.csv."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["file,label"]
    for i in range(count):
        pixels = (rng.integers(0, 60, (12, 14, 3)) + 180 * (i % 2)).astype(np.uint8)
        Image.fromarray(pixels[..., 0] if grey else pixels).save(folder / f"{i:02d}.png")
        if i < labeled:
            lines.append(f"{i:02d}.png,{['night', 'day'][i % 2]}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder
