"""Small files that are whole or not there at all; those of tensors are in `tensor_file`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


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
