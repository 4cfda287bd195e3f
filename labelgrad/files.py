"""Files that are whole or absent, never half written: small ones that people read, and tensors.

Tensors are in a safetensors file, which never holds any code. It carries a digest of its content,
so damage is found when it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

if TYPE_CHECKING:  # PyTorch takes 200 MB, and small files do without it
    from torch import Tensor

_writing_disabled = False


def disable_writing() -> None:
    """Write no more files in this process: of several that do the same, rank zero writes.

    There is no way back (`labelgrad.distributed`).
    """
    global _writing_disabled
    _writing_disabled = True


def write_whole(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file so that there is all of it or what was there before.

    One that is too long for memory comes in pieces.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "note.txt")
    >>> write_whole(file, b"whole")
    >>> file.read_bytes()
    b'whole'
    """
    replace_all({path: content})


def replace_all(contents: Mapping[Path, bytes | Iterable[bytes]]) -> None:
    """Write several files that belong together: all are on the disk before the first is renamed.

    Those that are too long for memory come in pieces. So a full disk leaves all as they were. They
    are renamed in their order, and a kill in between leaves some new and some old: the last should
    be one that tells them apart (`sealed_json`).

    >>> from tempfile import mkdtemp
    >>> one, two = (Path(mkdtemp(), name) for name in ("one", "two"))
    >>> replace_all({one: b"1", two: b"2"})
    >>> one.read_bytes() + two.read_bytes()
    b'12'
    """
    if _writing_disabled:
        return
    path = Path()
    unfinished = {path: path.with_name(f".{path.name}.partial") for path in contents}
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with unfinished[path].open("wb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
            _sync(unfinished[path])
        for path in contents:
            unfinished[path].replace(path)
        for folder in {path.parent: None for path in contents}:
            _sync(folder)
    except OSError as error:
        before = "the earlier file is kept" if path.exists() else "nothing was left there"
        reason = error.strerror or error
        raise OSError(f"{path} could not be written ({reason}); {before}.") from error
    finally:
        for place in unfinished.values():
            with suppress(OSError):  # the first error is the one to raise
                place.unlink(missing_ok=True)


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
    if _writing_disabled:
        return
    text, new = "".join(line + "\n" for line in lines).encode(), not path.exists()
    # Opened each time: a file that is held open would be written to after its folder is gone.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        with suppress(ImportError):  # not on Windows: there short lines seldom meet
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)  # until it is closed
        size = os.pread(handle, os.fstat(handle).st_size, 0).rfind(b"\n") + 1
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
    if not isinstance(value, dict) or value.pop("digest", None) is None:
        raise ValueError("it has no digest")
    if content != sealed_json(value):
        raise ValueError("its content does not match its digest")
    return value


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
    from safetensors.torch import save

    separate, text = unshared(tensors), json.dumps(info)
    seal = digest(separate, text)
    write_whole(path, save(separate, {"info": text, "digest": seal}))
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
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise OSError(f"{path} is not a file.")
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=16)).hexdigest()


def digested(content: bytes | Iterable[bytes], into: hashlib.blake2b) -> Iterator[bytes]:
    """The pieces of a content, digested as they go by.

    >>> into = hashlib.blake2b(digest_size=16)
    >>> b"".join(digested([b"wh", b"ole"], into)), into.hexdigest() == digest_of(b"whole")
    (b'whole', True)
    """
    for piece in [content] if isinstance(content, bytes) else content:
        into.update(piece)
        yield piece


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


def _sync(path: Path) -> None:
    """Wait until the file or folder is on the disk and not merely on its way there."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
