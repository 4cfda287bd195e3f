"""The run folder: one process writes it at a time, and it is read whole or not at all.

`config.json` is written before anything is fitted: the options, where the data are, and a
fingerprint of every value of them. The files of a result are written together, and `manifest.json`
with the digest of each takes its place last. So a run that is killed at any moment can be resumed,
and a folder never shows half of a result. Files that labelgrad has not written are left alone.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import labelgrad
from labelgrad.auto.config import OWN, FitConfig
from labelgrad.auto.data.dataset import Dataset
from labelgrad.auto.result import FILES, Result, read_result
from labelgrad.auto.task import Array
from labelgrad.distributed import current_group
from labelgrad.files import (
    digest_of,
    digest_of_file,
    digested,
    read_sealed,
    replace_all,
    sealed_json,
    write_whole,
)
from labelgrad.reasons import reason_of

try:
    import fcntl
except ImportError:  # Windows: two processes are not kept apart
    fcntl = None  # type: ignore[assignment]

FORMAT = 5
MANIFEST, CONFIG, LOCK = "manifest.json", "config.json", ".lock"
CHECKPOINTS = "checkpoints"
PATHS = ("labels", "cache", "weak_labels")  # options that may name a file
NOT_TRAINED_WITH = ("workers", "model_timeout", "keep_ensemble", "cache", "download", "strict")
RESTORE = "put it back as it was, or resume the run (labelgrad fit --resume)"
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # of file systems without locks
ROWS_AT_ONCE = 2**14


@dataclass(frozen=True)
class Manifest:
    """The digests of a result's files, and the way to read such a file.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> write_result_files(folder, {"note.txt": b"whole"})
    >>> Manifest.of(folder).read("note.txt")
    b'whole'
    """

    folder: Path
    files: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path) -> Manifest:
        """The manifest of a finished run; an error says what the folder holds instead."""
        if not folder.is_dir():
            raise FileNotFoundError(f"There is no run folder {folder}.")
        if not (folder / MANIFEST).is_file():
            if (folder / CONFIG).is_file():
                _read_sealed(folder / CONFIG)  # it may be of an earlier version
            raise FileNotFoundError(f"{folder} holds no finished run: {MANIFEST} is missing.")
        files = _read_sealed(folder / MANIFEST).get("files")
        if not isinstance(files, dict) or any(
            Path(name).is_absolute() or ".." in Path(name).parts for name in files
        ):
            raise ValueError(f"{folder / MANIFEST} lists files elsewhere; fit into another folder.")
        return cls(folder, {name: str(one) for name, one in files.items()})

    def read(self, name: str, most: int | None = None) -> bytes:
        """The content of a file, if it is as it was written and has at most so many bytes."""
        path = self.folder / name
        with self.using(name):
            if path.exists() and not path.is_file():  # a pipe would be waited for
                raise ValueError("it is not a file")
            if most is not None and path.stat().st_size > most:
                raise ValueError(f"it has more than {most} bytes")
            content = path.read_bytes()
            if digest_of(content) != self.files.get(name):
                raise ValueError("it is damaged or of another result")
        return content

    @contextmanager
    def using(self, name: str, hint: str = RESTORE) -> Iterator[None]:
        """Turn whatever is wrong with a file into one sentence that names it."""
        try:
            yield
        except ModuleNotFoundError as error:
            needed = f"{error.name}, which is not installed; pip install {error.name}"
            raise ImportError(f"{self.folder / name} needs {needed}.") from None
        except ImportError:
            raise
        except Exception as error:  # of safetensors, skops, PyTorch or polars, over many lines
            reason = getattr(error, "strerror", None) or reason_of(error)
            if isinstance(error, ValueError) and str(self.folder) in reason:  # it names a file
                raise
            raise ValueError(f"{self.folder / name} cannot be used ({reason}); {hint}.") from None


def write_result_files(folder: Path, contents: Mapping[str, bytes | Iterable[bytes]]) -> None:
    """Write the files of a result, long ones in pieces, and their manifest last.

    Files of the result before that the new one does not have are removed, if nobody changed them.
    """
    before: Mapping[str, str] = {}
    with suppress(ValueError, OSError):
        before = Manifest.of(folder).files if (folder / MANIFEST).exists() else {}
    seen = {name: hashlib.blake2b(digest_size=16) for name in contents}

    def manifest() -> Iterator[bytes]:  # runs after all others have been written
        digests = {name: content.hexdigest() for name, content in seen.items()}
        about = {"format": FORMAT, "version": labelgrad.__version__}
        yield sealed_json(about | {"files": digests})

    files = {folder / name: digested(content, seen[name]) for name, content in contents.items()}
    replace_all({**files, folder / MANIFEST: manifest()})
    for name in before.keys() - contents.keys():
        with suppress(OSError):
            if digest_of_file(folder / name) == before[name]:
                (folder / name).unlink()


@dataclass(eq=False)
class RunFolder:
    """A folder that a fit writes into, or none; use `RunFolder.open`.

    >>> with RunFolder.open(None) as run:
    ...     run.resolve(None, {"seed": 3}).seed
    3
    """

    folder: Path | None
    saved: Mapping[str, Any] = field(default_factory=dict)  # config.json of the run that is resumed
    options: frozenset[str] = frozenset()  # those that were given now
    key: str = ""  # of all that the checkpoints depend on
    checkpoints: Path | None = None  # where trainings save their states

    @classmethod
    @contextmanager
    def open(cls, out: str | Path | None, *, resume: bool = False) -> Iterator[RunFolder]:
        """Be the only process that writes into a new folder, or into that of a run to resume."""
        if out is None:
            yield cls(None)
            return
        folder, group = Path(out), current_group()
        if resume and not folder.is_dir():
            raise FileNotFoundError(f"There is no run folder {folder} to resume.")
        resume = resume or group.restarted
        group.on_rank_zero(lambda: _check_usable(folder, resume=resume))
        with in_use(None if group.rank else folder):
            saved = group.on_rank_zero(lambda: _check_usable(folder, resume=resume))
            yield cls(folder, saved)

    def resolve(self, config: FitConfig | None, options: Mapping[str, Any]) -> FitConfig:
        """The options of the run that is resumed, overridden by those that are given now."""
        config = config or FitConfig()
        if not self.saved:
            return config.override(options)
        changed = (f.name for f in fields(config) if getattr(config, f.name) != f.default)
        given = {name: getattr(config, name) for name in changed} | dict(options)
        self.options, saved = frozenset(given), self.saved["config"]
        try:
            resolved = FitConfig.from_dict(saved).override(given)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.folder}/{CONFIG} cannot be used ({error}).") from None
        for each in fields(resolved):
            if each.name not in given and f'"{OWN}"' in json.dumps(saved.get(each.name)):
                raise ValueError(
                    f"{self.folder} was begun with an object as `{each.name}`; give it again."
                )
        return resolved

    def begin(self, config: FitConfig, data: Any, dataset: Dataset, raw: Dataset) -> None:
        """Record the options and the data; refuse data that differ from those of the run.

        Parameters
        ----------
        config
            The resolved options.
        data
            What `fit` was given.
        dataset
            The examples with annotations.
        raw
            The examples as they were read.

        """
        if self.folder is None:
            return
        found = fingerprint(raw)
        if self.saved and found != self.saved["fingerprint"]:
            raise ValueError(
                f"The data differ from those that the run in {self.folder} was begun with; give "
                f"the same data, or fit into another folder."
            )
        options = config.to_dict()
        options |= {name: str(Path(options[name]).resolve()) for name in PATHS if name in options}
        trained_with = {k: v for k, v in options.items() if k not in NOT_TRAINED_WITH}
        weak = None if config.weak_labels is None else digest_of_file(Path(config.weak_labels))
        if self.saved.get("weak_labels") not in (None, weak) and "weak_labels" not in self.options:
            hint = "put it back, or name it again with `weak_labels`"
            raise ValueError(f"{config.weak_labels} has changed since the run was begun; {hint}.")
        everything = [trained_with, found, weak, digest_of(np.asarray(dataset.y).tobytes())]
        self.key = digest_of(json.dumps(everything).encode())[:12]
        # Found again while nothing else changes; absolute for other processes, too.
        self.checkpoints = self.folder.absolute() / CHECKPOINTS / self.key / "networks"
        before = [key for key in self.saved.get("checkpoints", []) if key != self.key]
        self.saved = {
            "format": FORMAT,
            "version": labelgrad.__version__,
            "config": options,
            "data": str(Path(data).resolve()) if isinstance(data, str | Path) else None,
            "fingerprint": found,
            "weak_labels": weak,
            "encoders": dict(dataset.encoders or {}),
            "checkpoints": [*before, self.key],
        }
        write_whole(self.folder / CONFIG, sealed_json(self.saved))

    def save(self, result: Result) -> Result:
        """Write the result, all of it or nothing, and give the same result with its folder."""
        if self.folder is None:
            return result
        folder = self.folder
        current_group().on_rank_zero(lambda: write_result_files(folder, result.contents()))
        for place in (self.folder / CHECKPOINTS).glob("*"):
            if place.name != self.key and place.name in self.saved["checkpoints"]:
                shutil.rmtree(place, ignore_errors=True)
        return replace(result, folder=self.folder)


def load(path: str | Path, network: Any = None, **options: Any) -> Result:
    """The result in a run folder.

    Parameters
    ----------
    path
        The run folder.
    network
        The network, with whatever weights, if it was an `nn.Module` of your own.
    options
        Options of `fit` that are to be others than those of the run, such as `cache`.

    Returns
    -------
    Result
        What `fit` returned; it predicts the same.

    """
    return read_result(Manifest.of(Path(path)), network, options)


def _read_sealed(path: Path) -> dict[str, Any]:
    """What a JSON file of this format holds; an error says what to do with another one."""
    try:
        saved = read_sealed(path.read_bytes())
        if saved.get("format") != FORMAT:
            raise ValueError(
                f"it is by labelgrad {saved.get('version')} in format {saved.get('format')}, and "
                f"this is {labelgrad.__version__} with format {FORMAT}"
            )
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged, of an earlier version of labelgrad or of a later one ({error}); "
            f"fit again into another folder."
        ) from None
    return saved


def _check_usable(folder: Path, *, resume: bool) -> dict[str, Any]:
    """What a folder has saved of a run to resume; an error where a fit cannot write into it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"A run needs a folder, and {folder} is a file; choose another.")
    path = folder / CONFIG
    if not path.exists():
        foreign = [name for name in (*FILES, MANIFEST) if (folder / name).exists()]
        if foreign:
            what = f"a {foreign[0]} but no {CONFIG} of a run"
            raise ValueError(f"{folder} holds {what}; choose another folder.")
        return {}
    if not resume:
        raise ValueError(f"{folder} already holds a run; use --resume, or choose another folder.")
    saved = _read_sealed(path)
    for name, kind in (("config", dict), ("fingerprint", str), ("checkpoints", list)):
        if not isinstance(saved.get(name), kind):
            raise ValueError(f"{path} is damaged (no {name}); fit again into another folder.")
    return saved


def fingerprint(dataset: Dataset) -> str:
    """A digest of everything that was read: features, labels, ids, classes, preprocessing."""
    content = hashlib.blake2b(digest_size=16)
    about = [dataset.task.to_dict(), asdict(dataset.preprocessor)]
    content.update(json.dumps(about, sort_keys=True).encode())
    for array in (dataset.X, dataset.y, dataset.raw, dataset.groups):
        if array is not None:
            content.update(f"{array.dtype} {array.shape}".encode())
            for start in range(0, len(array), ROWS_AT_ONCE):
                part: Array = np.ascontiguousarray(array[start : start + ROWS_AT_ONCE])
                content.update(part.data)
    for start in range(0, len(dataset), ROWS_AT_ONCE):
        rows = range(start, min(start + ROWS_AT_ONCE, len(dataset)))
        content.update(json.dumps([dataset.ids[row] for row in rows]).encode())
    return content.hexdigest()


@contextmanager
def in_use(folder: Path | None) -> Iterator[None]:
    """Be the only process that writes into a folder; a ValueError names the one that does.

    The system releases the lock of a process that dies. A folder that was made for the lock is
    removed if nothing was written into it.
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


def _lock(folder: Path) -> int | None:
    """An open file that holds the lock, with this process's number in it."""
    path = folder / LOCK
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}".encode())
                return handle
        except OSError as error:
            owner = os.pread(handle, 20, 0).decode("ascii", "replace") or "that has just begun"
            os.close(handle)
            if isinstance(error, BlockingIOError):
                wait = "wait until it is done, or choose another folder"
                raise ValueError(f"{folder} is in use by process {owner}; {wait}.") from None
            if error.errno not in NO_LOCKS:
                raise
            path.unlink(missing_ok=True)
            return None
        os.close(handle)  # its last owner removed the file in between: take the new one
