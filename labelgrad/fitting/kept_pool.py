"""The pool kept in a run folder, beside the student: who is in it, and how much each counts.

`pool/pool.json` names the witnesses with their weights, files and the files' digests. It is written
last, and read first: a file that is not the one it names is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

import labelgrad
from labelgrad.files import digest_of, json_bytes, read_json
from labelgrad.fitting.kept_witness import (
    ENDINGS,
    MOST_BYTES,
    OPINIONS,
    Asked,
    Packed,
    Silence,
    pack,
    unpack,
)
from labelgrad.fitting.pooling import Pooled, said_by_each
from labelgrad.fitting.predictor import Config, Predictor
from labelgrad.fitting.run_folder import read_digests
from labelgrad.inputs.base import Scale
from labelgrad.plain_values import built
from labelgrad.witnesses.base import Array, Opinion
from labelgrad.witnesses.pool import Pool

FORMAT = 1
POOL, INDEX = "pool", "pool.json"
MOST_OF_INDEX = 2**24  # bytes
AGAIN = "fit again with --resume --keep-pool"
NOBODY = ""  # the name of one who says nothing, so that a pool is never empty


@dataclass(frozen=True)
class Entry:
    """A witness in `pool.json`."""

    name: str
    kind: str
    weight: float
    file: str | None = None
    digest: str | None = None
    settings: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.kind not in (*ENDINGS, OPINIONS):
            raise ValueError(f"it names a witness {self.name!r} of kind {self.kind!r}")
        if not 0 <= self.weight < math.inf:
            raise ValueError(f"it gives {self.name!r} the weight {self.weight}")
        if self.kind == OPINIONS:
            return
        if not re.fullmatch(r"[a-z0-9-]+\.(skops|safetensors|json)", self.file or ""):
            raise ValueError(f"it names a file {self.file!r}")
        if not all(isinstance(number, int | float) for number in self.settings.values()):
            raise ValueError(f"it gives {self.name!r} the settings {self.settings}")


@dataclass(frozen=True, eq=False)
class PackedPool:
    """A pool as its files will hold it; `notes` say who is left out."""

    index: dict[str, Any]
    files: dict[str, bytes]
    notes: list[str]

    def contents(self) -> dict[str, bytes]:
        """The files of the pool by their names in a run folder."""
        files = {f"{POOL}/{name}": content for name, content in self.files.items()}
        return files | {f"{POOL}/{INDEX}": json_bytes(self.index)}

    def tidy(self, folder: Path) -> None:
        """Take away what was of an older pool."""
        for path in (folder / POOL).iterdir():
            if path.suffix in ENDINGS.values() and path.name not in (*self.files, INDEX):
                path.unlink()


@dataclass(frozen=True, eq=False)
class KeptPool:
    """Witnesses that were read from files, and what they say together."""

    opinions: Mapping[str, Opinion]
    pool: Pool
    transform: Scale

    def of_new(self, x: Tensor, raw: Tensor | None = None) -> Array:
        """What the pool says of examples as they were read, as `Pooled.of_new` does."""
        return self.pool.combined(said_by_each(self.opinions, x, self.transform, raw))


def check_can_keep(folder: Path | None) -> None:
    """Refuse at once what would fail after the training."""
    if folder is None:
        raise ValueError("`keep_pool` needs a folder to keep the pool in; give `out`, too.")
    _check_skops("Keeping the pool")


def has_pool(folder: Path | None) -> bool:
    """Whether a run folder keeps its pool."""
    return folder is not None and (folder / POOL / INDEX).is_file()


def pack_pool(pooled: Pooled, config: Config) -> PackedPool:
    """The witnesses that have a weight, each as a file; those that cannot be kept get a note."""
    entries, files, notes = [], {}, []
    for heard in pooled.heard:
        weight = pooled.pool.weights[heard.name]
        if not weight:
            continue
        try:
            packed = _packed(heard.opinion)
        except Exception as error:  # of any library; the others can be kept
            notes.append(_left_out(heard.name, weight, error))
            continue
        if packed.content is None:
            entries.append(Entry(heard.name, packed.kind, weight))
            continue
        file = f"{len(entries) + 1}-{_plain(heard.name)}{ENDINGS[packed.kind]}"
        digest, settings = digest_of(packed.content), packed.settings
        files[file] = packed.content
        entries.append(Entry(heard.name, packed.kind, weight, file, digest, settings))
    index = {
        "format": FORMAT,
        "labelgrad": labelgrad.__version__,
        "scikit-learn": _sklearn_version(),
        "run": _about(config),
        "known": pooled.pool.known.tolist(),
        "shares": pooled.pool.shares.tolist(),
        "witnesses": [asdict(entry) for entry in entries],
    }
    return PackedPool(index, files, notes)


def load_pool(folder: Path, predictor: Predictor) -> KeptPool:
    """The pool of a run folder; `predictor` is the folder's student."""
    place, config = folder / POOL, predictor.config
    index, entries = _read_index(folder)
    if index["run"] != json.loads(json_bytes(_about(config))):
        raise ValueError(f"{place} is of another run than the model beside it; {AGAIN}.")
    if any(entry.file is not None and entry.file.endswith(".skops") for entry in entries):
        _check_skops(f"The pool in {place}")
    known, shares = np.array(index["known"], dtype=float), np.array(index["shares"], dtype=float)
    asked = Asked(len(config.classes), known, config.scale, predictor.model)
    opinions: dict[str, Opinion] = {NOBODY: Silence(known)}
    for entry in entries:
        opinions[entry.name] = _read_witness(place, entry, asked, index["scikit-learn"])
    weights = {NOBODY: 0.0} | {entry.name: entry.weight for entry in entries}
    return KeptPool(opinions, Pool(weights, known, shares), config.transform)


def _packed(opinion: Opinion) -> Packed:
    packed = pack(opinion)
    size = len(packed.content or b"")
    if size > MOST_BYTES:
        raise ValueError(f"it has {size} bytes, and {MOST_BYTES} are the most")
    return packed


def _left_out(name: str, weight: float, error: Exception) -> str:
    reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
    return (
        f"The kept pool is without the witness {name!r} and its weight of {weight:.2f}: {reason}; "
        f"the weights of the others are as they were."
    )


def _about(config: Config) -> dict[str, Any]:
    """What the pool and the model beside it must share: the classes, the transform and so on."""
    names = ["kind", "task", "classes", "network", "shape", "factor", "shift", "mean", "spread"]
    found = {name: getattr(config, name) for name in names}
    return found | {"preprocessing": digest_of(json_bytes(config.preprocessing))}


def _read_index(folder: Path) -> tuple[dict[str, Any], list[Entry]]:
    """What `pool.json` says, checked."""
    path = folder / POOL / INDEX
    if not path.is_file():
        raise FileNotFoundError(f"{folder} keeps no pool; {AGAIN}.")
    content = read_digests(folder).read(f"{POOL}/{INDEX}", MOST_OF_INDEX)
    try:
        index = read_json(content)
        found, version = index["format"], index["labelgrad"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged ({error}); {AGAIN}.") from None
    if found != FORMAT:
        raise ValueError(
            f"{path} was written by labelgrad {version} in format {found}, and this is "
            f"{labelgrad.__version__} with format {FORMAT}; {AGAIN}, or use that version."
        )
    try:
        entries = [built(Entry, entry, "a witness") for entry in index["witnesses"]]
        _check_shares(index["known"], index["shares"], len(index["run"]["classes"]))
        index["scikit-learn"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged ({error}); {AGAIN}.") from None
    return index, entries


def _check_shares(known: list[float], shares: list[float], classes: int) -> None:
    if len(known) != classes or len(shares) != classes or not all(s > 0 for s in known + shares):
        raise ValueError(f"it needs shares of {classes} classes")


def _read_witness(place: Path, entry: Entry, asked: Asked, version: str) -> Opinion:
    """The opinion of an entry, from its file if it has one."""
    content = None
    if entry.file is not None:
        content = _read(place / entry.file, MOST_BYTES)
        if digest_of(content) != entry.digest:
            raise ValueError(
                f"{place / entry.file} is damaged or of another run than {INDEX} beside it; "
                f"{AGAIN}."
            )
    try:
        return unpack(Packed(entry.kind, content, entry.settings), asked)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"The witness {entry.name!r} in {place} needs {error.name}, which is not installed; "
            f"pip install {error.name}."
        ) from None
    except Exception as error:  # of safetensors, skops, CatBoost or PyTorch, over many lines
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".:")
        other = _sklearn_version() != version
        hint = f"; it is of scikit-learn {version}, and this is {_sklearn_version()}"
        raise ValueError(
            f"{place / str(entry.file)} cannot be used ({reason}){hint if other else ''}; {AGAIN}."
        ) from None


def _read(path: Path, most: int) -> bytes:
    """The content of a file that is not larger than it may be."""
    try:
        size = path.stat().st_size
        if size <= most:
            return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}); {AGAIN}.") from None
    raise ValueError(f"{path} must have at most {most} bytes, got {size}; {AGAIN}.")


def _check_skops(what: str) -> None:
    if find_spec("skops") is None:
        raise ImportError(
            f"{what} needs skops, which is not installed; pip install 'labelgrad[pool]'."
        )


def _sklearn_version() -> str:
    import sklearn

    return str(sklearn.__version__)


def _plain(name: str) -> str:
    """A name that any file system takes.

    >>> _plain("network by lga+vat")
    'network-by-lga-vat'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "witness"
