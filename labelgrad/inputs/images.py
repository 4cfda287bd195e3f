"""A folder of pictures: classes are subfolders, or stand in a labels file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.augment.views import Pictures
from labelgrad.encoders.base import PICTURES, Encoder, record_of
from labelgrad.encoders.cache import KeptFeatures, cache_folder
from labelgrad.inputs.base import (
    Dataset,
    Defaults,
    Encoding,
    Inputs,
    Prepared,
    Reading,
    Scale,
    Shown,
)
from labelgrad.inputs.decoding import FAILED, decode_all, pieces
from labelgrad.inputs.encoded import (
    AT_ONCE,
    Block,
    check_needed,
    chosen_encoder,
    encoder_again,
    encoder_note,
    picture_features,
    thumbnail,
)
from labelgrad.inputs.folder import labeled_files, new_files
from labelgrad.inputs.mapped import fits_memory
from labelgrad.inputs.picture_cache import decoded_once
from labelgrad.inputs.pixels import (
    LARGEST,
    Paths,
    Pixels,
    Skipped,
    choose_size,
    is_grey,
    is_picture,
    load_pictures,
    reason,
    to_grey,
    usual_side,
)
from labelgrad.inputs.table import Table
from labelgrad.inputs.targets import targets
from labelgrad.step import Views

DEFAULTS = Defaults("wrn-10-1", steps=1000, learning_rate=1e-3, vat_radius=1.0)
LARGEST_SIZE = 1024
MEASURED = 200  # pictures whose size tells that of all


class ImageFolder:
    """A folder of pictures; one picture alone will do to predict."""

    name = "pictures"
    what = "a folder of pictures"
    key = "file"
    options: tuple[str, ...] = ("labels", "size", "encoder")

    def takes(self, data: object, *, new: bool = False) -> bool:
        return isinstance(data, Path) and (data.is_dir() or (new and data.is_file()))

    def read(self, data: Path, reading: Reading) -> Dataset:
        """The pictures of a folder, all in one size, with the labels they have."""
        size = reading.size
        if size is not None and not (isinstance(size, int) and 1 <= size <= LARGEST_SIZE):
            raise ValueError(f"`size` must be from 1 to {LARGEST_SIZE} pixels, got {size}.")
        given = labeled_files(data, reading.labels, is_picture, "pictures", strict=reading.strict)
        loaded = _loaded(data, given.chosen, reading)
        names = loaded.names
        cells = [given.labels.get(name, "") for name in names]
        found = targets(cells, reading.task, given.where, folders=given.folders)
        return Dataset(
            self.name,
            loaded.x,
            found.y,
            found.task,
            found.classes,
            names,
            loaded.skipped + list(given.refused.items()),
            given.notes + found.notes + loaded.notes + given.left_out(names),
            found.preprocessing(self.name, **loaded.kept),
            [given.chosen[name] for name in names] if "blocks" in loaded.kept else None,
        )

    def inputs(self, data: object) -> Inputs:
        raise ValueError(f"Pictures are read from a folder with their labels, got {data!r}.")

    def prepare(
        self, preprocessing: dict[str, Any], data: Path, *, strict: bool, encoding: Encoding
    ) -> Prepared:
        """All pictures of a folder and its subfolders, or one picture."""
        chosen, refused = new_files(data, is_picture, "pictures", strict=strict)
        if "blocks" in preprocessing:
            block = Block.of(preprocessing["blocks"][0])
            encoder = encoder_again(block.record, encoding)
            names, features, skipped = _encode(chosen, encoder, encoding, strict=strict)
            x = block.rows(features, cache_folder(encoding.cache))
            originals = [chosen[name] for name in names]
        else:
            names, pixels, skipped = _load(chosen, preprocessing["size"], strict=strict)
            x, originals = _tensor(pixels, preprocessing["channels"]), None
        return Prepared(x, names, skipped + list(refused.items()), originals)

    def prepare_in_parts(
        self, preprocessing: dict[str, Any], data: Path, *, strict: bool, encoding: Encoding
    ) -> Iterator[Prepared]:
        """Decoded as they are needed, by several processes; features are all made before."""
        chosen, refused = new_files(data, is_picture, "pictures", strict=strict)
        if "blocks" in preprocessing:
            parts = _encoded_parts(preprocessing, chosen, encoding, strict=strict)
        else:
            parts = _decoded_parts(preprocessing, chosen, encoding, strict=strict)
        before, skipped = None, []
        for part in parts:
            skipped += part.skipped
            if part.names:
                if before is not None:
                    yield before
                before = part._replace(skipped=[])
        if before is None:
            _check_some([], chosen, skipped)
            return
        yield before._replace(skipped=skipped + list(refused.items()))

    def defaults(self, shape: Sequence[int]) -> Defaults:
        return DEFAULTS if len(shape) == 3 else ROWS.defaults(shape)

    def transform(self, preprocessing: dict[str, Any], x: Tensor) -> Scale:
        if x.ndim == 2:
            return ROWS.transform(preprocessing, x)
        return Scale(2 / 255, -1.0)  # from -1 to 1

    def views(self, shape: Sequence[int], scale: Scale, mirror: bool) -> Views:
        if len(shape) == 1:
            return ROWS.views(shape, scale, mirror)
        side = min(shape[1:])
        return Pictures(mirror=mirror, pixels=0 if side < 4 else max(1, side // 16))

    def columns(self, preprocessing: dict[str, Any]) -> list[str]:
        return []

    def show(self, preprocessing: dict[str, Any], row: NDArray[Any], original: Any = None) -> Shown:
        return Shown(row if original is None else thumbnail(original), [])

    def near(self, x: Tensor, outputs: Tensor) -> Tensor:
        """Features, or else what a model says: pixel by pixel pictures are seldom near each other.

        Two pictures of one thing have features that are near.
        """
        return x if x.ndim == 2 else outputs.reshape(len(x), -1)


ROWS = Table()  # features are trained on like the rows of a table


class _Loaded(NamedTuple):
    """Pictures as they are stored, what new ones need to be stored alike, and what to say."""

    names: list[str]
    x: Tensor
    skipped: Skipped
    kept: dict[str, Any]
    notes: list[str]


def _loaded(source: Path, chosen: Paths, reading: Reading) -> _Loaded:
    """Features where there is an encoder, else pixels."""
    size, encoding, files = reading.size, reading.encoding, list(chosen.values())
    check_needed(encoding, [PICTURES])
    natural = usual_side(files[:: -(-len(files) // MEASURED)])
    encoder, notes = chosen_encoder(encoding, PICTURES, size=size, natural=natural)
    if encoder is not None:
        names, features, skipped = _encode(chosen, encoder, encoding, strict=reading.strict)
        block = Block.fit("", record_of(encoder), features, share=1.0)
        if block.all_the_same:
            raise ValueError(
                f"{encoder.name} gives all {len(names)} pictures the same features: there is "
                f"nothing to learn from."
            )
        notes = [encoder_note(encoder, asked=bool(encoding.encoders))]
        x = block.rows(features, cache_folder(encoding.cache))
        return _Loaded(names, x, skipped, {"blocks": [block.described()]}, notes)
    side = size or choose_size(chosen)
    if fits_memory(3 * side * side * len(chosen)):
        names, pixels, skipped = _load(chosen, side, strict=reading.strict)
        x = _tensor(pixels, 1 if is_grey(pixels) else 3)
    else:
        names, x, skipped = decoded_once(
            chosen,
            side,
            source=source,
            folder=cache_folder(encoding.cache),
            strict=reading.strict,
            on_note=encoding.on_note,
            on_progress=encoding.on_decoded,
        )
    kept = {"size": side, "channels": x.shape[1]}
    notes = _size_note(side, x.shape[1], asked=size is not None) + notes
    return _Loaded(names, x, skipped, kept, notes)


def _decoded_parts(
    preprocessing: dict[str, Any], chosen: Paths, encoding: Encoding, *, strict: bool
) -> Iterator[Prepared]:
    names, files, size = list(chosen), list(chosen.values()), preprocessing["size"]
    parts, done = pieces(len(files), size), 0
    for part, found in zip(parts, decode_all([files[p] for p in parts], size), strict=True):
        lost = [name for name, kind in zip(names[part], found.kinds, strict=True) if kind == FAILED]
        skipped = list(zip(lost, found.reasons, strict=True))
        if skipped and strict:
            _refuse(*skipped[0])
        x = _tensor(found.pixels, preprocessing["channels"])
        yield Prepared(x, [name for name in names[part] if name not in lost], skipped)
        done += len(found.kinds)
        if encoding.on_decoded is not None:
            encoding.on_decoded(done, len(files))


def _encoded_parts(
    preprocessing: dict[str, Any], chosen: Paths, encoding: Encoding, *, strict: bool
) -> Iterator[Prepared]:
    block = Block.of(preprocessing["blocks"][0])
    encoder = encoder_again(block.record, encoding)
    names, features, skipped = _encode(chosen, encoder, encoding, strict=strict)
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        x = block.rows(features[start : start + AT_ONCE])
        yield Prepared(x, some, skipped, [chosen[name] for name in some])
        skipped = []


def _encode(
    chosen: Paths, encoder: Encoder, encoding: Encoding, *, strict: bool
) -> tuple[list[str], KeptFeatures, Skipped]:
    every, found = list(chosen), picture_features(encoder, list(chosen.values()), encoding)
    skipped = [(every[place], reason(error)) for place, error in found.failed.items()]
    if skipped and strict:
        _refuse(*skipped[0])
    names = [every[place] for place in found.read]
    _check_some(names, chosen, skipped)
    return names, found.kept, skipped


def _load(chosen: Paths, side: int, *, strict: bool) -> tuple[list[str], Pixels, Skipped]:
    names, pixels, skipped = load_pictures(chosen, side, strict=strict)
    _check_some(names, chosen, skipped)
    return names, pixels, skipped


def _refuse(name: str, why: str) -> NoReturn:
    raise ValueError(f"{name} cannot be read as a picture: {why}.")


def _check_some(names: list[str], chosen: Paths, skipped: Skipped) -> None:
    if not names:
        name, why = skipped[0]
        raise ValueError(f"None of the {len(chosen)} pictures can be read; {name}: {why}.")


def _tensor(pixels: Pixels, channels: int) -> Tensor:
    return torch.from_numpy(to_grey(pixels) if channels == 1 else pixels)


def _size_note(side: int, channels: int, *, asked: bool) -> list[str]:
    why = "as asked" if asked else f"the usual shorter side, at most {LARGEST}; --size for another"
    colour = "all grey" if channels == 1 else "in colour"
    return [f"Pictures are made {side}×{side} ({why}), cut to their middle, {colour}."]
