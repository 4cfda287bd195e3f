"""Files that are whole or not there at all, and the bytes of small ones that a person can read."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Where to write a new version of a file: beside it, and it takes its place when it is whole.

    The new version is forced to the disk before it is renamed, so that whenever the power fails
    there is either the old one or the new one.

    >>> from tempfile import mkdtemp
    >>> note = Path(mkdtemp(), "new", "note.txt")
    >>> with replacing(note) as half:
    ...     _ = half.write_text("whole")
    >>> note.read_text(), half.exists()
    ('whole', False)
    """
    half = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield half
        _sync(half)
        half.replace(path)
        _sync(path.parent)
    except BaseException:
        with suppress(OSError):  # the first error is the one to tell
            half.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file so that there is all of it or what was there before.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "note.txt")
    >>> write_whole(file, b"whole")
    >>> file.read_bytes()
    b'whole'
    """
    try:
        with replacing(path) as half:
            half.write_bytes(content)
    except OSError as error:
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


def _sync(path: Path) -> None:
    """Wait until the file or folder is on the disk and not merely on its way there."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
