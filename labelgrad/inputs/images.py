"""A folder of pictures: classes are subfolders, or stand in a labels file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from labelgrad.augment.views import Pictures
from labelgrad.inputs.base import (
    Dataset,
    Defaults,
    Inputs,
    Prepared,
    Reading,
    Scale,
    Shown,
    join_few,
)
from labelgrad.inputs.folder import LABELS_FILE, Files, file_labels, files_in, folder_label
from labelgrad.inputs.pixels import (
    LARGEST,
    Paths,
    Pixels,
    Skipped,
    choose_size,
    is_grey,
    is_picture,
    load_pictures,
    to_grey,
)
from labelgrad.inputs.targets import targets
from labelgrad.step import Views

DEFAULTS = Defaults("wrn-10-1", steps=1000, learning_rate=1e-3, vat_radius=1.0)
LARGEST_SIZE = 1024


class ImageFolder:
    """A folder of pictures; one picture alone will do to predict."""

    name = "pictures"
    what = "a folder of pictures"
    key = "file"
    options: tuple[str, ...] = ("labels", "size")

    def takes(self, data: object, *, new: bool = False) -> bool:
        return isinstance(data, Path) and (data.is_dir() or (new and data.is_file()))

    def read(self, data: Path, reading: Reading) -> Dataset:
        """The pictures of a folder, all in one size, with the labels they have."""
        size = reading.size
        if size is not None and not (isinstance(size, int) and 1 <= size <= LARGEST_SIZE):
            raise ValueError(f"`size` must be from 1 to {LARGEST_SIZE} pixels, got {size}.")
        files = _files(data, reading.strict)
        given = _given(data, reading.labels, files)
        chosen = {n: path for n, path in files.inside.items() if is_picture(n) or n in given.labels}
        if not chosen:
            raise ValueError(f"The folder {data} holds no pictures.")
        if not any(given.labels.values()):
            raise ValueError(
                f"The folder {data} does not say what its pictures show: put those of each "
                f"class into a subfolder of its own and the others into `unlabeled`, or list them "
                f"in {LABELS_FILE} with the columns file and label."
            )
        side = size or choose_size(chosen)
        names, pixels, skipped = _load(chosen, side, strict=reading.strict)
        cells = [given.labels.get(name, "") for name in names]
        found = targets(cells, reading.task, given.where, folders=given.folders)
        channels = 1 if is_grey(pixels) else 3
        notes = given.notes + found.notes + _size_note(side, channels, asked=size is not None)
        return Dataset(
            self.name,
            _tensor(pixels, channels),
            found.y,
            found.task,
            found.classes,
            names,
            skipped + list(files.refused.items()),
            notes + _left_out(files, chosen, given, names),
            found.preprocessing(self.name, size=side, channels=channels),
        )

    def inputs(self, data: object) -> Inputs:
        raise ValueError(f"Pictures are read from a folder with their labels, got {data!r}.")

    def prepare(self, preprocessing: dict[str, Any], data: Path, *, strict: bool) -> Prepared:
        """All pictures of a folder and its subfolders, or one picture."""
        files = _files(data, strict) if data.is_dir() else Files({data.name: data}, {})
        chosen = {n: file for n, file in files.inside.items() if is_picture(n) or data.is_file()}
        if not chosen:
            raise ValueError(f"The folder {data} holds no pictures.")
        names, pixels, skipped = _load(chosen, preprocessing["size"], strict=strict)
        skipped += files.refused.items()
        return Prepared(_tensor(pixels, preprocessing["channels"]), names, skipped)

    def defaults(self, shape: Sequence[int]) -> Defaults:
        return DEFAULTS

    def transform(self, preprocessing: dict[str, Any], x: Tensor) -> Scale:
        return Scale(2 / 255, -1.0)  # from -1 to 1

    def views(self, shape: Sequence[int], scale: Scale, mirror: bool) -> Views:
        side = min(shape[1:])
        return Pictures(mirror=mirror, pixels=0 if side < 4 else max(1, side // 16))

    def columns(self, preprocessing: dict[str, Any]) -> list[str]:
        return []

    def show(self, preprocessing: dict[str, Any], row: NDArray[Any]) -> Shown:
        return Shown(row, [])

    def near(self, x: Tensor, outputs: Tensor) -> Tensor:
        """What a model says: pictures of one thing are seldom near each other pixel by pixel."""
        return outputs.reshape(len(x), -1)


def _files(folder: Path, strict: bool) -> Files:
    files = files_in(folder)
    if strict and files.refused:
        name, reason = next(iter(files.refused.items()))
        raise ValueError(f"{name} cannot be read: {reason}.")
    return files


class _Given(NamedTuple):
    """The label of each file, where it stands, whether by folders, and what to say."""

    labels: dict[str, str]
    where: str
    folders: bool
    notes: list[str]


def _given(folder: Path, labels: Path | None, files: Files) -> _Given:
    if labels is None and LABELS_FILE in files.refused:
        raise ValueError(f"{LABELS_FILE} cannot be read: {files.refused[LABELS_FILE]}.")
    if labels is None and LABELS_FILE not in files.inside:
        by_folder = {name: folder_label(name) for name in files.inside if is_picture(name)}
        loose = sum("/" not in name for name in by_folder)
        notes = [f"Pictures outside the subfolders are unlabeled: {loose}."] if loose else []
        return _Given(by_folder, f"The folder {folder}", True, notes)
    path = labels or files.inside[LABELS_FILE]
    if not path.is_file():
        raise FileNotFoundError(f"There is no labels file {path}.")
    note = f"Labels are those in {path.name}; files it does not list have none."
    return _Given(file_labels(path, files), path.name, False, [note])


def _load(chosen: Paths, side: int, *, strict: bool) -> tuple[list[str], Pixels, Skipped]:
    names, pixels, skipped = load_pictures(chosen, side, strict=strict)
    if not names:
        name, reason = skipped[0]
        raise ValueError(f"None of the {len(chosen)} pictures can be read; {name}: {reason}.")
    return names, pixels, skipped


def _tensor(pixels: Pixels, channels: int) -> Tensor:
    return torch.from_numpy(to_grey(pixels) if channels == 1 else pixels)


def _size_note(side: int, channels: int, *, asked: bool) -> list[str]:
    why = "as asked" if asked else f"the usual shorter side, at most {LARGEST}; --size for another"
    colour = "all grey" if channels == 1 else "in colour"
    return [f"Pictures are made {side}×{side} ({why}), cut to their middle, {colour}."]


def _left_out(files: Files, chosen: Paths, given: _Given, names: list[str]) -> list[str]:
    notes = []
    lost = {given.labels.get(n) for n in chosen} - {given.labels.get(n) for n in names} - {"", None}
    if lost and given.folders:
        names_lost = join_few(sorted(map(str, lost)))
        notes.append(f"Left out, because none of their pictures can be read: {names_lost}.")
    others = [name for name in files.inside if name not in chosen and name != LABELS_FILE]
    if others:
        notes.append(f"Not pictures by their names, and not read: {join_few(others)}.")
    return notes
