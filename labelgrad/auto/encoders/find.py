"""Encoders by name: from packages, folders, the hub's cache, or, if allowed, by download."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from labelgrad.auto.config import FitConfig
from labelgrad.auto.encoders import pretrained
from labelgrad.auto.encoders.pretrained import IMAGES, OWN, PIXELS, TEXTS, Encoder, pixel_encoder
from labelgrad.nearest import did_you_mean

NONE = "none"  # the name that turns encoders off
HUB = "https://huggingface.co/"
# Weights that contain no code, and the small files beside them.
HUB_FILES: dict[str, Any] = {
    "allow_patterns": ["*.safetensors", "*.json", "*.txt", "*.model"],
    "ignore_patterns": ["onnx/*", "openvino/*", "*/onnx/*", "*/openvino/*", "data_config.json"],
}
ADVICE = {
    IMAGES: "on 2,000 small photographs with 100 labels one reduced the error from 69 % to 35 %",
    TEXTS: "it knows words that the labeled texts do not contain",
}
Given = str | nn.Module | Encoder  # how a user may name an encoder


def choose_encoder(
    config: FitConfig, kind: str, *, natural_side: int | None = None
) -> tuple[Encoder | None, list[str]]:
    """The encoder of the configuration for images or for texts, and a note about the choice.

    Parameters
    ----------
    config
        Its `encoder` may be a name, a folder, a network, "none", or None for what
        LABELGRAD_ENCODER names, or else for the recommended one that is installed.
    kind
        IMAGES or TEXTS.
    natural_side
        The usual shorter side of the images.

    Returns
    -------
    tuple of Encoder or None, and list of str

    Examples
    --------
    >>> choose_encoder(FitConfig(encoder="none"), "texts")
    (None, [])
    """
    given, how = config.encoder, "as requested"
    if given is None:
        named = os.environ.get("LABELGRAD_ENCODER")
        given = named if named and encoder_kind(named) in (None, kind) else None
    if given is None:
        given = recommended_encoder(kind)
        how = "the recommended one that is installed; --encoder for another, or none"
    if given is None:
        return None, [
            f"No encoder of {kind} is installed ({pretrained.EXTRAS[kind]}): {ADVICE[kind]}."
        ]
    if given == NONE:
        return None, []
    found = find_encoder(kind, given, config, natural_side=natural_side)
    size = found.settings.get("size")
    scaled = f"scaled to {size}×{size}, cropped to their center, and " if size else ""
    return found, [
        f"{kind.capitalize()} are {scaled}encoded by {found.name} ({how}): {found.width} features."
    ]


def check_encoder(config: FitConfig, kind: str | None) -> None:
    """Raise ValueError for an encoder of a kind that the data do not have.

    Examples
    --------
    >>> check_encoder(FitConfig(encoder="all-minilm-l6-v2"), "images")
    Traceback (most recent call last):
    ValueError: 'all-minilm-l6-v2' is an encoder of texts, and the data have images; leave it out.
    """
    given = config.encoder
    if given in (None, NONE) or (kind and encoder_kind(given) in (None, kind)):
        return
    name = given if isinstance(given, str) else getattr(given, "name", type(given).__name__)
    takes, has = encoder_kind(given) or "images or texts", kind or "neither images nor texts"
    raise ValueError(f"{name!r} is an encoder of {takes}, and the data have {has}; leave it out.")


def recommended_encoder(kind: str) -> str | None:
    """The best encoder of a kind that is installed with its weights."""
    if kind == IMAGES:
        return next(filter(pretrained.lite_installed, pretrained.LITE), None)
    has_weights = pretrained.packaged_folder() or hub_cached(pretrained.REPOSITORY)
    return pretrained.RECOMMENDED if pretrained.library_version() and has_weights else None


def encoder_kind(given: Given) -> str | None:
    """The kind that a name or an object implies; None where it implies none.

    Examples
    --------
    >>> encoder_kind("efficientnet-lite0"), encoder_kind("some/sentence-encoder")
    ('images', 'texts')
    >>> encoder_kind("resnet50") is None
    True
    """
    if not isinstance(given, str):
        return IMAGES if isinstance(given, nn.Module) else given.kind
    folder = Path(given).expanduser()
    if folder.is_dir():
        return TEXTS if (folder / "modules.json").is_file() else None
    if "/" in given:  # the hub's names have it, timm's do not
        return TEXTS
    return {**dict.fromkeys(pretrained.LITE, IMAGES), pretrained.RECOMMENDED: TEXTS}.get(given)


def find_encoder(
    kind: str, given: Given, config: FitConfig, *, natural_side: int | None = None
) -> Encoder:
    """The encoder of a name, of a folder, or of a network.

    Parameters
    ----------
    kind
        IMAGES or TEXTS.
    given
        A name, a folder, a network that takes images, or an `Encoder`.
    config
        Its `size`, `device` and `download` matter.
    natural_side
        The usual shorter side of the images.

    Returns
    -------
    Encoder

    Raises
    ------
    ValueError
        If there is no such encoder, or if its weights are not on this machine and
        `config.download` is false.

    Examples
    --------
    >>> network = nn.Sequential(nn.AvgPool2d(4), nn.Flatten())
    >>> find_encoder("images", network, FitConfig(size=8)).width
    12
    """
    if isinstance(given, Encoder):
        return given
    size = config.size or pretrained.default_size(natural_side)
    if isinstance(given, nn.Module):
        return pretrained.image_encoder(given.to(config.device), size=size)
    if kind == TEXTS:
        return pretrained.load_text_encoder(*_folder(kind, given, config), config.device)
    if given in pretrained.LITE:
        found = pretrained.load_lite(given, size)
    else:
        folder, name = _folder(kind, given, config)
        found = pretrained.load_image_folder(folder, config.size, name)
    found.module.to(config.device)
    return found


def encoder_again(description: dict[str, Any], config: FitConfig) -> Encoder:
    """The encoder that a description describes, by its name or as the configuration has it now."""
    given, name = config.encoder, description["name"]
    if name == PIXELS:
        return pixel_encoder(description["settings"]["size"])
    if given is None and name.startswith(OWN):
        raise ValueError(
            f"The features are of your {name.removeprefix(OWN)}; pass it again as `encoder`."
        )
    sized = replace(config, size=description["settings"].get("size"))
    found = find_encoder(description["kind"], name if given is None else given, sized)
    differs = [key for key in pretrained.MATTERS if getattr(found, key) != description[key]]
    if differs:
        which = f"differs in its {' and '.join(differs)} from the fitted one"
        raise ValueError(f"The encoder {name!r} {which}; provide that one, or fit again.")
    return found


def hub_cached(repository: str) -> Path | None:
    """The folder of weights that any program has downloaded from the hub before."""
    try:
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(repository, local_files_only=True))
    except Exception:  # no such library, not in the cache, or no valid name
        return None
    return folder if any(folder.rglob("*.safetensors")) else None


def _hub_folder(repository: str, name: str, config: FitConfig) -> Path:
    cached, missing = hub_cached(repository), f"The encoder {name!r} is not on this machine"
    if cached is not None:
        return cached
    if not config.download:
        raise ValueError(f"{missing}; allow the download from {HUB}{repository} with --download.")
    try:
        from huggingface_hub import snapshot_download

        with pretrained.quiet():
            return Path(snapshot_download(repository, **HUB_FILES))
    except Exception as error:  # no network, no such name, or no library
        why = f"cannot be downloaded from {HUB}{repository} ({pretrained.one_line(error)})"
        raise ValueError(f"{missing} and {why}; provide it as a folder.") from None


def _folder(kind: str, name: str, config: FitConfig) -> tuple[Path, str]:
    """The folder of an encoder, and the encoder's name."""
    folder, packaged = Path(name).expanduser(), pretrained.packaged_folder()
    if folder.is_dir():
        return folder.resolve(), str(folder.resolve())
    if os.sep in name and (folder.is_absolute() or name.startswith(".")):
        raise ValueError(f"There is no folder {name} with the weights of an encoder.")
    repository, others = name if "/" in name else None, [*pretrained.LITE]
    if kind == TEXTS and name.casefold() == pretrained.RECOMMENDED:
        if packaged is not None:
            return packaged, pretrained.RECOMMENDED
        repository = pretrained.REPOSITORY
    elif kind == TEXTS:
        others = [pretrained.RECOMMENDED]
    elif repository is None:
        with suppress(Exception):  # not installed, or torchvision prevents its import
            timm = import_module("timm")
            others += timm.list_models()
            repository = timm.get_pretrained_cfg(name).hf_hub_id if timm.is_model(name) else None
    if not repository:
        hint = did_you_mean(name, others, f"install timm for more, or name one of {HUB}.")
        raise ValueError(f"There is no encoder of {kind} {name!r}; {hint}")
    if kind == TEXTS:
        pretrained.check_library(name)
    return _hub_folder(repository, name, config), name
