"""Files that are whole or not there at all."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its final name, force it to the disk, then rename it.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "note.txt")
    >>> write_whole(file, b"whole")
    >>> file.read_bytes()
    b'whole'
    """
    half = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with half.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    except OSError as error:
        with suppress(OSError):  # the first error is the one to tell
            half.unlink(missing_ok=True)
        kept = "what was there before is kept" if path.exists() else "nothing was left in its place"
        raise OSError(
            f"{path} could not be written ({error.strerror or error}); {kept}."
        ) from error


def json_bytes(value: Any) -> bytes:
    """JSON that a person can read, too."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def csv_bytes(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    r"""A table with a header; what is missing is an empty cell.

    >>> csv_bytes(["row", "label"], [[1, "cat"], [2, None]])
    b'row,label\n1,cat\n2,\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode()
