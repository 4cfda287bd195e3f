"""A folder of pictures: classes are subfolders, or stand in a labels file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from labelgrad.inputs.dataset import Dataset, Prepared, join_few
from labelgrad.inputs.folder import LABELS_FILE, Files, file_labels, files_in, folder_label
from labelgrad.inputs.pixels import (
    LARGEST,
    Pixels,
    choose_size,
    is_grey,
    is_picture,
    load_pictures,
    to_grey,
)
from labelgrad.inputs.targets import targets


def read_album(
    folder: Path, *, labels: Path | None, task: str | None, size: int | None, strict: bool
) -> Dataset:
    """Read the pictures of a folder, all in one size, with the labels they have."""
    files = _files(folder, strict)
    given = _given(folder, labels, files)
    chosen = {n: path for n, path in files.inside.items() if is_picture(n) or n in given.labels}
    _check_labels(folder, chosen, given)
    side = size or choose_size(chosen)
    names, pixels, skipped = load_pictures(chosen, side, strict=strict)
    _check_any(chosen, skipped)
    cells = [given.labels.get(name, "") for name in names]
    found = targets(cells, task, given.where, folders=given.folders)
    channels = 1 if is_grey(pixels) else 3
    notes = given.notes + found.notes + _size_note(side, channels, asked=size is not None)
    notes += _left_out(files, chosen, given, names)
    return Dataset(
        "pictures",
        _tensor(pixels, channels),
        found.y,
        found.task,
        found.classes,
        names,
        skipped + list(files.refused.items()),
        notes,
        found.preparation("pictures", size=side, channels=channels),
    )


def prepare_album(preparation: dict[str, Any], path: Path, *, strict: bool) -> Prepared:
    """All pictures of a folder and its subfolders, or one picture, as the old ones were made."""
    files = _files(path, strict) if path.is_dir() else Files({path.name: path}, {})
    chosen = {n: file for n, file in files.inside.items() if is_picture(n) or path.is_file()}
    if not chosen:
        raise ValueError(f"The folder {path} holds no pictures.")
    names, pixels, skipped = load_pictures(chosen, preparation["size"], strict=strict)
    _check_any(chosen, skipped)
    skipped += files.refused.items()
    return Prepared(_tensor(pixels, preparation["channels"]), names, skipped)


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


def _check_labels(folder: Path, chosen: dict[str, Path], given: _Given) -> None:
    if not chosen:
        raise ValueError(f"The folder {folder} holds no pictures.")
    if not any(given.labels.values()):
        raise ValueError(
            f"The folder {folder} does not say what its pictures show: put those of each "
            f"class into a subfolder of its own and the others into `unlabeled`, or list them in "
            f"{LABELS_FILE} with the columns file and label."
        )


def _check_any(chosen: dict[str, Path], skipped: list[tuple[str, str]]) -> None:
    if len(skipped) == len(chosen):
        name, reason = skipped[0]
        raise ValueError(f"None of the {len(chosen)} pictures can be read; {name}: {reason}.")


def _tensor(pixels: Pixels, channels: int) -> Tensor:
    return torch.from_numpy(to_grey(pixels) if channels == 1 else pixels)


def _size_note(side: int, channels: int, *, asked: bool) -> list[str]:
    why = "as asked" if asked else f"the usual shorter side, at most {LARGEST}; --size for another"
    colour = "all grey" if channels == 1 else "in colour"
    return [f"Pictures are made {side}×{side} ({why}), cut to their middle, {colour}."]


def _left_out(files: Files, chosen: dict[str, Path], given: _Given, names: list[str]) -> list[str]:
    notes = []
    lost = {given.labels.get(n) for n in chosen} - {given.labels.get(n) for n in names} - {"", None}
    if lost and given.folders:
        notes.append(
            f"Left out, because none of their pictures can be read: {join_few(sorted(map(str, lost)))}."
        )
    others = [name for name in files.inside if name not in chosen and name != LABELS_FILE]
    if others:
        notes.append(f"Not pictures by their names, and not read: {join_few(others)}.")
    return notes
