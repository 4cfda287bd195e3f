"""Columns of texts and of picture files in a table: which they are, and what encoders make of them.

A row is then several blocks of numbers side by side: one of all plain columns together, and one for
each column of texts or pictures. All blocks have the same share of a row's squared length. An
encoder gives hundreds of numbers where a column of numbers is one: number by number, a text would
drown an age. As one more column, of unit variance in all, it would be drowned by twenty others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from labelgrad.encoders.bag_of_words import NAME, BagOfWords
from labelgrad.encoders.base import PICTURES, TEXT, Encoder, record_of
from labelgrad.encoders.cache import Features
from labelgrad.encoders.text import letters_read
from labelgrad.inputs.base import Encoding, Reading, join_few
from labelgrad.inputs.cells import MISSING, Cells, Typed, as_texts, is_absent
from labelgrad.inputs.columns import FEW_TEXTS, MOST_CATEGORIES
from labelgrad.inputs.encoded import (
    Block,
    check_needed,
    chosen_encoder,
    encoder_again,
    picture_features,
    text_features,
)
from labelgrad.inputs.pixels import is_picture, reason, usual_side

FEWEST_WORDS = 3  # a text on average; names and codes have fewer
UNSPACED = 12  # letters, where words are not parted by spaces
SHOWN_LETTERS = 2000  # of a text on the page, most of them where one points at it
MEASURED = 200  # pictures whose size tells that of all


class Mixed(NamedTuple):
    """Blocks, their numbers, what each example looks like, and what to say."""

    blocks: list[Block]
    rows: list[Tensor]
    originals: list[tuple[Any, ...]] | None
    notes: list[str]
    empty: dict[str, str]  # columns that nothing can be learned from, and why


def encoded_columns(
    cells: Mapping[str, Typed], reading: Reading, folder: Path | None
) -> dict[str, str]:
    """The kind, texts or pictures, of each column that an encoder is to read.

    Those that were asked for; of the others those whose cells name picture files, all of them, and
    those with texts of several words that are mostly different.
    """
    asked = dict.fromkeys(reading.text, TEXT) | dict.fromkeys(reading.picture, PICTURES)
    twice = [name for name in reading.text if name in reading.picture]
    if twice:
        raise ValueError(f"The column {twice[0]!r} holds texts or pictures, not both; say which.")
    found = dict(asked)
    for name, column in cells.items():
        if column.holds != "texts":
            continue
        cells_of = as_texts(column)
        absent = {text for text in set(cells_of) if is_absent(text)}
        texts = [text for text in cells_of if text not in absent]
        if texts and names_pictures(texts, folder):
            found[name] = PICTURES
        elif is_prose(texts):
            found[name] = TEXT
    return found


def names_pictures(texts: Sequence[str], folder: Path | None) -> bool:
    """Whether each of the cells names a picture file that is there."""
    if not all(is_picture(text) for text in texts):
        return False
    return all((folder or Path()).joinpath(text).is_file() for text in set(texts))


def is_prose(texts: Sequence[str]) -> bool:
    """Whether these are texts to read, and not names, codes or categories.

    >>> is_prose(["the soup was cold", "we came back twice", "no complaints at all"])
    True
    >>> is_prose(["a-17", "b-22", "c-09"]), is_prose(["very good", "very bad"] * 20)
    (False, False)
    """
    counts = Counter(texts)
    different, total = len(counts), len(texts)
    alike = different < total and (
        different <= FEW_TEXTS or (2 * different <= total and different <= MOST_CATEGORIES)
    )
    if total < 2 or alike:
        return False
    words = sum(len(text.split()) for text in counts) / different
    letters = sum(map(len, counts)) / different
    unspaced = sum(ord(letter) >= 0x0E00 for text in counts for letter in text[:100])
    return words >= FEWEST_WORDS or (letters >= UNSPACED and unspaced >= UNSPACED / 2 * different)


def fit_columns(
    kinds: Mapping[str, str],
    cells: Mapping[str, Cells],
    reading: Reading,
    folder: Path | None,
    *,
    beside: bool,
) -> Mixed:
    """Blocks for these columns; `beside` says whether there are plain columns, too."""
    check_needed(reading.encoding, set(kinds.values()))
    notes, empty = [], {}
    raw: dict[str, tuple[Block, Features]] = {}
    originals: dict[str, list[Any]] = {}
    encoders: dict[str, Encoder | None] = {}
    for name, kind in kinds.items():
        texts = _texts(cells[name])
        if not any(texts):
            empty[name] = "empty"
            continue
        if kind not in encoders:
            natural = _natural(texts, folder) if kind == PICTURES else None
            encoders[kind], said = chosen_encoder(
                reading.encoding, kind, size=reading.size, natural=natural
            )
            notes += said
        found = _features(name, kind, texts, encoders[kind], reading, folder)
        if isinstance(found, str):
            empty[name] = found
            continue
        record, features, said = found
        block = Block.fit(name, record, features, share=1.0)
        if block.all_the_same:
            empty[name] = "always the same"
            continue
        raw[name] = block, features
        notes += said
        originals[name] = _originals(kind, texts, folder)
    share = 1 / (len(raw) + beside) if raw else 1.0
    blocks = [block.sharing(share) for block, _ in raw.values()]
    rows = [block.rows(raw[block.column][1]) for block in blocks]
    looks = list(zip(*originals.values(), strict=True)) if originals else None
    return Mixed(blocks, rows, looks, _block_notes(blocks, reading.encoding) + notes, empty)


def block_rows(
    block: Block, cells: Cells, encoding: Encoding, folder: Path | None, *, strict: bool
) -> Tensor:
    """The numbers of new rows, read as those that the block was fitted to."""
    texts, record = _texts(cells), block.record
    if record["name"] == NAME:
        return block.rows(BagOfWords.of(record).encode(texts))
    reading = Reading(encoding=encoding, strict=strict)
    encoder = encoder_again(record, encoding)
    found = _features(block.column, record["kind"], texts, encoder, reading, folder)
    assert not isinstance(found, str)  # that is for bags of words alone
    return block.rows(found[1])


def column_originals(
    blocks: Sequence[Block], cells: Mapping[str, Cells], folder: Path | None
) -> list[tuple[Any, ...]]:
    """What new rows look like in the columns that encoders read, as `Mixed.originals` has it."""
    each = [_originals(b.record["kind"], _texts(cells[b.column]), folder) for b in blocks]
    return list(zip(*each, strict=True))


def _texts(cells: Cells) -> list[str]:
    """The cells, empty where missing."""
    return ["" if text.casefold() in MISSING else text for text in as_texts(cells)]


def _features(
    name: str,
    kind: str,
    texts: Sequence[str],
    encoder: Encoder | None,
    reading: Reading,
    folder: Path | None,
) -> tuple[dict[str, Any], Features, list[str]] | str:
    """The encoder's record and features with zeros where missing, and what to say; or why not."""
    present = [place for place, text in enumerate(texts) if text]
    known = [texts[place] for place in present]
    notes = []
    if len(present) < len(texts):
        notes.append(f"Empty cells of {name!r} count as average: {len(texts) - len(present)}.")
    if kind == PICTURES:
        if encoder is None:
            return "pictures, and no encoder to read them"
        files = [(folder or Path()) / text for text in known]
        found = picture_features(encoder, files, reading.encoding, name)
        if found.failed:
            place, error = next(iter(found.failed.items()))
            why = f"{known[place]} in {name!r} cannot be read as a picture: {reason(error)}"
            if reading.strict or not found.read:
                raise ValueError(f"{why}.")
            notes.append(
                f"Pictures that cannot be read count as average: {len(found.failed)}; {why}."
            )
        features, present = found.features, [present[place] for place in found.read]
    elif encoder is None:
        bag = BagOfWords.fit(known)
        if bag is None:
            return "texts without words"
        return bag.record, bag.encode(texts), notes
    else:
        limit = letters_read(encoder.settings)
        longer = sum(len(text) > limit for text in known) if limit else 0
        if longer:
            notes.append(
                f"{encoder.name} reads about the first {limit:,} letters of a text; longer in "
                f"{name!r}: {longer}."
            )
        features = text_features(encoder, known, reading.encoding, name).features
    rows = np.zeros((len(texts), encoder.width), np.float32)
    rows[present] = features
    return record_of(encoder), rows, notes


def _natural(texts: Sequence[str], folder: Path | None) -> int | None:
    files = [(folder or Path()) / text for text in texts if text]
    return usual_side(files[:: -(-len(files) // MEASURED)])


def _originals(kind: str, texts: Sequence[str], folder: Path | None) -> list[Any]:
    if kind == TEXT:
        return list(texts)
    return [(folder or Path()) / text if text else None for text in texts]


def _block_notes(blocks: Sequence[Block], encoding: Encoding) -> list[str]:
    """Which columns are read by what."""
    by_encoder: dict[tuple[str, str], list[str]] = {}
    for block in blocks:
        key = block.record["kind"], block.record["name"]
        by_encoder.setdefault(key, []).append(block.column)
    how = "" if encoding.encoders else ", the usual one that is here"
    notes = []
    for (kind, name), columns in by_encoder.items():
        what = "Texts" if kind == TEXT else "Pictures"
        if name == NAME:
            notes.append(f"Texts, read as bags of words (TF-IDF): {join_few(columns)}.")
        else:
            notes.append(f"{what}, read by the encoder {name}{how}: {join_few(columns)}.")
    return notes


def original_text(original: Any) -> str:
    r"""A text, or the name of a file, as one cell of the page.

    >>> original_text("a\nb"), len(original_text("long " * 1000)), original_text(None)
    ('a b', 2000, '–')
    """
    if original is None or original == "":
        return "–"
    text = " ".join((original.name if isinstance(original, Path) else str(original)).split())
    return text if len(text) <= SHOWN_LETTERS else text[: SHOWN_LETTERS - 1] + "…"


def joined(plain: Tensor | None, rows: Sequence[Tensor]) -> Tensor:
    """Blocks side by side."""
    parts = [*([] if plain is None else [plain]), *rows]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
