"""Files that are whole or not there at all: small ones that a person can read, and tensors.

Tensors lie in a safetensors file, which never holds any code. It carries a digest of all that is in
it, so damage is found when it is read.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

if TYPE_CHECKING:  # PyTorch takes 200 MB, and small files do without it
    from torch import Tensor

BLOCK, LONG = 2**16, 2**24  # bytes that are looked through, and digested at once
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a formula begins with in a spreadsheet

_another_writes = False


def leave_writing_to_another() -> None:
    """From now on no file of this process takes its place: of several that do the same, one writes.

    That is for life (`labelgrad.group`).
    """
    global _another_writes
    _another_writes = True


@contextmanager
def replacing(path: Path, *, only_here: bool = False) -> Iterator[Path]:
    """Where to write a new version of a file: beside it, and it takes its place when it is whole.

    The new version is forced to the disk before it is renamed, so that whenever the power fails
    there is either the old one or the new one. One that is `only_here` is written by this process
    whoever writes what all have.

    >>> from tempfile import mkdtemp
    >>> note = Path(mkdtemp(), "new", "note.txt")
    >>> with replacing(note) as half:
    ...     _ = half.write_text("whole")
    >>> note.read_text(), half.exists()
    ('whole', False)
    """
    if _another_writes and not only_here:
        with TemporaryDirectory() as nowhere:
            yield Path(nowhere) / path.name
        return
    with _half_of(path) as half:
        yield half
        _sync(half)
        half.replace(path)
        _sync(path.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file so that there is all of it or what was there before.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "note.txt")
    >>> write_whole(file, b"whole")
    >>> file.read_bytes()
    b'whole'
    """
    write_pieces(path, [content])


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file that is too long for memory, piece by piece, as `write_whole` does.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "note.txt")
    >>> write_pieces(file, [b"wh", b"ole"])
    >>> file.read_bytes()
    b'whole'
    """
    try:
        with replacing(path) as half:
            _write(half, pieces)
    except OSError as error:
        kept = "what was there before is kept" if path.exists() else "nothing was left in its place"
        raise OSError(
            f"{path} could not be written ({error.strerror or error}); {kept}."
        ) from error


def _write(path: Path, content: bytes | Iterable[bytes]) -> None:
    with path.open("wb") as file:
        for piece in [content] if isinstance(content, bytes) else content:
            file.write(piece)


def replace_all(contents: Mapping[Path, bytes | Iterable[bytes]]) -> None:
    """Write several files that belong together: every one lies on the disk before the first is new.

    Those that are too long for memory come in pieces. So a full disk leaves all as they were. They
    are renamed in their order, and a kill in the midst of that leaves some new and some old: the
    last should be one that tells (`sealed_json`).

    >>> from tempfile import mkdtemp
    >>> one, two = (Path(mkdtemp(), name) for name in ("one", "two"))
    >>> replace_all({one: b"1", two: b"2"})
    >>> one.read_bytes() + two.read_bytes()
    b'12'
    """
    if _another_writes:
        return
    path = Path()
    with ExitStack() as waiting:
        try:
            for path, content in contents.items():
                half = waiting.enter_context(_half_of(path))
                _write(half, content)
                _sync(half)
            for path in contents:
                partial_path(path).replace(path)
            for folder in {path.parent: None for path in contents}:
                _sync(folder)
        except OSError as error:
            raise OSError(f"{path} could not be written ({error.strerror or error}).") from error


def append_lines(path: Path, lines: Sequence[str]) -> None:
    r"""Add lines to a file; when this returns they are on the disk, all of them or none.

    Half a line at its end, of a process that died while it wrote, is cut off. Several processes
    may add to one file.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "lines.txt")
    >>> append_lines(file, ["one", "two"])
    >>> _ = file.write_text(file.read_text() + "thr")
    >>> append_lines(file, ["four"])
    >>> file.read_text()
    'one\ntwo\nfour\n'
    """
    if _another_writes:
        return
    text, new = "".join(line + "\n" for line in lines).encode(), not path.exists()
    # Opened each time: a file that is held open would be written to after its folder is gone.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        with _alone(handle):
            size = _whole_size(handle)
            os.ftruncate(handle, size)
            try:
                if os.write(handle, text) != len(text):
                    raise OSError("the disk took only a part of it")
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, size)
                raise
    finally:
        os.close(handle)
    if new:
        _sync(path.parent)


def _whole_size(handle: int) -> int:
    """How many bytes of a file are whole lines."""
    size = os.fstat(handle).st_size
    for end in range(size, 0, -BLOCK):
        start = max(0, end - BLOCK)
        found = os.pread(handle, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
    return 0


@contextmanager
def _alone(handle: int) -> Iterator[None]:
    """Keep other processes from writing meanwhile, where the system can."""
    try:
        import fcntl
    except ImportError:  # not on Windows: there short lines seldom meet
        yield
        return
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)


def json_bytes(value: Any) -> bytes:
    """JSON that a person can read, too; half a character, as in a path, stands by its number."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode(errors="backslashreplace")


def read_json(content: bytes) -> Any:
    """What JSON says; a ValueError if it is none, NaN and infinity among it.

    >>> read_json(b'{"a": [1]}')
    {'a': [1]}
    >>> read_json(b'{"a": NaN}')
    Traceback (most recent call last):
    ValueError: NaN is no number of JSON
    """

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no number of JSON")

    try:
        return json.loads(content, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def sealed_json(value: Mapping[str, Any]) -> bytes:
    """JSON with a digest of itself, so that damage is found when `read_sealed` reads it.

    >>> read_sealed(sealed_json({"a": 1}))
    {'a': 1}
    >>> read_sealed(sealed_json({"a": 1}).replace(b"1", b"2", 1))
    Traceback (most recent call last):
    ValueError: its content does not match its digest
    """
    return json_bytes({**value, "digest": digest_of(json_bytes(value))})


def read_sealed(content: bytes) -> dict[str, Any]:
    """What `sealed_json` wrote; a ValueError says what is wrong."""
    value = read_json(content)
    if not isinstance(value, dict) or "digest" not in value:
        raise ValueError("it has no digest")
    found = value.pop("digest")
    if digest_of(json_bytes(value)) != found or content != sealed_json(value):
        raise ValueError("its content does not match its digest")
    return value


def csv_bytes(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    spreadsheet_safe: bool = False,
    with_header: bool = True,
) -> bytes:
    r"""A table with a header, but for later parts of one; what is missing is an empty cell.

    With `spreadsheet_safe`, a text that a spreadsheet would take for a formula gets an apostrophe
    before it, and is no longer exact. Numbers stay.

    >>> csv_bytes(["row", "label"], [[1, "cat"], [2, None]])
    b'row,label\n1,cat\n2,\n'
    >>> csv_bytes(["row", "label"], [["-1", "=2+3"]], spreadsheet_safe=True)
    b"row,label\n-1,'=2+3\n"
    """
    lines: list[str] = []
    # Told that lines end in both, the writer quotes cells that have either in them.
    file = SimpleNamespace(write=lambda line: lines.append(line.removesuffix("\r\n") + "\n"))
    writer = csv.writer(file, lineterminator="\r\n")
    for row in chain([columns] if with_header else [], rows):
        writer.writerow([_harmless(cell) for cell in row] if spreadsheet_safe else row)
    return "".join(lines).encode()


def _harmless(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def write_tensors(path: Path, tensors: Mapping[str, Tensor], info: Mapping[str, Any]) -> str:
    """Put tensors, and values that JSON can hold, where there is all of them or nothing.

    Gives the digest that the file carries.

    >>> import torch
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "new" / "weights.safetensors"
    >>> digest = write_tensors(path, {"w": torch.ones(2)}, {"step": 5})
    >>> read_tensors(path)
    ({'w': tensor([1., 1.])}, {'step': 5})
    """
    from safetensors.torch import save_file

    separate, text = unshared(tensors), json.dumps(info)
    seal = digest(separate, text)
    try:
        with replacing(path) as half:
            save_file(separate, half, {"info": text, "digest": seal})
    except SafetensorError as error:
        raise OSError(str(error)) from error
    return seal


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What was written there; a ValueError says what is wrong with a file that is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    if digest(tensors, metadata.get("info", "")) != metadata.get("digest"):
        raise ValueError("its content does not match its digest")
    return tensors, json.loads(metadata["info"])


def digest_of(content: bytes) -> str:
    """A short name for these bytes and no others."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def digest_of_file(path: Path) -> str:
    """The same of a file, however long it is."""
    content = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(LONG):
            content.update(block)
    return content.hexdigest()


class Digested:
    """Pieces that are digested as they go by.

    >>> pieces = Digested([b"wh", b"ole"])
    >>> b"".join(pieces), pieces.digest == digest_of(b"whole")
    (b'whole', True)
    """

    def __init__(self, pieces: Iterable[bytes]):
        self._pieces, self._content = pieces, hashlib.blake2b(digest_size=16)

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._content.update(piece)
            yield piece

    @property
    def digest(self) -> str:
        """Of all that went by."""
        return self._content.hexdigest()


def digest(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """A short name for this content and no other.

    >>> import torch
    >>> digest({"w": torch.ones(2)}) == digest({"w": torch.ones(2)})
    True
    >>> digest({"w": torch.ones(2)}) == digest({"w": torch.ones(2, 1)})
    False
    """
    import torch

    content = hashlib.blake2b(text.encode(), digest_size=16)
    for name, value in sorted(tensors.items()):
        content.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        content.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return content.hexdigest()


def unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the CPU, each with memory of its own: tied weights are written twice."""
    seen: set[int] = set()
    separate = {}
    for name, value in tensors.items():
        value = value.detach().cpu().contiguous()
        place = value.untyped_storage().data_ptr()
        separate[name] = value.clone() if place in seen else value
        seen.add(place)
    return separate


@contextmanager
def _half_of(path: Path) -> Iterator[Path]:
    """Where a file is written before it takes its place; nothing is left there after an error."""
    half = partial_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield half
    except BaseException:
        with suppress(OSError):  # the first error is the one to tell
            half.unlink(missing_ok=True)
        raise


def partial_path(path: Path) -> Path:
    """Where a file is while it is not whole.

    >>> partial_path(Path("run/plan.json")).name
    '.plan.json.partial'
    """
    return path.with_name(f".{path.name}.partial")


def _sync(path: Path) -> None:
    """Wait until the file or folder is on the disk and not merely on its way there."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
