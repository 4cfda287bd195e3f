"""Small text files that people write: their encoding, and CSV files of two columns."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Sequence
from pathlib import Path

BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
DELIMITERS = ",;\t|"


def decode_text(content: bytes, *, whole: bool = False) -> str:
    r"""Text in UTF-8, or in what its byte order mark says.

    Parameters
    ----------
    content
        Of a file, or its beginning, which may end within a character.
    whole
        Refuse content that ends within a character.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        With a reason, if it is not text.

    Examples
    --------
    >>> decode_text("schön".encode()), decode_text("schön".encode("utf-16"))
    ('schön', 'schön')
    >>> decode_text(b"\xff\x00")
    Traceback (most recent call last):
    ValueError: not UTF-8; save it as UTF-8
    """
    encoding = next((name for bom, name in BOMS.items() if content.startswith(bom)), "utf-8")
    try:
        text: str = codecs.getincrementaldecoder(encoding)().decode(content, whole)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8; save it as UTF-8") from None
    if "\0" in text:
        raise ValueError("not a text: it contains a zero byte")
    return text


def read_pairs(
    path: Path, names: Sequence[str], values: Sequence[str]
) -> list[tuple[int, str, str]]:
    r"""Line, name and value of every row of a CSV file that has a column for each.

    Parameters
    ----------
    path
        The delimiter is whichever of , ; tab and | the first line has most of. A file of exactly
        two columns needs no header.
    names, values
        What the columns may be called, in lower case.

    Returns
    -------
    list of tuple

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "labels.csv")
    >>> _ = file.write_text("Label;file\ncat;tom.png\n")
    >>> read_pairs(file, ["file"], ["label"])
    [(2, 'tom.png', 'cat')]
    """
    try:
        lines = decode_text(path.read_bytes(), whole=True).splitlines(keepends=True)
        delimiter = max(DELIMITERS, key=lines[0].count) if lines else ","
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except (ValueError, csv.Error) as error:
        raise ValueError(f"{path.name} cannot be read as a CSV file: {error}.") from None
    line, header = rows[0] if rows else (0, [])
    lower = [cell.casefold() for cell in header]
    columns = [next((lower.index(one) for one in n if one in lower), -1) for n in (names, values)]
    if -1 in columns:
        if len(header) != 2:
            raise ValueError(
                f"{path.name} must have the columns {names[0]} and {values[0]}, got "
                f"{', '.join(map(repr, header[:5])) or 'an empty file'}."
            )
        columns, rows = [0, 1], [(line, header), *rows]
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise ValueError(
                f"Line {line} of {path.name} must have {len(header)} cells, got {len(row)}."
            )
    return [(line, row[columns[0]], row[columns[1]]) for line, row in rows[1:]]
