"""Folders of text files: classes are sub-folders, or are listed in a CSV file."""

from __future__ import annotations

import codecs
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from labelgrad.auto.config import FitConfig
from labelgrad.auto.data import folders
from labelgrad.auto.data.dataset import NewExamples
from labelgrad.auto.data.folders import Files, Skipped
from labelgrad.auto.data.sources import ENCODINGS
from labelgrad.auto.encoders.encoder import TEXTS
from labelgrad.auto.encoders.features import State, encode_again, encode_texts
from labelgrad.auto.encoders.pixels import is_image
from labelgrad.auto.events import Events

MAX_BYTES = 4_000_000  # of a file that are read


@dataclass(eq=False)
class TextPreprocessor(folders.FolderPreprocessor):
    """How a folder of texts became features."""

    state: State
    kind: str = TEXTS
    suffixes = (".txt", ".text", ".md")

    @classmethod
    def takes(cls, data: Any) -> bool:
        """Whether it is a folder that contains texts and no images."""
        has_texts = False
        for _, _, names in os.walk(data) if super().takes(data) else ():
            if any(map(is_image, names)):
                return False
            has_texts |= any(name.lower().endswith(cls.suffixes) for name in names)
        return has_texts

    @classmethod
    def fit(
        cls, folder: Path, files: Files, config: FitConfig, events: Events
    ) -> tuple[Self, NewExamples, Sequence[str]]:
        """Choose the encoder."""
        del folder
        texts, skipped = load_texts(files, strict=config.strict)
        if not texts:
            raise ValueError(folders.none_readable(skipped))
        items = list(texts.values())
        block = encode_texts(items, config, events)
        fitted = cls(block.state, config.fine_tune > 0)
        examples = fitted.encoded(block.features, items, config)
        return fitted, NewExamples(examples, list(texts), skipped), block.notes

    def transform_files(self, files: Files, config: FitConfig, events: Events) -> NewExamples:
        """Some files as the models see them."""
        texts, skipped = load_texts(files, strict=config.strict)
        items = list(texts.values())
        X = encode_again(self.state, items, config, events)
        return NewExamples(self.encoded(X, items, config), list(texts), skipped)


def load_texts(files: Files, *, strict: bool) -> tuple[dict[str, str], Skipped]:
    """The texts that can be read by the names of their files, and why others cannot."""
    texts: dict[str, str] = {}
    skipped: Skipped = []
    for name, path in files.items():
        try:
            with path.open("rb") as file:
                texts[name] = decode_text(file.read(MAX_BYTES)).strip()
        except (OSError, ValueError) as error:
            reason = error.strerror or "unreadable" if isinstance(error, OSError) else str(error)
            skipped.append((name, reason))
            if strict:
                raise ValueError(f"{name} cannot be read as a text: {reason}.") from None
    return texts, skipped


def decode_text(content: bytes) -> str:
    r"""The beginning of a text in UTF-8, or in what its byte order mark says.

    It may end within a character.

    >>> decode_text("schön".encode()[:4]), decode_text("schön".encode("utf-16"))
    ('sch', 'schön')
    >>> decode_text(b"\xff\x00")
    Traceback (most recent call last):
    ValueError: not UTF-8; save it as UTF-8
    """
    encoding = next((name for mark, name in ENCODINGS.items() if content.startswith(mark)), "UTF-8")
    try:
        text: str = codecs.getincrementaldecoder(encoding)().decode(content)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8; save it as UTF-8") from None
    if "\0" in text:
        raise ValueError("not a text: it contains a zero byte")
    return text
