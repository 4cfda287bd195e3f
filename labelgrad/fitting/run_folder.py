"""A run folder's files: each with a digest, all written together, by one process at a time.

`digests.json` has the digest of every file that a result is read from, and one of itself. It takes
its place last, so a folder is of one result or is not read. Two of the files a person may change by
purpose; that is told, and not refused.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from labelgrad.files import (
    Digested,
    digest_of,
    digest_of_file,
    read_sealed,
    replace_all,
    sealed_json,
)

try:
    import fcntl
except ImportError:  # of Windows; there nothing keeps two processes apart
    fcntl = None  # type: ignore[assignment]

DIGESTS, LOCK = "digests.json", ".lock"
VERSION = 1
AGAIN = "fit again with --resume"
A_MOMENT = 1.0  # seconds in which a process that has a lock has written its number into it
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # of file systems that have none


@dataclass(frozen=True)
class Digests:
    """The digests of the files in a folder, by their names, and the way to read such a file."""

    folder: Path
    of: Mapping[str, str] = field(default_factory=dict)

    def read(self, name: str, most: int | None = None) -> bytes:
        """The content of a file; a ValueError if it is not the one that was written."""
        content = self.content(name, most)
        if digest_of(content) != self.of.get(name):
            raise ValueError(
                f"{self.folder / name} is damaged or of another run than {DIGESTS} beside it; "
                f"{AGAIN}."
            )
        return content

    def content(self, name: str, most: int | None = None) -> bytes:
        """The content of a file, whatever it is; at most so many bytes."""
        path = self.folder / name
        try:
            size = path.stat().st_size
            if most is None or size <= most:
                return path.read_bytes()
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error.strerror}); {AGAIN}.") from None
        raise ValueError(f"{path} must have at most {most} bytes, got {size}; {AGAIN}.")

    def check(self, name: str) -> Path:
        """Where a file is that is too long to be read; a ValueError if it is not as written."""
        path = self.folder / name
        try:
            found = digest_of_file(path)
        except OSError as error:
            raise ValueError(f"{path} cannot be read ({error.strerror}); {AGAIN}.") from None
        if found != self.of.get(name):
            raise ValueError(f"{path} is damaged or of another run than {DIGESTS}; {AGAIN}.")
        return path

    def is_changed(self, name: str, content: bytes) -> bool:
        """Whether a file that a person may change is not as it was written."""
        return name in self.of and digest_of(content) != self.of[name]


def read_digests(folder: Path) -> Digests:
    """The digests of a finished run."""
    path = folder / DIGESTS
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} holds no finished run: it has no {DIGESTS}; go on with labelgrad fit "
            f"--resume."
        )
    try:
        kept = read_sealed(path.read_bytes())
        if kept.get("version") != VERSION:
            raise ValueError(f"it is of version {kept.get('version')}, and this is {VERSION}")
        files = kept["files"]
        if not isinstance(files, dict) or not all(isinstance(d, str) for d in files.values()):
            raise ValueError("it names no files")
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{path} is damaged ({error}); {AGAIN}.") from None
    return Digests(folder, files)


def known_digests(folder: Path) -> Digests:
    """The digests of a folder as far as there are any: none in a new one, none if damaged."""
    try:
        return read_digests(folder)
    except (ValueError, OSError):
        return Digests(folder)


def write_files(folder: Path, contents: Mapping[str, bytes | Iterable[bytes]]) -> None:
    """Write files in their order, and their digests last; those of other files stay as they were.

    A file that is too long for memory comes in pieces.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> write_files(folder, {"note.txt": b"whole"})
    >>> read_digests(folder).read("note.txt")
    b'whole'
    """
    going_by = {
        name: Digested([content] if isinstance(content, bytes) else content)
        for name, content in contents.items()
    }

    def sealed() -> Iterator[bytes]:  # when all others have been written
        files = {name: pieces.digest for name, pieces in going_by.items()}
        yield sealed_json({"version": VERSION, "files": {**known_digests(folder).of, **files}})

    replace_all(
        {**{folder / name: each for name, each in going_by.items()}, folder / DIGESTS: sealed()}
    )


@contextmanager
def in_use(folder: Path | None) -> Iterator[None]:
    """Be the only one to write into a run folder; a ValueError names the process that does.

    The system lets go of the lock of a process that dies, however it dies. A folder that was made
    for it is removed if nothing came of it and nobody else began there at the same moment.
    """
    if folder is None or fcntl is None:
        yield
        return
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    handle = None
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = _lock(folder)
        except OSError as error:
            reason = error.strerror or error
            raise OSError(f"{folder} cannot be written to ({reason}); choose another.") from None
        yield
    finally:
        if handle is not None:
            (folder / LOCK).unlink(missing_ok=True)
            os.close(handle)
        for place in made:  # the deepest first
            with suppress(OSError):
                place.rmdir()


def check_not_in_use(folder: Path | None) -> None:
    """Refuse a folder that another process writes into, at once and without a trace."""
    if folder is None or fcntl is None or not (folder / LOCK).exists():
        return
    with suppress(OSError):
        handle = os.open(folder / LOCK, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(_in_use_by(folder, handle)) from None
        finally:
            os.close(handle)


def _lock(folder: Path) -> int | None:
    """An open file that holds the lock, with this process's number in it."""
    path = folder / LOCK
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        except BlockingIOError:
            said = _in_use_by(folder, handle)
            os.close(handle)
            raise ValueError(said) from None
        except OSError as error:
            os.close(handle)
            if error.errno in NO_LOCKS:
                path.unlink(missing_ok=True)
                return None
            raise
        os.close(handle)  # its last owner removed the file in between: take the new one


def _in_use_by(folder: Path, handle: int) -> str:
    ends, number = time.monotonic() + A_MOMENT, ""
    while not number and time.monotonic() < ends:  # the lock is held before its number is written
        number = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
        time.sleep(0 if number else A_MOMENT / 100)
    who = f"process {number}" if number.isdigit() else "another process"
    return f"{folder} is in use by {who}; wait until it is done, or choose another folder."
