"""Folders of text files: classes are sub-folders, or are listed in a CSV file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labelgrad.auto.config import FitConfig
from labelgrad.auto.data import folders
from labelgrad.auto.data.dataset import NewExamples
from labelgrad.auto.data.folders import Files, FittedFolder, Skipped
from labelgrad.auto.encoders.encoder import TEXTS
from labelgrad.auto.encoders.features import State, encode_again, encode_texts
from labelgrad.auto.encoders.pixels import is_image
from labelgrad.auto.events import Events
from labelgrad.auto.text_files import decode_text

MAX_BYTES = 4_000_000  # of a file that are read


@dataclass(eq=False)
class TextPreprocessor(folders.FolderPreprocessor):
    """How a folder of texts became features."""

    state: State
    kind: str = TEXTS
    suffixes = (".txt", ".text", ".md")

    @classmethod
    def fit(cls, folder: Path, files: Files, config: FitConfig, events: Events) -> FittedFolder:
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


class TextFolders(folders.Folders):
    """Reads folders of text files."""

    def takes(self, data: Any) -> bool:
        """Whether it is a folder that contains texts and no images."""
        has_texts = False
        for _, _, names in os.walk(data) if super().takes(data) else ():
            if any(map(is_image, names)):
                return False
            has_texts |= any(name.lower().endswith(TextPreprocessor.suffixes) for name in names)
        return has_texts


TEXT_FOLDERS = TextFolders(TextPreprocessor)


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
