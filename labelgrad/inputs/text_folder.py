"""A folder of text files: classes are subfolders, or stand in a labels file."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from labelgrad.encoders.base import TEXT
from labelgrad.inputs.base import (
    Dataset,
    Defaults,
    Encoding,
    Inputs,
    Prepared,
    Reading,
    Scale,
    Shown,
)
from labelgrad.inputs.cells import Typed
from labelgrad.inputs.encoded import Block
from labelgrad.inputs.folder import labeled_files, new_files
from labelgrad.inputs.mixed import block_rows, fit_columns, original_text
from labelgrad.inputs.pixels import is_picture
from labelgrad.inputs.table import Table
from labelgrad.inputs.targets import targets
from labelgrad.step import Views

SUFFIXES = (".txt", ".text", ".md")
COLUMN = "text"  # what the one column of such examples is called
MOST_BYTES = 4_000_000  # of a file that are read
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class TextFolder:
    """A folder of text files; one alone will do to predict."""

    name = "texts"
    what = "a folder of texts"
    key = "file"
    options: tuple[str, ...] = ("labels", "encoder")

    def takes(self, data: object, *, new: bool = False) -> bool:
        if not isinstance(data, Path):
            return False
        if data.is_dir():
            return new or holds_texts(data)
        return new and data.is_file() and is_text(data.name)

    def read(self, data: Path, reading: Reading) -> Dataset:
        """The texts of a folder with the labels they have."""
        given = labeled_files(data, reading.labels, is_text, "texts", strict=reading.strict)
        texts, skipped = load_texts(given.chosen, strict=reading.strict)
        names = list(texts)
        cells = [given.labels.get(name, "") for name in names]
        found = targets(cells, reading.task, given.where, folders=given.folders)
        column = {COLUMN: Typed("texts", list(texts.values()))}
        mixed = fit_columns({COLUMN: TEXT}, column, reading, None, beside=False)
        if not mixed.blocks:
            why = mixed.empty[COLUMN]
            raise ValueError(f"The texts of {data} are no use to learn from: they are {why}.")
        block = mixed.blocks[0].described()
        return Dataset(
            self.name,
            mixed.rows[0],
            found.y,
            found.task,
            found.classes,
            names,
            skipped + list(given.refused.items()),
            given.notes + found.notes + mixed.notes + given.left_out(names),
            found.preprocessing(self.name, blocks=[block]),
            list(texts.values()),
        )

    def inputs(self, data: object) -> Inputs:
        raise ValueError(f"Texts are read from a folder with their labels, got {data!r}.")

    def prepare(
        self, preprocessing: dict[str, Any], data: Path, *, strict: bool, encoding: Encoding
    ) -> Prepared:
        """All texts of a folder and its subfolders, or one text."""
        chosen, refused = new_files(data, is_text, "texts", strict=strict)
        texts, skipped = load_texts(chosen, strict=strict)
        block, cells = Block.of(preprocessing["blocks"][0]), Typed("texts", list(texts.values()))
        x = block_rows(block, cells, encoding, None, strict=strict)
        return Prepared(x, list(texts), skipped + list(refused.items()), list(texts.values()))

    def prepare_in_parts(
        self, preprocessing: dict[str, Any], data: Path, *, strict: bool, encoding: Encoding
    ) -> Iterator[Prepared]:
        """All of them are one part."""
        yield self.prepare(preprocessing, data, strict=strict, encoding=encoding)

    def defaults(self, shape: Sequence[int]) -> Defaults:
        return ROWS.defaults(shape)

    def transform(self, preprocessing: dict[str, Any], x: Tensor) -> Scale:
        return ROWS.transform(preprocessing, x)

    def views(self, shape: Sequence[int], scale: Scale, mirror: bool) -> Views:
        return ROWS.views(shape, scale, mirror)

    def columns(self, preprocessing: dict[str, Any]) -> list[str]:
        return [COLUMN]

    def show(self, preprocessing: dict[str, Any], row: NDArray[Any], original: Any = None) -> Shown:
        return Shown(None, [original_text(original)])

    def near(self, x: Tensor, outputs: Tensor) -> Tensor:
        return x


ROWS = Table()  # features are trained on like the rows of a table


def is_text(name: str) -> bool:
    """Whether a file is a text, by its name.

    >>> is_text("a/b.TXT"), is_text("labels.csv")
    (True, False)
    """
    return name.lower().endswith(SUFFIXES)


def holds_texts(folder: Path) -> bool:
    """Whether there are texts in a folder or its subfolders, and no pictures."""
    texts = False
    for _, _, names in os.walk(folder):
        if any(is_picture(name) for name in names):
            return False
        texts = texts or any(is_text(name) for name in names)
    return texts


def load_texts(
    files: Mapping[str, Path], *, strict: bool
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The texts that can be read by the names of their files, and why others cannot."""
    texts: dict[str, str] = {}
    skipped: list[tuple[str, str]] = []
    for name, path in files.items():
        try:
            texts[name] = load_text(path)
        except (OSError, ValueError) as error:
            said = error.strerror or "not readable" if isinstance(error, OSError) else str(error)
            skipped.append((name, said))
            if strict:
                raise ValueError(f"{name} cannot be read as a text: {said}.") from None
    if not texts:
        name, why = skipped[0]
        raise ValueError(f"None of the {len(files)} texts can be read; {name}: {why}.")
    return texts, skipped


def load_text(path: Path) -> str:
    """A text in UTF-8, or in UTF-16 if it begins with the mark that says so."""
    with path.open("rb") as file:
        content = file.read(MOST_BYTES)
    encoding = next((e for mark, e in MARKS.items() if content.startswith(mark)), "utf-8")
    cut = len(content) == MOST_BYTES
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
        text: str = decoder.decode(content, final=not cut)  # where it was cut, half a letter may be
    except UnicodeDecodeError:
        raise ValueError("not UTF-8; save it as UTF-8") from None
    if "\0" in text:
        raise ValueError("not a text: it has a zero byte in it")
    return text.strip()
