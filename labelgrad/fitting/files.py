"""The bytes of small files that a person can read, too."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any


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
